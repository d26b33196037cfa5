"""Fast attention with a tap on the probabilities of one layer, or on the scores of all heads.

Every layer uses torch's fused kernel. Inside ``tapped_attention``, the chosen layer's probabilities are computed once
more from its queries and keys: a single row where that is enough, which costs next to nothing. Inside
``tapped_heads``, every layer's mean query is compared with its keys: it gives the mean over queries of q . k without a
matrix of attention. Observing all layers (``didact.models.attention``) would make each of them slow.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from didact.models.attention import goes_through_interface

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "didact_attention_tap"

Queries = Literal["first", "all"]
"""Whose attention is recorded: that of the first position, or of all."""


class Tap(Protocol):
    """Is shown the queries and keys of every layer, in order."""

    def record(self, query: Tensor, key: Tensor, mask: Tensor | None, scaling: float) -> None:
        """Take what is wanted: queries (rows, heads, L, D), keys (rows, key heads, L, D), and the mask."""


@dataclass
class AttentionTap:
    """Which attention to record, and, after a forward pass, the record.

    Attributes:
        layer: number of the layer, from 0.
        queries: whose attention.
        probabilities: mean over heads (rows, 1 or L, L).
    """

    layer: int
    queries: Queries
    probabilities: Tensor | None = None
    passed: int = field(default=0, repr=False)

    def record(self, query: Tensor, key: Tensor, mask: Tensor | None, scaling: float) -> None:
        """Probabilities, where this is the layer."""
        if self.passed == self.layer:
            self.probabilities = _probabilities(query, key, mask, scaling, self.queries)
        self.passed += 1


@dataclass
class HeadTap:
    """Scores of all heads: scaling * (mean query over some positions) . key.

    Attributes:
        positions: whose queries count (rows, L), bool.
        layers: scores of each layer (rows, heads, L), in order.
    """

    positions: Tensor
    layers: list[Tensor] = field(default_factory=list)

    def record(self, query: Tensor, key: Tensor, mask: Tensor | None, scaling: float) -> None:
        """Scores of a layer's heads."""
        with torch.autocast(query.device.type, enabled=False):
            precision = torch.promote_types(query.dtype, torch.float32)
            share = self.positions.to(precision) / self.positions.sum(-1, keepdim=True).clamp_min(1)
            mean = share[:, None, None] @ query.to(precision)  # (rows, heads, 1, D)
            grouped = (mean * scaling).view(len(key), key.shape[1], -1, key.shape[-1])  # queries that share a key head
            self.layers.append((grouped @ key.to(precision).transpose(-1, -2)).flatten(1, 2))

    @property
    def scores(self) -> Tensor:
        """(rows, layers * heads, L), layer by layer."""
        return torch.cat(self.layers, 1)


_TAP: ContextVar[Tap | None] = ContextVar("didact_attention_tap", default=None)


def use_attention_tap(model: PreTrainedModel) -> bool:
    """Switch a model to this attention; False, and no change, where it does not go through Transformers' interface."""
    if not goes_through_interface(model):
        return False
    _register()
    model.set_attn_implementation(NAME)
    return True


@contextlib.contextmanager
def tapped_attention(layer: int, queries: Queries) -> Iterator[AttentionTap]:
    """Record the attention of one layer in the forward pass inside the block."""
    tap = AttentionTap(layer, queries)
    with _shown_to(tap):
        yield tap


@contextlib.contextmanager
def tapped_heads(positions: Tensor) -> Iterator[HeadTap]:
    """Record the scores of all heads in the forward pass inside the block.

    Args:
        positions: whose queries count (rows, L), bool.
    """
    tap = HeadTap(positions)
    with _shown_to(tap):
        yield tap


@contextlib.contextmanager
def _shown_to(tap: Tap) -> Iterator[None]:
    token = _TAP.set(tap)
    try:
        yield
    finally:
        _TAP.reset(token)


def attend(  # noqa: PLR0913 - the signature is Transformers'
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **unused: object,
) -> tuple[Tensor, None]:
    """Attention over (batch, heads, tokens, dim) with a boolean mask or none."""
    tap = _TAP.get()
    if tap is not None:
        tap.record(query, key, attention_mask, query.shape[-1] ** -0.5 if scaling is None else scaling)
    causal = attention_mask is None and query.shape[2] > 1 and bool(getattr(module, "is_causal", False))
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


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a key is seen and the lowest number where it is not."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)


def _probabilities(query: Tensor, key: Tensor, mask: Tensor | None, scaling: float, queries: Queries) -> Tensor:
    """Mean over heads of the attention of the first or of all queries: (rows, 1 or L, L)."""
    if queries == "first":
        query = query[:, :, :1]
        mask = None if mask is None else mask[:, :, :1]
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    with torch.autocast(query.device.type, enabled=False):
        precision = torch.promote_types(query.dtype, torch.float32)
        logits = query.to(precision) @ key.to(precision).transpose(-1, -2) * scaling
        if mask is not None:
            logits = logits + _additive(mask, logits.dtype)
        return logits.softmax(-1).mean(1)


@functools.cache
def _register() -> None:
    """Make our attention known to Transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, bidirectional_mask_function, sdpa_mask

    def mask(*args: object, **kwargs: object) -> Tensor | None:
        given = kwargs.get("attention_mask")
        if kwargs.get("mask_function") is bidirectional_mask_function and isinstance(given, Tensor):
            # One row for all queries. Testing whether there is any padding, as Transformers does, waits for the GPU.
            return given.bool()[:, None, None, :]
        kwargs["allow_is_bidirectional_skip"] = False
        return cast("Callable[..., Tensor | None]", sdpa_mask)(*args, **kwargs)

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, mask)
