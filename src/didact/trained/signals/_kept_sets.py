"""Sets of units that the model is evaluated on once, kept for all further epochs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from didact.trained.signals._orders import Masks
from didact.types import Floats


class KeptSets(nn.Module):
    """Sets of units of many texts and what the model did, which checkpoints keep.

    Args:
        texts: how many there are.
        sets: of each.
        units: of a text at most.
        parts: 1 for the model without the units of a set, 2 for those alone, too.
    """

    known: Tensor
    masks: Tensor
    values: Tensor

    def __init__(self, texts: int, sets: int, units: int, parts: int) -> None:
        super().__init__()
        self.register_buffer("known", torch.zeros(texts, dtype=torch.bool))
        self.register_buffer("masks", torch.zeros(texts, sets, units, dtype=torch.bool))
        self.register_buffer("values", torch.zeros(texts, parts, sets))

    def put(self, text: int, masks: Masks, values: Floats) -> None:
        """Keep masks (sets, units) and values (parts x sets,) of a text."""
        self.masks[text, :, : masks.shape[1]] = torch.from_numpy(masks)
        self.values[text] = torch.from_numpy(values).view_as(self.values[text]).to(self.values)
        self.known[text] = True
