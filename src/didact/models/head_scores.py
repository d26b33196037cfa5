"""What each attention head looks at, without its attention matrix.

The mean over queries of q . k is (mean q) . k, so that a head's score of every position costs one vector. The network
keeps torch's fused attention: a function registered with Transformers' ``AttentionInterface`` takes the scores from
queries and keys on their way there.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from didact.errors import ParameterError
from didact.models.attention import switched
from didact.models.batch import Encoded, Ints
from didact.models.eval_mode import evaluating
from didact.models.planner import Budget, run
from didact.models.readers.base import AnyReader
from didact.ops.heads import mean_query_logits, visible
from didact.ops.units import mean_to_units
from didact.types import Units

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "didact_head_scores"


@dataclass
class HeadWatch:
    """Scores of one forward pass.

    Attributes:
        share: weights of the queries of each row: (rows, positions).
        layers: numbers of the layers to keep; None for all.
        scores: of the kept layers, in order: (rows, heads, positions) each.
        passed: layers so far.
    """

    share: Tensor
    layers: frozenset[int] | None = None
    scores: list[Tensor] = field(default_factory=list)
    passed: int = 0

    def see(self, query: Tensor, key: Tensor, scaling: float | None, seen: Tensor | None) -> None:
        """Keep the scores of the next layer."""
        if self.layers is None or self.passed in self.layers:
            factor = query.shape[-1] ** -0.5 if scaling is None else scaling
            self.scores.append(mean_query_logits(query, key, self.share, factor, seen))
        self.passed += 1


_WATCH: ContextVar[HeadWatch | None] = ContextVar("didact_head_watch", default=None)


def head_scores(
    reader: AnyReader, codes: Sequence[Encoded], units: Sequence[Units], budget: Budget, layers: Sequence[int]
) -> list[Tensor]:
    """Scores of the units by the heads of chosen layers, (layers x heads, units) per example, on the CPU.

    A score is the mean attention logit of the unit's positions, over queries at the positions of all units; in
    decoders and local attention over those that see the key.

    Args:
        reader: of the network.
        codes: the encoded examples.
        units: of the examples.
        budget: positions per batch.
        layers: numbers of the layers, from 0, in the order that is wanted.
    """
    network = reader.network
    base = cast("Callable[..., object]", getattr(network, "base_model", network))
    lengths = np.array([len(code) for code in codes], dtype=np.int64)
    rising = sorted(set(layers))
    order = [rising.index(layer) for layer in layers]
    kept: dict[int, Tensor] = {}

    def evaluate(rows: Ints) -> None:
        share = torch.from_numpy(_covered([units[row] for row in rows], int(lengths[rows].max())))
        with watched(network, HeadWatch(share.to(reader.device), frozenset(rising))) as watch:
            base(**reader.whole([codes[row] for row in rows]))
        seen = torch.stack([watch.scores[place] for place in order]).transpose(0, 1).flatten(1, 2).cpu()
        made = [mean_to_units(units[row], own) for row, own in zip(rows, seen, strict=True)]
        kept.update(zip(rows.tolist(), made, strict=True))

    with evaluating(network), torch.inference_mode():
        run("reading heads", lengths, budget, True, evaluate)
    return [kept[number].clone() for number in range(len(codes))]  # made outside of inference mode: may be learnt from


def layer_numbers(layers: Sequence[int] | None, depth: int) -> list[int]:
    """Numbers of the chosen layers from 0 on; negative ones count from the last, None is all."""
    if layers is None:
        return list(range(depth))
    wrong = [number for number in layers if not -depth <= number < depth]
    if wrong or not len(layers):
        given = f"layer {wrong[0]} does not exist" if wrong else "no layer was chosen"
        raise ParameterError(f"{given}; the model has {depth} layers, numbered 0 to {depth - 1}")
    return [number % depth for number in layers]


@contextlib.contextmanager
def watched(model: nn.Module, watch: HeadWatch) -> Iterator[HeadWatch]:
    """Collect head scores of the forward pass inside the block, in fused attention."""
    token = _WATCH.set(watch)
    try:
        with switched(cast("PreTrainedModel", model), NAME, attend, _register):
            yield watch
    finally:
        _WATCH.reset(token)


def attend(  # noqa: PLR0913 - the signature is Transformers'
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **unused: object,
) -> tuple[Tensor, None]:
    """Fused attention over (batch, heads, positions, dim) that shows its queries and keys to the watch."""
    follows = bool(getattr(module, "is_causal", False) if is_causal is None else is_causal)
    causal = attention_mask is None and query.shape[2] > 1 and follows
    watch = _WATCH.get()
    if watch is not None:
        watch.see(query, key, scaling, _seen(query.shape[2], attention_mask, causal, query.device))
    output = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=dropout if module.training else 0.0,
        is_causal=causal,
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return output.transpose(1, 2).contiguous(), None


def _seen(size: int, mask: Tensor | None, causal: bool, device: torch.device) -> Tensor | None:
    """Which queries see which keys, (rows or 1, queries, keys); None where all queries see the same ones."""
    if causal:
        return torch.ones(1, size, size, dtype=torch.bool, device=device).tril()
    if mask is None or mask.shape[-2] == 1:
        return None
    return mask[:, 0] if mask.dtype == torch.bool else visible(mask[:, 0])


def _covered(units: Sequence[Units], width: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """1 at the positions that a unit covers, else 0: (rows, width)."""
    share = np.zeros((len(units), width), dtype=np.float32)
    for row, own in zip(share, units, strict=True):
        row[[place for positions in own.positions for place in positions]] = 1
    return share


@functools.cache
def _register() -> None:
    """Make our attention known to Transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, fused_mask)


def fused_mask(*args: object, **kwargs: object) -> Tensor | None:
    """Transformers' boolean mask, but a single row for all queries where these see the same keys."""
    from transformers.masking_utils import bidirectional_mask_function, sdpa_mask

    given = kwargs.get("attention_mask")
    if kwargs.get("mask_function") is bidirectional_mask_function and isinstance(given, Tensor):
        return given.bool()[:, None, None, :]
    return cast("Callable[..., Tensor | None]", sdpa_mask)(*args, **kwargs)
