"""Points in embedding space at which a gradient is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from didact.errors import ParameterError
from didact.types import Floats

if TYPE_CHECKING:
    from torch import Tensor

RULES = ("gauss_legendre", "midpoint", "right")


@dataclass(frozen=True, eq=False)
class Line:
    """Points start + alpha (end - start), made when asked for."""

    start: Tensor
    end: Tensor
    alphas: Floats

    def __len__(self) -> int:
        return len(self.alphas)

    def __getitem__(self, indices: slice) -> Tensor:
        alphas = self.end.new_tensor(self.alphas[indices])[:, None, None]
        return self.start + alphas * (self.end - self.start)


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
