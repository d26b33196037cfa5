"""From the attention of all layers and heads to one number per token, and from queries and keys without a matrix."""

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


def mean_query_logits(query: Tensor, key: Tensor, share: Tensor, scaling: float, seen: Tensor | None = None) -> Tensor:
    """Mean over chosen queries of their attention logits for each key: (rows, heads, keys).

    A mean of dot products is the dot product with the mean, so that no (heads, queries, keys) matrix is made.
    Differentiable any number of times.

    Args:
        query: (rows, heads, queries, dim).
        key: (rows, heads, keys, dim); with fewer heads, each serves as many heads of the queries.
        share: weights of the queries, zeros for those left out: (rows, queries).
        scaling: factor of the dot products.
        seen: which queries see a key, (rows or 1, queries, keys), where not all see it: each key's mean is then over
            the queries that do. None for all.
    """
    with torch.autocast(query.device.type, enabled=False):
        wide = torch.promote_types(query.dtype, torch.float32)
        query, key, share = query.to(wide), key.to(wide), share.to(wide)
        grouped = (key.shape[1], -1, key.shape[-1])  # heads of the queries that share a key head, dim
        if seen is None:
            mean = torch.einsum("rq,rhqd->rhd", _normed(share), query) * scaling
            return (mean.view(len(mean), *grouped) @ key.transpose(-1, -2)).flatten(1, 2)
        weights = _normed(share[:, None] * seen.transpose(-1, -2))  # (rows, keys, queries)
        means = weights @ query.transpose(1, 2).flatten(2) * scaling  # (rows, keys, heads x dim): heads share weights
        return torch.einsum("rkngd,rnkd->rngk", means.view(*means.shape[:2], *grouped), key).flatten(1, 2)


def _normed(weights: Tensor) -> Tensor:
    """Divided by their sum over the last axis; zeros stay zeros."""
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total > 0, total, 1.0)
