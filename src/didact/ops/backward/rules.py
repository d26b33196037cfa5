"""What a set of backward rules is: one pullback per kind of operation. This base class gives the ordinary gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

Pointwise = Callable[[Tensor], Tensor]
Pull = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Gradient of a product with respect to both factors: (upstream, a, b) -> (for a, for b)."""


class Rules:
    """Pullbacks: from what arrives at an operation's output (``g``) to what its inputs get.

    Attributes:
        frozen: names of functions whose result counts as a constant.
        epsilon: stabiliser of linear layers; 0 leaves them as they are.
    """

    frozen: ClassVar[frozenset[str]] = frozenset()
    epsilon: float = 0.0

    def activation(self, g: Tensor, function: Pointwise, x: Tensor) -> Tensor:
        """A nonlinearity between layers, applied to every entry."""
        return self.curve(g, function, x)

    def curve(self, g: Tensor, function: Pointwise, x: Tensor) -> Tensor:
        """Any other function applied to every entry (exp, log and the like)."""
        return vjp(function, g, x)[0]

    def product(self, g: Tensor, pull: Pull, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """A product of two activations, elementwise or of matrices."""
        return pull(g, a, b)

    def softmax(self, g: Tensor, z: Tensor, dim: int) -> Tensor:
        """Softmax of ``z`` along ``dim``, counted from the end."""
        p = z.softmax(dim)
        return p * (g - (p * g).sum(dim, keepdim=True))

    def log_softmax(self, g: Tensor, z: Tensor, dim: int) -> Tensor:
        """Logarithm of softmax."""
        return g - z.softmax(dim) * g.sum(dim, keepdim=True)

    def norm(self, g: Tensor, x: Tensor, dims: tuple[int, ...], eps: float, centred: bool) -> Tensor:
        """Layer norm (``centred``) or RMS norm before its weight and bias."""
        centre = x - x.mean(dims, keepdim=True) if centred else x
        scale = (centre.square().mean(dims, keepdim=True) + eps).rsqrt()
        y = centre * scale
        down = scale * (g - y * (g * y).mean(dims, keepdim=True))
        return down - down.mean(dims, keepdim=True) if centred else down

    def attention(self, g: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> list[Tensor]:
        """Scaled dot-product attention, written out; recomputed here, so that no matrix of it is kept."""
        z = q @ k.mT * scale
        z = z if mask is None else z + mask
        for_p, for_v = self.product(g, lambda g, p, v: (g @ v.mT, p.mT @ g), z.softmax(-1), v)
        for_z = self.softmax(for_p, z, -1) * scale
        del for_p, z
        for_q, for_k = self.product(for_z, lambda g, q, k: (g @ k, g.mT @ q), q, k)
        return [for_q, for_k, for_v]


def vjp(function: Callable[..., Tensor], g: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Ordinary gradients of ``function`` at the inputs, given the one at its output."""
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_(True) for x in inputs]
        return torch.autograd.grad(function(*leaves), leaves, g)
