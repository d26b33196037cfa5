"""From any numbers to weights that sum to 1: softmax, and two that give most of them exactly 0.

Plain tensor operations, so that gradients can be taken twice.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from didact.errors import ParameterError

Normaliser = Literal["sparsemax", "entmax15", "softmax", "none"]


def simplex(z: Tensor, how: Normaliser, dim: int = -1) -> Tensor:
    """Weights by the normaliser's name; "none" leaves the numbers as they are."""
    if how == "sparsemax":
        return sparsemax(z, dim)
    if how == "entmax15":
        return entmax15(z, dim)
    if how == "softmax":
        return z.softmax(dim)
    if how == "none":
        return z
    raise ParameterError(f"normalise must be one of {', '.join(get_args(Normaliser))}, got {how!r}")


def sparsemax(z: Tensor, dim: int = -1) -> Tensor:
    """The nearest point of the simplex, p = max(z - tau, 0), with tau such that p sums to 1 (Martins, Astudillo 2016).

    The support is chosen without a gradient. Inside it, tau is the mean of z less 1 / size, which is differentiated.
    """
    z = z.movedim(dim, -1)
    with torch.no_grad():
        falling = z.sort(-1, descending=True).values
        counts = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        size = (1 + counts * falling > falling.cumsum(-1)).sum(-1, keepdim=True)
        kept = z >= falling.gather(-1, size - 1)
    tau = (torch.where(kept, z, 0.0).sum(-1, keepdim=True) - 1) / kept.sum(-1, keepdim=True)
    return torch.where(kept, z - tau, 0.0).movedim(-1, dim)


def entmax15(z: Tensor, dim: int = -1) -> Tensor:
    """Between softmax and sparsemax: p = max(z / 2 - tau, 0)^2 with p summing to 1 (Peters, Niculae, Martins 2019).

    On a support of k numbers with mean m and sum of squared deviations s, tau = m - sqrt((1 - s) / k).
    """
    z = z.movedim(dim, -1)
    x = (z - z.max(-1, keepdim=True).values.detach()) / 2  # the solution does not change, and squares stay small
    with torch.no_grad():
        falling = x.sort(-1, descending=True).values
        counts = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
        mean = falling.cumsum(-1) / counts
        spread = (falling.square().cumsum(-1) / counts - mean.square()) * counts
        size = (mean - ((1 - spread) / counts).clamp(min=0).sqrt() <= falling).sum(-1, keepdim=True)
        kept = x >= falling.gather(-1, size - 1)
    count = kept.sum(-1, keepdim=True)
    mean = torch.where(kept, x, 0.0).sum(-1, keepdim=True) / count
    spread = torch.where(kept, x - mean, 0.0).square().sum(-1, keepdim=True)
    tau = mean - ((1 - spread) / count).sqrt()
    return torch.where(kept, x - tau, 0.0).square().movedim(-1, dim)


def unnormalised(weights: Tensor, how: Normaliser) -> Tensor:
    """Numbers that the normaliser turns into these weights, which sum to 1 along the last axis.

    Softmax has no weights of 0: they become 1e-4 times the largest.
    """
    if how == "entmax15":
        return 2 * weights.sqrt()
    if how == "softmax":
        return weights.clamp(min=float(weights.max()) * 1e-4).log()
    return weights
