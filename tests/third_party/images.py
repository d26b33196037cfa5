"""A network that looks for red, and images with one red patch, for the toybox's reader and head."""

import numpy as np
import torch
from torch import Tensor, nn

from didact.types import Example, Image

SIDE, GRID = 4, 3  # pixels of a patch, patches of a row


class RedNetwork(nn.Module):
    """Light where any patch is red; what is green or blue counts a little, and dropout would blur it all."""

    def __init__(self) -> None:
        super().__init__()
        self.colour = nn.Parameter(torch.tensor([4.0, 0.05, -0.05]))
        self.dropout = nn.Dropout(0.5)

    def forward(self, patches: Tensor) -> Tensor:
        redness = self.dropout(patches.unflatten(-1, (-1, 3)).mean(-2) @ self.colour).relu().sum(-1)
        return torch.stack([-redness, redness], -1)


def planted(patch: int) -> Example:
    """Grey noise with one red patch."""
    pixels = np.random.default_rng(patch).integers(60, 70, (SIDE * GRID, SIDE * GRID, 3)).astype(np.uint8)
    pixels[..., 0] = 10
    row, column = divmod(patch, GRID)
    pixels[row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE] = (250, 60, 60)
    return Example(Image(pixels))
