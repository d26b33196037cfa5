"""Changes of low rank to linear layers, so that copies of a network differ in few numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class LowRankLinear(nn.Linear):
    """A linear layer whose matrix stays as it is while a product of two thin ones is learned: W + up down.

    ``up`` starts at 0, so that the layer starts as it was; the bias is learned as before.

    Args:
        plain: the layer; its tensors are used, not copied.
        rank: columns of ``up`` and rows of ``down``.
        generator: draws the first values of ``down``.
    """

    def __init__(self, plain: nn.Linear, rank: int, generator: torch.Generator) -> None:
        super().__init__(plain.in_features, plain.out_features, bias=plain.bias is not None, device="meta")
        self.weight, self.bias = plain.weight, plain.bias
        self.weight.requires_grad_(False)
        drawn = torch.randn(rank, plain.in_features, generator=generator) * plain.in_features**-0.5
        self.down = nn.Parameter(drawn.to(plain.weight))
        self.up = nn.Parameter(plain.weight.new_zeros(plain.out_features, rank))

    def forward(self, given: Tensor) -> Tensor:
        """The layer's output, computed without forming the changed matrix."""
        change = functional.linear(functional.linear(given, self.down), self.up)
        return super().forward(given) + change


def add_low_rank(network: nn.Module, rank: int, seed: int) -> None:
    """Replace trained linear layers inside a network, wherever that leaves fewer numbers to learn."""
    generator = torch.Generator().manual_seed(seed)
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and child.weight.requires_grad and _saves(child, rank):
                setattr(module, name, LowRankLinear(child, rank, generator))


def _saves(layer: nn.Linear, rank: int) -> bool:
    return rank * (layer.in_features + layer.out_features) < layer.in_features * layer.out_features
