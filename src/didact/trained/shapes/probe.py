"""A small network on the hidden states of the explained model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from didact.errors import FormatError, InputError, ParameterError
from didact.protocols import HIDDEN, Hidden, Model
from didact.trained.shapes._padding import padded
from didact.trained.shapes.base import Item, Shape, ShapeBatch, ShapeCard, register
from didact.types import Prediction, Units

TOGETHER = 256
"""Examples whose states are held at once."""


@dataclass(frozen=True, kw_only=True)
class ProbeConfig:
    """Sizes of a probe.

    Attributes:
        size: numbers per unit that are read.
        labels: how many outputs of the explained model it distinguishes.
        outputs: numbers per unit that it gives.
        width: of the hidden layer.
        layers: the explained model's layers whose states are read, -1 the last.
        dropout: share of numbers set to 0 in training.
        seed: decides the first weights.
    """

    size: int
    labels: int
    outputs: int = 1
    width: int = 128
    layers: tuple[int, ...] = (0, -1)
    dropout: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        if not self.layers:
            raise ParameterError("a probe reads at least one layer, got layers=()")
        if self.width < 1 or not 0 <= self.dropout < 1:
            raise ParameterError(
                f"a probe needs a width of at least 1 and a dropout from 0 to below 1, got width={self.width!r}, "
                f"dropout={self.dropout!r}"
            )


@register(
    ShapeCard(
        name="probe",
        family="explained model",
        summary="A small network on the hidden states of the explained model, for units of any kind.",
        reference="Alain and Bengio 2017, Understanding intermediate layers using linear classifier probes",
        needs=frozenset({HIDDEN}),
    )
)
class Probe(Shape):
    """Scores a unit by the explained model's states at its positions, beside their mean over all units.

    It reads no text itself, so that it serves tokens, words and patches alike. The states have been mixed by attention:
    each knows its surroundings, and one hidden layer on top of them is enough.

    Args:
        config: sizes.
    """

    def __init__(self, config: ProbeConfig) -> None:
        super().__init__()
        self.config = config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.own = nn.Linear(config.size, config.width)
            self.around = nn.Linear(config.size, config.width, bias=False)
            self.label = nn.Embedding(config.labels, config.width)
            self.output = nn.Linear(config.width, config.outputs)
        self.dropout = nn.Dropout(config.dropout)

    @classmethod
    def build(cls, model: Model, units: Sequence[Units], outputs: int, settings: Mapping[str, object]) -> Self:
        """A probe as wide as the model's states; ``settings`` are fields of ``ProbeConfig``."""
        try:
            config = ProbeConfig(**{"size": 1, "labels": len(model.labels), "outputs": outputs, **settings})  # type: ignore[arg-type]
        except TypeError as problem:
            raise ParameterError(f"unknown setting of probe: {str(problem).split('__init__() ')[-1]}") from None
        (states,) = cast("Hidden", model).states([units[0].example], config.layers)
        return cls(replace(config, size=states.shape[0] * states.shape[2]))

    @property
    def outputs(self) -> int:
        """Numbers per unit."""
        return self.config.outputs

    @property
    def settings(self) -> dict[str, object]:
        """The configuration as plain JSON values."""
        return asdict(self.config) | {"layers": list(self.config.layers)}

    @classmethod
    def from_settings(cls, settings: Mapping[str, object], folder: Path) -> Self:
        """An untrained probe; nothing but the weights is stored."""
        try:
            return cls(ProbeConfig(**settings))  # type: ignore[arg-type] # plain JSON values, checked by the config
        except TypeError as problem:
            raise FormatError(f"these are not the settings of a probe: {problem}") from None

    def save_reading(self, folder: Path) -> None:
        """Nothing: the explained model reads."""

    def read(
        self,
        model: Model | None,
        units: Sequence[Units],
        targets: Sequence[int],
        predictions: Sequence[Prediction],
    ) -> list[Item]:
        """States of each unit, the mean over its positions, and the number of the explained output."""
        if model is None:
            raise InputError("a probe reads the states of the explained model; give the model")
        items: list[Item] = []
        for start in range(0, len(units), TOGETHER):
            some = units[start : start + TOGETHER]
            states = cast("Hidden", model).states([own.example for own in some], self.config.layers)
            items += [
                {"states": _by_unit(own, state), "target": np.array(target)}
                for own, state, target in zip(some, states, targets[start:], strict=False)
            ]
        return items

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Pad states at their end."""
        states, present = padded([item["states"] for item in items], self.config.size)
        return {
            "states": states,
            "present": present,
            "target": torch.tensor([int(item["target"]) for item in items]),
        }

    def forward(self, batch: ShapeBatch) -> Tensor:
        """Numbers for the units and each row's target: (rows, units, outputs)."""
        present = batch["present"][..., None]
        states = functional.layer_norm(batch["states"], (self.config.size,))
        mean = (states * present).sum(1, keepdim=True) / present.sum(1, keepdim=True).clamp_min(1)
        label = self.label(batch["target"])[:, None]
        inner = functional.gelu(self.own(states) + self.around(mean) + label)
        numbers: Tensor = self.output(self.dropout(inner))
        return numbers

    def length(self, item: Item) -> int:
        """Units of the example."""
        return max(1, len(item["states"]))


def _by_unit(units: Units, states: Tensor) -> NDArray[np.float32]:
    """States (layers, positions, dim) -> (units, layers x dim)."""
    flat = states.float().transpose(0, 1).flatten(1)
    rows = [flat[list(positions)].mean(0) for positions in units.positions]
    made = torch.stack(rows) if rows else flat[:0]
    return np.asarray(made.cpu().numpy())
