"""From the attention of all layers and heads to one number per token."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from didact.errors import ParameterError

HIDDEN_BELOW = -1e4
"""Masks add the dtype's lowest number (-65504 in half precision) to a hidden key's logit; no real one comes near."""


def select_heads(heads: Tensor, layer: int | Literal["all"], head: int | Literal["all"]) -> Tensor:
    """One layer or the mean over all, one head or the mean over all: (layers, heads, tokens) -> (tokens,)."""
    for name, index, size in (("layer", layer, len(heads)), ("head", head, heads.shape[1])):
        if index != "all" and not -size <= index < size:
            raise ParameterError(f"{name} {index} does not exist; the model has {size} {name}s")
    chosen = heads.mean(0) if layer == "all" else heads[layer]
    return chosen.mean(0) if head == "all" else chosen[head]


def mean_visible(logits: Tensor) -> Tensor:
    """Mean over the queries that see a key: (..., queries, keys) -> (..., keys)."""
    seen = visible(logits)
    return torch.where(seen, logits, 0).sum(-2) / seen.sum(-2).clamp(min=1)


def visible(logits: Tensor) -> Tensor:
    """Which attention logits belong to a key that its query may see."""
    return logits > HIDDEN_BELOW
