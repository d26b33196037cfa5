"""A mix of the explained model's heads, corrected by a small network on its hidden states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import FormatError
from didact.protocols import HEADS, HIDDEN, Heads, Model
from didact.trained.shapes.base import Item, Shape, ShapeBatch, ShapeCard, register
from didact.trained.shapes.head_mix import HeadMixConfig, HeadMixShape
from didact.trained.shapes.probe import Probe, ProbeConfig
from didact.types import Prediction, Units


@register(
    ShapeCard(
        name="head_gate",
        family="explained model",
        summary="A mix of the explained model's attention heads plus a small network on its hidden states.",
        reference="Fernandes et al. 2022, Learning to Scaffold (the mix of heads); Alain and Bengio 2017 (probes)",
        needs=frozenset({HEADS, HIDDEN}),
        outputs="1",
    )
)
class HeadGate(Shape):
    """Scores a unit by a ``head_mix`` plus a ``probe`` whose last layer begins at 0.

    So it begins as the mix of heads that ``start`` names, and what the probe learns comes on top: it may raise and
    lower single words, which no mix of heads can.

    Args:
        mix: the mix of heads.
        gate: the probe, of one output.
    """

    def __init__(self, mix: HeadMixShape, gate: Probe) -> None:
        super().__init__()
        self.mix = mix
        self.gate = gate
        nn.init.zeros_(gate.output.weight)
        nn.init.zeros_(gate.output.bias)

    @classmethod
    def build(cls, model: Model, units: Sequence[Units], outputs: int, settings: Mapping[str, object]) -> Self:
        """Settings are those of ``head_mix``, and ``states`` (layers whose states are read), ``width`` and ``dropout``.

        The states are those of the last layer and of the one that ends the second third, unless given.
        """
        own = {name: settings[name] for name in ("width", "dropout", "seed") if name in settings}
        rest = {name: value for name, value in settings.items() if name not in ("states", "width", "dropout")}
        mix = HeadMixShape.build(model, units, outputs, rest)
        depth = cast("Heads", model).head_grid[0]
        layers = settings.get("states") or tuple(sorted({max(0, depth * 2 // 3 - 1), depth - 1}))
        return cls(mix, Probe.build(model, units, outputs, {**own, "layers": layers}))

    @property
    def outputs(self) -> int:
        """One: the logit of the unit."""
        return 1

    @property
    def settings(self) -> dict[str, object]:
        """Both configurations as plain JSON values; ``seed`` is common to both."""
        probe = self.gate.settings
        return {
            **self.mix.settings,
            "states": probe["layers"],
            **{name: probe[name] for name in ("width", "dropout", "size", "labels")},
        }

    @classmethod
    def from_settings(cls, settings: Mapping[str, object], folder: Path) -> Self:
        """Both parts, untrained; nothing but the weights is stored."""
        names = {own.name for own in fields(HeadMixConfig)}
        mixed = {name: value for name, value in settings.items() if name in names}
        probe = {name: value for name, value in settings.items() if name not in names and name != "states"}
        try:
            config = ProbeConfig(layers=settings["states"], seed=settings["seed"], **probe)  # type: ignore[arg-type]
        except (KeyError, TypeError) as problem:
            raise FormatError(f"these are not the settings of a head_gate: {problem}") from None
        return cls(HeadMixShape.from_settings(mixed, folder), Probe(config))

    def save_reading(self, folder: Path) -> None:
        """Nothing: the explained model reads."""

    def weights(self) -> NDArray[np.float64]:
        """Those of the mix of heads: (layers, heads)."""
        return self.mix.weights()

    def summary(self) -> str:
        """The weights of the heads as a heat map of characters, and what comes on top."""
        layers = ", ".join(map(str, self.gate.config.layers))
        count = sum(weight.numel() for weight in self.gate.parameters())
        on_top = f"A probe of {count:,} weights on the states of layers {layers} adds to their scores."
        return f"{self.mix.summary()}\n\n{on_top}"

    def read(
        self,
        model: Model | None,
        units: Sequence[Units],
        targets: Sequence[int],
        predictions: Sequence[Prediction],
    ) -> list[Item]:
        """Scores of the units by every head, and states of the units."""
        parts = (part.read(model, units, targets, predictions) for part in (self.mix, self.gate))
        return [{**heads, **states} for heads, states in zip(*parts, strict=True)]

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Pad both at their end."""
        return self.gate.collate(items) | self.mix.collate(items)

    def forward(self, batch: ShapeBatch) -> Tensor:
        """The score of each unit: (rows, units, 1)."""
        numbers: Tensor = self.mix(batch) + self.gate(batch)
        return numbers

    def length(self, item: Item) -> int:
        """Units of the example."""
        return self.mix.length(item)
