"""Points in embedding space at which a gradient is taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from didact.errors import ParameterError
from didact.protocols import Points
from didact.types import Floats, Units

Ints = NDArray[np.int64]

RULES = ("gauss_legendre", "midpoint", "right")


@dataclass(frozen=True, eq=False)
class Line:
    """Points start + alpha (end - start), computed when indexed."""

    start: Tensor
    end: Tensor
    alphas: Floats

    def __len__(self) -> int:
        return len(self.alphas)

    def __getitem__(self, indices: slice) -> Tensor:
        alphas = self.end.new_tensor(self.alphas[indices])[:, None, None]
        return self.start + alphas * (self.end - self.start)


@dataclass(frozen=True, eq=False)
class OneByOne:
    """A line for each of some positions, one after the other: points equal to ``end`` but there, between the two."""

    start: Tensor
    end: Tensor
    positions: Ints
    alphas: Floats

    def __len__(self) -> int:
        return len(self.positions) * len(self.alphas)

    def __getitem__(self, indices: slice) -> Tensor:
        lines, steps = np.divmod(np.arange(len(self))[indices], len(self.alphas))
        where = self.positions[lines]
        alphas = self.end.new_tensor(self.alphas[steps])[:, None]
        points = self.end.repeat(len(where), 1, 1)
        points[np.arange(len(where)), where] = self.start[where] + alphas * (self.end - self.start)[where]
        return points


@dataclass(frozen=True, eq=False)
class OwnPosition:
    """Weights for ``OneByOne``: those of the line at the position that moves, 0 elsewhere: (k, tokens, 1)."""

    lines: OneByOne
    weights: Floats

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, indices: slice) -> Tensor:
        lines, steps = np.divmod(np.arange(len(self))[indices], len(self.weights))
        end = self.lines.end
        placed = end.new_zeros(len(steps), len(end), 1)
        placed[np.arange(len(steps)), self.lines.positions[lines], 0] = end.new_tensor(self.weights[steps])
        return placed


@dataclass(frozen=True, eq=False)
class Noisy:
    """Points round ``centre``, normal noise added at some positions.

    Each point is drawn from a seed of its own, so that any of them can be made without the others.
    """

    centre: Tensor
    positions: Ints
    deviation: float
    seeds: Ints

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, indices: slice) -> Tensor:
        seeds = self.seeds[indices]
        points = self.centre.repeat(len(seeds), 1, 1)
        shape = (len(self.positions), self.centre.shape[-1])
        noise = np.empty((len(seeds), *shape), dtype=np.float32)
        for own, seed in zip(noise, seeds, strict=True):
            np.random.default_rng(seed).standard_normal(dtype=np.float32, out=own)
        points[:, _as_slice(self.positions)] += torch.from_numpy(noise).to(points) * self.deviation
        return points


def _as_slice(positions: Ints) -> slice | Ints:
    """A run of positions as a slice, which is read and written without copies."""
    first, count = int(positions[0]), len(positions)
    return slice(first, first + count) if (np.diff(positions) == 1).all() else positions


@dataclass(frozen=True, eq=False)
class Towards:
    """Points at alpha k of the way from each of many starts to their one end."""

    ways: Ways
    alphas: Floats

    def __len__(self) -> int:
        return len(self.alphas)

    def __getitem__(self, indices: slice) -> Tensor:
        ways = self.ways[indices]
        return self.ways.end - (1 - ways.new_tensor(self.alphas[indices])[:, None, None]) * ways


@dataclass(eq=False)
class Ways:
    """Differences end - start k.

    Where they are both the way to a point and its weight, they are read twice in a row: the second read returns the
    tensor of the first, which is then dropped.
    """

    starts: Points
    end: Tensor
    _cached: tuple[slice, Tensor] | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, indices: slice) -> Tensor:
        known, self._cached = self._cached, None
        if known is not None and known[0] == indices:
            return known[1]
        self._cached = indices, self.end - self.starts[indices]
        return self._cached[1]


@dataclass(frozen=True, eq=False)
class Followed:
    """Points, followed by others."""

    points: Points
    others: Points

    def __len__(self) -> int:
        return len(self.points) + len(self.others)

    def __getitem__(self, indices: slice) -> Tensor:
        start, stop, _ = indices.indices(len(self))
        first = len(self.points)
        parts = [self.points[start : min(stop, first)]] if start < first else []
        if stop > first:
            parts.append(self.others[max(start, first) - first : stop - first])
        return torch.cat(parts)


def covered(units: Units) -> Ints:
    """The token positions that belong to a unit, in order."""
    return np.array(sorted(position for own in units.positions for position in own), dtype=np.int64)


def single(point: Tensor) -> Line:
    """Just one point."""
    return Line(point, point, np.ones(1))


def quadrature(rule: str, steps: int) -> tuple[Floats, Floats]:
    """Nodes in [0, 1] and weights that add up to 1."""
    if rule not in RULES:
        raise ParameterError(f"unknown rule {rule!r}; allowed: {', '.join(RULES)}")
    if rule == "gauss_legendre":
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        return (nodes + 1) / 2, weights / 2
    shift = 0.5 if rule == "midpoint" else 1.0
    return (np.arange(steps) + shift) / steps, np.full(steps, 1.0 / steps)
