"""Torch's fused attention with a tap on the queries and keys of every layer.

Registered with Transformers' ``AttentionInterface``. Whoever wants to know what heads look at computes it once more
from their queries and keys, which is cheap where no matrix is needed. Observing the probabilities of all layers
(``didact.models.attention``) makes each of them slow.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from didact.ops.heads import mean_query_logits, visible

NAME = "didact_fused"


class Tap(Protocol):
    """Is shown the queries and keys of every layer, in order."""

    def record(self, query: Tensor, key: Tensor, mask: Tensor | None, scaling: float) -> None:
        """Take what is wanted.

        Args:
            query: (rows, heads, queries, dim).
            key: (rows, key heads, keys, dim).
            mask: which keys are seen, boolean or added to the logits: (rows or 1, 1, queries or 1, keys).
            scaling: factor of the dot products.
        """


T = TypeVar("T", bound=Tap)

_TAP: ContextVar[Tap | None] = ContextVar("didact_tap", default=None)


@contextlib.contextmanager
def tapped(tap: T) -> Iterator[T]:
    """Show the forward passes inside the block, of models that use this attention, to a tap."""
    token = _TAP.set(tap)
    try:
        yield tap
    finally:
        _TAP.reset(token)


@dataclass
class HeadTap:
    """Scores of all heads: scaling * (mean query over some positions) . key.

    Where attention is causal or local, each key's mean is over the queries that see it.

    Attributes:
        share: weights of the queries, such as 1 where they count and 0 elsewhere: (rows, L).
        layers: numbers of the layers to keep; None for all.
        kept: scores of each kept layer, in order: (rows, heads, L).
    """

    share: Tensor
    layers: frozenset[int] | None = None
    kept: list[Tensor] = field(default_factory=list)
    passed: int = field(default=0, repr=False)

    def record(self, query: Tensor, key: Tensor, mask: Tensor | None, scaling: float) -> None:
        """Scores of the next layer's heads."""
        if self.layers is None or self.passed in self.layers:
            self.kept.append(mean_query_logits(query, key, self.share, scaling, _seen(mask)))
        self.passed += 1

    @property
    def scores(self) -> Tensor:
        """(rows, layers * heads, L), layer by layer."""
        return torch.cat(self.kept, 1)


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
    """Attention over (batch, heads, positions, dim) with a mask or none."""
    follows = bool(getattr(module, "is_causal", False) if is_causal is None else is_causal)
    causal = attention_mask is None and query.shape[2] > 1 and follows
    tap = _TAP.get()
    if tap is not None:
        mask = _triangle(query) if causal else attention_mask
        tap.record(query, key, mask, query.shape[-1] ** -0.5 if scaling is None else scaling)
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


def fused_mask(*args: object, **kwargs: object) -> Tensor | None:
    """Transformers' boolean mask, but a single row for all queries where these see the same keys."""
    from transformers.masking_utils import bidirectional_mask_function, sdpa_mask

    given = kwargs.get("attention_mask")
    if kwargs.get("mask_function") is bidirectional_mask_function and isinstance(given, Tensor):
        # Testing whether there is any padding, as Transformers does, waits for the GPU.
        return given.bool()[:, None, None, :]
    kwargs["allow_is_bidirectional_skip"] = False
    return cast("Callable[..., Tensor | None]", sdpa_mask)(*args, **kwargs)


@functools.cache
def register_fused() -> None:
    """Make this attention known to Transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, fused_mask)


def _triangle(query: Tensor) -> Tensor:
    """Each query sees the keys up to its own position: (1, 1, queries, keys)."""
    size = query.shape[2]
    return torch.ones(1, 1, size, size, dtype=torch.bool, device=query.device).tril()


def _seen(mask: Tensor | None) -> Tensor | None:
    """Which queries see which keys, (rows or 1, queries, keys); None where all queries see the same ones."""
    if mask is None or mask.shape[-2] == 1:
        return None
    return mask[:, 0] if mask.dtype == torch.bool else visible(mask[:, 0])
