"""DeepLIFT's rescale rule: multipliers that carry differences from a reference and add up exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from didact.errors import CapabilityError
from didact.ops.backward.rules import Pointwise, Pull, Rules, vjp

_SAME = 1e-6
"""Inputs nearer to each other than this have the derivative as their multiplier."""


class Rescale(Rules):
    """Rules for a batch of one input (row 0) and its references (the other rows).

    Backpropagation starts from the references' outputs, and the rows of the references carry the multipliers: for
    every operation, output - output of reference = sum of multiplier x (input - input of reference).

    * Functions of one entry: difference of outputs over difference of inputs.
    * Products: ``ab - a'b' = (a - a') (b + b')/2 + (a + a')/2 (b - b')``.
    * Softmax: ``p = exp(log p)`` with the rule for functions of one entry, whose multiplier s is the logarithmic mean
      of p and p'. The normaliser's share follows from probabilities adding up to 1: its difference is the mean of the
      logits' differences with weights s.
    * Norms: a product of the (centred) input and the inverse root of its mean square.

    Args:
        references: rows after the first.
    """

    def __init__(self, references: int = 1) -> None:
        self.rows = references + 1

    def curve(self, g: Tensor, function: Pointwise, x: Tensor) -> Tensor:
        """Slope of the secant; in double precision, because nearly equal numbers are subtracted."""
        own, ref = self._split(x if x.device.type == "mps" else x.double())
        difference = own - ref
        same = difference.abs() < _SAME
        slope = (function(own) - function(ref)) / difference.masked_fill(same, 1.0)
        middle = ((own + ref) / 2)[same]
        if len(middle):
            slope[same] = vjp(function, torch.ones_like(middle), middle)[0]
        return self._join(self._split(g)[1] * slope.to(g.dtype))

    def product(self, g: Tensor, pull: Pull, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Both factors at the middle between input and reference."""
        return pull(g, self._middle(a), self._middle(b))

    def softmax(self, g: Tensor, z: Tensor, dim: int) -> Tensor:
        """Only where a logit moves against the weighted mean of all does its probability change."""
        s, share = self._shares(z, dim)
        sg = s * self._split(g)[1]
        return self._join(sg - share * sg.sum(dim, keepdim=True))

    def log_softmax(self, g: Tensor, z: Tensor, dim: int) -> Tensor:
        """A logit minus the normaliser."""
        down = self._split(g)[1]
        return self._join(down - self._shares(z, dim)[1] * down.sum(dim, keepdim=True))

    def norm(self, g: Tensor, x: Tensor, dims: tuple[int, ...], eps: float, centred: bool) -> Tensor:
        """With c the centred input, v its mean square and r = 1/sqrt(v): pull back c r, then r, then v, then c."""
        c, ref = self._split(x - x.mean(dims, keepdim=True) if centred else x)
        root, root_ref = (part.square().mean(dims, keepdim=True).add(eps).sqrt() for part in (c, ref))
        middle, down = (c + ref) / 2, self._split(g)[1]
        for_r = (down * middle).sum(dims, keepdim=True)
        for_v = -for_r / (root * root_ref * (root + root_ref))  # (1/a - 1/b) / (a^2 - b^2)
        size = middle[0, 0].numel() // for_v[0, 0].numel()
        for_c = down * (1 / root + 1 / root_ref) / 2 + for_v * middle * 2 / size
        return self._join(for_c - for_c.mean(dims, keepdim=True) if centred else for_c)

    def _shares(self, z: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        """Logarithmic means s of the probabilities, and s over their sum."""
        own, ref = self._split(z.log_softmax(dim))
        apart = (own - ref).abs().nan_to_num(0.0)  # both minus infinity: masked
        ratio = torch.where(apart > 0, -torch.expm1(-apart) / apart.clamp_min(1e-30), 1.0)
        s = torch.maximum(own, ref).exp() * ratio
        return s, s / s.sum(dim, keepdim=True)

    def _middle(self, x: Tensor) -> Tensor:
        own, ref = self._split(x)
        return self._join((own + ref) / 2)

    def _split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Input (1, ...) and references (references, ...); what else is folded into the rows gets its own dimension."""
        if x.dim() == 0 or len(x) % self.rows:
            raise CapabilityError(
                f"differences from a reference need a model that keeps the rows of a batch apart and first; this one "
                f"computes with a tensor of shape {tuple(x.shape)} from a batch of {self.rows}"
            )
        rows = x.reshape(self.rows, -1, *x.shape[1:])
        return rows[:1], rows[1:]

    def _join(self, down: Tensor) -> Tensor:
        """Back to one batch; the input's own row carries nothing."""
        return torch.cat([torch.zeros_like(down[:1]), down]).flatten(0, 1)
