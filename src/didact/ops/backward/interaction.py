"""Gradient interaction modifications (GIM): gradients that see through self-repair."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from didact.ops.backward.relevance import frozen_norm
from didact.ops.backward.rules import Pull, Rules


class Interaction(Rules):
    """Softer softmax gradients, frozen norms, and gradients divided among the factors of a product.

    Args:
        temperature: the softmax Jacobian is taken at logits divided by this.
    """

    frozen: ClassVar[frozenset[str]] = frozenset({"rsqrt"})  # the scale of an RMS norm that is written out

    def __init__(self, temperature: float = 2.0) -> None:
        self.temperature = temperature

    def product(self, g: Tensor, pull: Pull, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Half the gradient to each factor."""
        return pull(g / 2, a, b)

    def softmax(self, g: Tensor, z: Tensor, dim: int) -> Tensor:
        """The Jacobian p (1 - p') of the flatter distribution, without a further factor 1/temperature."""
        return super().softmax(g, z / self.temperature, dim)

    def norm(self, g: Tensor, x: Tensor, dims: tuple[int, ...], eps: float, centred: bool) -> Tensor:
        """The standard deviation counts as a constant."""
        return frozen_norm(g, x, dims, eps, centred)
