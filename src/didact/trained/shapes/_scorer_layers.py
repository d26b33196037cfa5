"""The layers of a scorer and how they are initialised."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from didact.trained.shapes._attention import Sight
from didact.trained.shapes._scorer_config import ScorerConfig


class Block(nn.Module):
    """Attention and a feed-forward part, each added to what came in and then normalised."""

    def __init__(self, config: ScorerConfig) -> None:
        super().__init__()
        width, inner = config.width, config.inner or 4 * config.width
        self.heads = config.heads
        self.share = config.dropout
        self.project = linear(width, width, times=3)  # queries, keys, values
        self.mix = linear(width, width)
        self.mixed = nn.LayerNorm(width)
        self.widen = linear(width, inner)
        self.narrow = linear(inner, width)
        self.done = nn.LayerNorm(width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor, sight: Sight) -> Tensor:
        """Hidden states (rows, positions, width) after the block."""
        q, k, v = self.project(hidden).chunk(3, dim=-1)
        seen = sight.attend(q, k, v, self.heads, self.share if self.training else 0.0)
        hidden = self.mixed(hidden + self.dropout(self.mix(seen)))
        inner = self.dropout(F.relu(self.widen(hidden)))
        output: Tensor = self.done(hidden + self.dropout(self.narrow(inner)))
        return output


def embedding(size: int, width: int) -> nn.Embedding:
    """Rows from N(0, 1 / width), the first one 0; they are multiplied by sqrt(width) when used."""
    made = nn.Embedding(size, width, padding_idx=0)
    nn.init.normal_(made.weight, std=width**-0.5)
    with torch.no_grad():
        made.weight[0] = 0
    return made


def turn(size: int, width: int) -> nn.Linear:
    """From embeddings of one size to the width: rows from N(0, 1 / size) come out as from N(0, 1 / width)."""
    made = nn.Linear(size, width, bias=False)
    nn.init.normal_(made.weight, std=width**-0.5)
    return made


def linear(size: int, width: int, *, times: int = 1) -> nn.Linear:
    """``times`` layers side by side, each drawn by itself."""
    made = nn.Linear(size, times * width)
    for part in made.weight.chunk(times):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(made.bias)
    return made


def waves(places: Tensor, width: int) -> Tensor:
    """Sines and cosines of the places, nothing for place 0: (...) -> (..., width)."""
    half = torch.arange((width + 1) // 2, device=places.device)
    angles = places[..., None] / 10000 ** (2 * half / width)
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :width]
    return waves * (places != 0)[..., None]
