"""Sizes of a probe; apart from the network so that presets list them without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from didact.errors import ParameterError

Norm = Literal["unit", "position"]


@dataclass(frozen=True, kw_only=True)
class ProbeConfig:
    """Sizes of a probe.

    Attributes:
        size: numbers per unit that are read.
        labels: how many outputs of the explained model it distinguishes.
        outputs: numbers per unit and label that it gives.
        width: of the hidden layer.
        layers: the explained model's layers whose states are read, -1 the last.
        dropout: share of numbers set to 0 in training.
        seed: decides the first weights.
        per_class: whether one head gives the numbers of all labels at once; otherwise the label is an input.
        norm: states are normalised at each "position" and layer by themselves, or all together for each "unit".
        rank: states are first brought to so many numbers; not when None.
        blocks: of attention between the units, behind the hidden layer.
        heads: of each block.
    """

    size: int
    labels: int
    outputs: int = 1
    width: int = 128
    layers: tuple[int, ...] = (0, -1)
    dropout: float = 0.0
    seed: int = 0
    per_class: bool = False
    norm: Norm = "unit"
    rank: int | None = None
    blocks: int = 0
    heads: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        if not self.layers:
            raise ParameterError("a probe reads at least one layer, got layers=()")
        if self.width < 1 or not 0 <= self.dropout < 1:
            raise ParameterError(
                f"a probe needs a width of at least 1 and a dropout from 0 to below 1, got width={self.width!r}, "
                f"dropout={self.dropout!r}"
            )
        if self.norm not in get_args(Norm):
            raise ParameterError(f"norm of a probe must be one of {get_args(Norm)}, got {self.norm!r}")
        if self.rank is not None and self.rank < 1:
            raise ParameterError(f"rank of a probe must be at least 1, or None, got {self.rank!r}")
        if self.blocks < 0 or (self.blocks and (self.heads < 1 or self.width % self.heads)):
            raise ParameterError(
                f"a probe with blocks of attention needs a width that is a multiple of its heads, got "
                f"blocks={self.blocks!r}, width={self.width!r}, heads={self.heads!r}"
            )

    @property
    def rides(self) -> bool:
        """Whether its numbers can be computed in the pass that predicts: they need nothing but the states."""
        return self.per_class and self.norm == "position"
