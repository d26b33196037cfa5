"""The rules of AttnLRP, written for gradient x input: relevance is the propagated quantity times the activation."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from didact.ops.backward.rules import Pointwise, Pull, Rules, vjp

_ZERO = 1e-6


class Relevance(Rules):
    """Identity rule at nonlinearities, uniform rule at products, gradient at softmax, norms as linear maps.

    Args:
        epsilon: stabiliser of linear layers: relevance z/(z + epsilon sign z) of it is passed on; 0 passes on all.
    """

    frozen: ClassVar[frozenset[str]] = frozenset({"rsqrt"})  # the scale of an RMS norm that is written out

    def __init__(self, epsilon: float = 0.0) -> None:
        self.epsilon = epsilon

    def activation(self, g: Tensor, function: Pointwise, x: Tensor) -> Tensor:
        """The input takes over the output's relevance: g y = (g y/x) x.

        The derivative stays where x is 0, and for functions that do not go through the origin (sigmoid).
        """
        if function(x.new_zeros(1)).item() != 0:
            return self.curve(g, function, x)
        small = x.abs() < _ZERO
        ratio = function(x) / x.masked_fill(small, 1.0)
        if small.any():
            ratio[small] = vjp(function, torch.ones_like(x[small]), x[small])[0]
        return g * ratio

    def product(self, g: Tensor, pull: Pull, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Half the relevance to each factor."""
        return pull(g / 2, a, b)

    def norm(self, g: Tensor, x: Tensor, dims: tuple[int, ...], eps: float, centred: bool) -> Tensor:
        """Centring, which is linear, and division by a standard deviation that counts as a constant."""
        return frozen_norm(g, x, dims, eps, centred)


def frozen_norm(g: Tensor, x: Tensor, dims: tuple[int, ...], eps: float, centred: bool) -> Tensor:
    """Gradient of a norm whose scale is held fixed."""
    centre = x - x.mean(dims, keepdim=True) if centred else x
    down = g * (centre.square().mean(dims, keepdim=True) + eps).rsqrt()
    return down - down.mean(dims, keepdim=True) if centred else down
