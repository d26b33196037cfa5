"""Students' attention: fused in every layer, with a tap on the probabilities of one, or on the scores of all heads.

Inside ``tapped_attention``, the chosen layer's probabilities are computed once more from its queries and keys: a single
row where that is enough, which costs next to nothing. Inside ``tapped_heads``, every layer's mean query is compared
with its keys: it gives the mean over queries of q . k without a matrix of attention.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from didact.models.attention import goes_through_interface
from didact.models.fused_attention import NAME, HeadTap, register_fused, tapped

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Queries = Literal["first", "all"]
"""Whose attention is recorded: that of the first position, or of all."""


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


def use_attention_tap(model: PreTrainedModel) -> bool:
    """Switch a model to this attention; False, and no change, where it does not go through Transformers' interface."""
    if not goes_through_interface(model):
        return False
    register_fused()
    model.set_attn_implementation(NAME)
    return True


@contextlib.contextmanager
def tapped_attention(layer: int, queries: Queries) -> Iterator[AttentionTap]:
    """Record the attention of one layer in the forward pass inside the block."""
    with tapped(AttentionTap(layer, queries)) as tap:
        yield tap


@contextlib.contextmanager
def tapped_heads(positions: Tensor) -> Iterator[HeadTap]:
    """Record the scores of all heads in the forward pass inside the block.

    Args:
        positions: whose queries count (rows, L), bool.
    """
    with tapped(HeadTap(positions)) as tap:
        yield tap


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
