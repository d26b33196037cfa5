"""Linear-chain conditional random fields: all positions at once, by pairwise products of their transition matrices.

Emissions are (..., L, T): for each of L positions and T tags. The leading axes are any, such as students and examples.
The weights of a chain may have only the first of them; they hold for the rest.

A position where the mask is false does not exist: the chain goes from the last position before it to the first one
after it. Texts may so begin late, have gaps, hold one position or none; of none the log-likelihood is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Gather = Callable[[Tensor, int], Tensor]
"""Combines the values of several tags over one axis: their log-sum, or their maximum."""


@dataclass(frozen=True, eq=False)
class Chain:
    """Weights of a chain of tags.

    Attributes:
        transitions: from tag to tag (..., T, T).
        start: of the first tag (..., T).
        end: of the last tag (..., T).
    """

    transitions: Tensor
    start: Tensor
    end: Tensor


def log_likelihood(emissions: Tensor, tags: Tensor, mask: Tensor, chain: Chain) -> Tensor:
    """Logarithm of p(tags) (...); ``tags`` (..., L) may be anything where the mask is false."""
    steps, end = _steps(emissions, mask, chain)
    return _path(steps, end, tags, mask) - _gathered(steps, end, _log_sum)


def best(emissions: Tensor, mask: Tensor, chain: Chain) -> Tensor:
    """The most likely tags (..., L); -1 where the mask is false.

    The derivative of the highest score with respect to the emissions is 1 along a sequence that has it and 0 elsewhere.
    """
    with torch.inference_mode(False), torch.enable_grad():
        free = emissions.detach().clone().requires_grad_()
        fixed = Chain(*(part.detach().clone() for part in (chain.transitions, chain.start, chain.end)))
        steps, end = _steps(free, mask.clone(), fixed)
        (taken,) = torch.autograd.grad(_gathered(steps, end, _maximum).sum(), free)
    return torch.where(mask, taken.argmax(-1), -1)


# Inside, tags and positions come first and the leading axes last, where they lie side by side in memory: what is done
# for all of them is done over long rows.


def _steps(emissions: Tensor, mask: Tensor, chain: Chain) -> tuple[Tensor, Tensor]:
    """What a position adds to a path from the tag before to its own (T, T, L, ...), and what a last tag adds (T, ...).

    The first position comes from no tag: its step is the same from each, and the path begins at tag 0 by convention. A
    position that does not exist keeps the tag and adds nothing.
    """
    emissions = emissions.to(torch.promote_types(emissions.dtype, torch.float32))
    added = emissions.movedim((-1, -2), (0, 1))  # (T, L, ...)
    exists = mask.movedim(-1, 0)  # (L, ...)
    first = exists & (exists.cumsum(0) == 1)
    axes = added.dim() - 2
    between = _spread(chain.transitions, 2, axes)[:, :, None]  # (T, T, 1, ...)
    before = _spread(chain.start, 1, axes)[None, :, None]  # (1, T, 1, ...)
    steps = torch.where(first, before, between) + added
    # Not minus infinity, whose derivative is not a number; its exponential is zero all the same.
    kept = torch.full((len(added),) * 2, -1e30, dtype=steps.dtype, device=steps.device).fill_diagonal_(0.0)
    return torch.where(exists, steps, _spread(kept, 2, axes)[:, :, None]), _spread(chain.end, 1, axes).to(steps.dtype)


def _spread(weights: Tensor, own: int, axes: int) -> Tensor:
    """Weights (first axes, own axes) as (own axes, all axes): ones stand for the axes they do not have."""
    turned = weights.movedim(tuple(range(-own, 0)), tuple(range(own)))
    return turned.reshape(*turned.shape, *[1] * (axes + own - weights.dim()))


def _gathered(steps: Tensor, end: Tensor, gather: Gather) -> Tensor:
    """All paths combined (...): neighbours are joined until one is left, so that L steps take log2 L rounds."""
    while steps.shape[2] > 1:
        even = steps.shape[2] // 2 * 2
        left, right, rest = steps[:, :, 0:even:2], steps[:, :, 1:even:2], steps[:, :, even:]
        joined = gather(left[:, :, None] + right[None], 1)  # over the tag between them
        steps = torch.cat([joined, rest], dim=2)
    return gather(steps[0, :, 0] + end, 0)


def _path(steps: Tensor, end: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """Sum along a path through the steps (...); positions that do not exist keep the tag before them."""
    exists = mask.movedim(-1, 0)
    places = torch.arange(len(exists), device=mask.device).reshape(-1, *[1] * (exists.dim() - 1))
    last = torch.where(exists, places, 0).cummax(0).values
    tags = torch.where(exists, tags.movedim(-1, 0), 0).gather(0, last)  # (L, ...)
    before = torch.cat([torch.zeros_like(tags[:1]), tags[:-1]])
    ways = steps.flatten(0, 1).gather(0, (before * len(steps) + tags)[None])[0]
    ended = end.expand(len(steps), *tags.shape[1:]).gather(0, tags[-1:])[0]
    return ways.sum(0) + ended


def _log_sum(values: Tensor, axis: int) -> Tensor:
    return values.logsumexp(axis)


def _maximum(values: Tensor, axis: int) -> Tensor:
    return values.max(axis).values  # its derivative goes to one of several equal ones, not to each a share
