"""Orders of units drawn from scores: the Plackett-Luce model, and the sets that its orders begin with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Masks = NDArray[np.bool_]

SHARES = tuple(share / 10 for share in range(1, 10))
"""Of the units, which come first where nothing is drawn."""
ABSENT = -1e4
"""Logit of a unit that is not there: it comes last in every order, and gradients stay finite."""


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders of each text's units, as far as they were drawn.

    Attributes:
        first: which units come first, in each order: (orders, units) per text.
        log_p: log-probability of these, in this order: (texts, orders).
    """

    first: list[Masks]
    log_p: Tensor


def drawn_orders(logits: Tensor, present: Tensor, many: int, generator: torch.Generator, most: float = 1.0) -> Orders:
    """Draw orders of each text's units, each up to a place that all orders of the text share.

    Args:
        logits: (texts, units), of the Plackett-Luce model.
        present: which units there are, at least two per text.
        many: orders per text.
        generator: on the CPU.
        most: share of the units that are drawn at most, but one at least.
    """
    count = present.sum(1)
    shape = (len(logits), many, logits.shape[1])
    uniform = torch.rand(shape, generator=generator).clamp(1e-7, 1 - 1e-7).to(logits)
    known = logits.masked_fill(~present, ABSENT)
    noisy = known.detach()[:, None] - torch.log(-torch.log(uniform))  # the order of Gumbel-perturbed logits
    order = noisy.argsort(-1, descending=True)
    drawn = torch.rand(len(logits), generator=generator).to(logits)
    last = (drawn * (most * (count - 1)).clamp_min(1)).long()  # number of the last unit that is drawn, from 0
    sorted_logits = logits[:, None].expand(shape).gather(2, order)
    there = torch.arange(shape[2], device=logits.device) < count[:, None, None]
    rest = sorted_logits.masked_fill(~there, ABSENT).flip(-1).logcumsumexp(-1).flip(-1)
    steps = torch.where(there, sorted_logits - rest, 0.0).cumsum(-1)
    log_p = steps.gather(2, last[:, None, None].expand(-1, many, 1))[..., 0]
    first = (order.argsort(-1) <= last[:, None, None]).cpu().numpy()
    sizes = count.tolist()
    return Orders([own[:, :size] for own, size in zip(first, sizes, strict=True)], log_p)


def own_orders(logits: Tensor, present: Tensor) -> list[Masks]:
    """The first units by the logits themselves, for several shares of all: (shares, units) per text."""
    made = []
    for own, known in zip(logits.detach().cpu().numpy(), present.cpu().numpy(), strict=True):
        place = (-own[known]).argsort(kind="stable").argsort()
        counts = np.unique([min(max(1, round(share * len(place))), len(place) - 1) for share in SHARES])
        made.append(place < counts[:, None])
    return made
