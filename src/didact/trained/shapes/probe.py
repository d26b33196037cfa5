"""A small network on the hidden states of the explained model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from didact.errors import FormatError, InputError, ParameterError
from didact.ops.masking import units_of_positions
from didact.protocols import HIDDEN, Hidden, Model, PredictsWithStates
from didact.trained.shapes._located import Located, located, owner_weights
from didact.trained.shapes._packed import Packed, packed
from didact.trained.shapes._padding import padded
from didact.trained.shapes._probe_config import ProbeConfig as ProbeConfig
from didact.trained.shapes._probe_layers import (
    UnitBlock,
    linear,
    normalised_positions,
)
from didact.trained.shapes.base import Item, Shape, ShapeBatch, ShapeCard, Together, register
from didact.types import Floats, Prediction, Units

TOGETHER = 256
"""Examples whose states are held at once."""


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
    each knows its surroundings, and one hidden layer on top of them is enough; ``blocks`` of attention compare the
    units once more. With ``per_class`` and ``norm="position"`` the numbers of all labels come from the pass that
    predicts.

    Args:
        config: sizes.
    """

    def __init__(self, config: ProbeConfig) -> None:
        super().__init__()
        self.config = config
        read, width = config.rank or config.size, config.width
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.own = linear(read, width)
            self.around = linear(read, width, bias=False)
            self.label = None if config.per_class else nn.Embedding(config.labels, width)
            self.output = linear(width, config.outputs * (config.labels if config.per_class else 1))
            self.project = None if config.rank is None else linear(config.size, read, bias=False)
            self.blocks = nn.ModuleList(UnitBlock(width, config.heads, config.dropout) for _ in range(config.blocks))
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

    @property
    def passes(self) -> int:
        """None besides the prediction's where its numbers come with it."""
        return 0 if self.rides else 1

    @property
    def rides(self) -> bool:
        """Whether it reads nothing but the states of the pass that predicts."""
        return self.config.rides

    @property
    def layers(self) -> tuple[int, ...]:
        """Whose states it reads."""
        return self.config.layers

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
                {"states": self._by_unit(own, state), "target": np.array(target)}
                for own, state, target in zip(some, states, targets[start:], strict=False)
            ]
        return items

    def for_target(self, item: Item, target: int) -> Item:
        """The same states for another output of the model."""
        return {**item, "target": np.array(target)}

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
        states, target = batch["states"].float(), batch["target"]  # kept and moved to the device in half precision
        if self.config.norm == "unit":
            states = functional.layer_norm(states, (self.config.size,))
        states = states if self.project is None else self.project(states)
        present = batch["present"]
        label = None if self.label is None else self.label(target)[:, None]
        numbers = self._numbers(states, _mean(states, present), present, label)
        if self.label is not None:
            return numbers
        each = self._by_label(numbers)
        return each[torch.arange(len(each), device=each.device), :, target]

    def with_prediction(self, model: Model, units: Sequence[Units]) -> Together | None:
        """Predictions, and the numbers of all labels from the very passes that predict."""
        if not (self.rides and isinstance(model, PredictsWithStates)):
            return None
        numbers: list[Floats] = [np.empty(0)] * len(units)

        def visit(rows: NDArray[np.int64], states: Sequence[Tensor]) -> None:
            some = [units[row] for row in rows]
            made = self.of_states(states, some).cpu().double().numpy()
            for row, own, each in zip(rows, some, made, strict=True):
                numbers[row] = each[: len(own)].swapaxes(0, 1)

        predictions = model.predict_with_states([own.example for own in units], self.config.layers, visit)
        return Together(predictions, numbers)

    def of_states(self, states: Sequence[Tensor], units: Sequence[Units]) -> Tensor:
        """Numbers of all labels: per layer states (rows, positions, dim) -> (rows, units, labels, outputs)."""
        owners = torch.from_numpy(units_of_positions(units, states[0].shape[1]))
        return self.of_located(states, self.located(owners, max((len(own) for own in units), default=0)))

    def located(self, owners: Tensor, most: int) -> Located:
        """Where units stand: ``owners`` (rows, positions) has the number of each position's unit, -1 for none.

        Args:
            owners: whole numbers below ``most``.
            most: units per row of what ``of_located`` returns.
        """
        device = self.output.weight.device
        leaves_out = device.type == "cpu" and not torch.compiler.is_compiling()
        if leaves_out:
            return Located(owners.to(device), most)
        return located(owners.to(device), most, torch.cat([self.own.weight, self.around.weight], 1))

    def of_located(self, states: Sequence[Tensor], where: Located) -> Tensor:
        """Numbers of all labels: (rows, units, labels, outputs).

        Args:
            states: per layer, (rows, positions, dim).
            where: the units stand.
        """
        placed, project = [own.to(where.owners.device) for own in states], self.project or nn.Identity()
        if where.pairs is None or where.present is None or where.joined is None:
            return self._by_label(self._numbers_packed(packed(placed, where.owners, where.most, project)))
        means = (where.pairs @ project(normalised_positions(placed))).unflatten(1, (-1, 2)).flatten(2)
        inner = functional.gelu(functional.linear(means, where.joined, self.own.bias))
        return self._by_label(self._finished(inner, where.present))

    def _numbers(self, states: Tensor, mean: Tensor, present: Tensor, label: Tensor | None) -> Tensor:
        """From what is read of the units to the outputs: (rows, units, size or rank) -> (rows, units, numbers).

        States are 0 where no unit is ``present``; ``mean`` is that of the others, (rows, 1, size or rank).
        """
        inner = self.own(states) + self.around(mean)
        return self._finished(functional.gelu(inner if label is None else inner + label), present)

    def _finished(self, inner: Tensor, present: Tensor) -> Tensor:
        """From the hidden layer to the outputs: (rows, units, width) -> (rows, units, numbers)."""
        for block in self.blocks:
            inner = block(inner, present)
        numbers: Tensor = self.output(self.dropout(inner))
        return numbers

    def _numbers_packed(self, units: Packed) -> Tensor:
        """As ``_numbers`` without labels, and 0 behind the last unit of a row."""
        around = units.of_rows(self.around(units.mean) + self.own.bias)
        inner = functional.gelu(torch.addmm(around, units.means, self.own.weight.t()))
        if not self.blocks:
            return units.padded(self.output(self.dropout(inner)))
        return self._finished(units.padded(inner), units.present)

    def _by_label(self, numbers: Tensor) -> Tensor:
        """(rows, units, labels x outputs) -> (rows, units, labels, outputs)."""
        return numbers.reshape(*numbers.shape[:2], self.config.labels, self.config.outputs)

    def length(self, item: Item) -> int:
        """Units of the example."""
        return max(1, len(item["states"]))

    def _by_unit(self, units: Units, states: Tensor) -> NDArray[np.floating]:
        """States (layers, positions, dim) -> (units, layers x dim); normalised ones need half precision alone."""
        per_position = self.config.norm == "position"
        flat = normalised_positions(list(states)) if per_position else states.float().transpose(0, 1).flatten(1)
        if not per_position:
            rows = [flat[list(positions)].mean(0) for positions in units.positions]
            made = torch.stack(rows) if rows else flat[:0]
            return np.asarray(made.cpu().numpy())
        owners = torch.from_numpy(units_of_positions([units], len(flat))).to(flat.device)
        weights = owner_weights(owners, len(units))[0]
        return np.asarray((weights @ flat).half().cpu().numpy())


def _mean(states: Tensor, present: Tensor) -> Tensor:
    """Of the states of each row's units, which are 0 where none is ``present``: (rows, 1, numbers)."""
    return states.sum(1, keepdim=True) / present.sum(1).clamp_min(1)[:, None, None]
