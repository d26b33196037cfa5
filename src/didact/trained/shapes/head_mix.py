"""A mix of the explained model's own attention heads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import FormatError, InputError, ParameterError
from didact.models.head_scores import layer_numbers
from didact.ops.simplex import Normaliser, simplex, unnormalised
from didact.protocols import HEADS, Heads, Model
from didact.render.heads import heads_text
from didact.trained.shapes._padding import padded
from didact.trained.shapes.base import Item, Shape, ShapeBatch, ShapeCard, register
from didact.types import Prediction, Units

TOGETHER = 512
"""Examples whose head scores are read at once."""

Start = str | tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class HeadMixConfig:
    """Which heads are mixed, and how.

    Attributes:
        layers: numbers of the explained model's layers whose heads are mixed, from 0.
        heads: how many heads a layer has.
        normalise: from phi to weights: "sparsemax", "entmax15", "softmax", or "none".
        temperature: divides the mixed scores.
        train_temperature: whether that is trained too.
        start: first weights: "uniform" (the mean over all heads), "layer:K" (over those of one layer), "head:K.J" (head
            J of layer K), "random" (drawn from the seed), or a number per head, the heads of the first layer first.
        spread: share of the first weights that is spread evenly over all heads. Sparse weights of 0 have no gradient,
            so that a head that begins without any weight hardly ever gets some.
        seed: decides what is drawn.
    """

    layers: tuple[int, ...]
    heads: int
    normalise: Normaliser = "sparsemax"
    temperature: float = 1.0
    train_temperature: bool = False
    start: Start = "uniform"
    spread: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        if not isinstance(self.start, str):
            object.__setattr__(self, "start", _flat(self.start))
        numbers = (*self.layers, self.heads)
        if not self.layers or set(map(type, numbers)) != {int} or min(numbers) < 0 or not self.heads:
            raise ParameterError(
                f"head_mix needs layers (numbers from 0) with at least one head each, got layers={self.layers}, "
                f"heads={self.heads!r}"
            )
        if self.normalise not in get_args(Normaliser):
            raise ParameterError(
                f"normalise of head_mix must be one of {', '.join(get_args(Normaliser))}, got {self.normalise!r}"
            )
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise ParameterError(f"temperature of head_mix must be above 0, got {self.temperature!r}")
        if not 0 <= self.spread <= 1:
            raise ParameterError(f"spread of head_mix must be from 0 to 1, got {self.spread!r}")
        first_weights(self)  # refuses a start that does not fit

    @property
    def size(self) -> int:
        """How many heads there are in all."""
        return len(self.layers) * self.heads


@register(
    ShapeCard(
        name="head_mix",
        family="explained model",
        summary="A sparse mix of the explained model's own attention heads: one weight per head.",
        reference="Fernandes et al. 2022, Learning to Scaffold: Optimizing Model Explanations for Teaching",
        needs=frozenset({HEADS}),
        outputs="1",
    )
)
class HeadMixShape(Shape):
    """Scores a unit by sum over heads h of lambda_h s^h, where s^h is the head's mean attention logit for the unit.

    lambda = sparsemax(phi) has tens of numbers, most of which become 0, and phi is all that is learned. It begins as
    the mean over all heads, the static explanation by attention, unless ``start`` is another one.

    Args:
        config: which heads, and how they are mixed.
    """

    def __init__(self, config: HeadMixConfig) -> None:
        super().__init__()
        self.config = config
        self.phi = nn.Parameter(unnormalised(first_weights(config), config.normalise).float())
        self.log_temperature = nn.Parameter(
            torch.tensor(math.log(config.temperature)), requires_grad=bool(config.train_temperature)
        )

    @classmethod
    def build(cls, model: Model, units: Sequence[Units], outputs: int, settings: Mapping[str, object]) -> Self:
        """A mix of the model's heads; ``settings`` are fields of ``HeadMixConfig``, with ``layers`` None for all."""
        if outputs != 1:
            raise ParameterError(
                f"a mix of heads gives one number per unit, and the signal needs {outputs}; use a signal that needs 1"
            )
        depth, heads = cast("Heads", model).head_grid
        layers = layer_numbers(cast("Sequence[int] | None", settings.get("layers")), depth)
        try:
            config = HeadMixConfig(**{**settings, "layers": tuple(layers), "heads": heads})  # type: ignore[arg-type]
        except TypeError as problem:
            raise ParameterError(f"unknown setting of head_mix: {str(problem).split('__init__() ')[-1]}") from None
        return cls(config)

    @property
    def outputs(self) -> int:
        """One: the logit of the unit."""
        return 1

    @property
    def settings(self) -> dict[str, object]:
        """The configuration as plain JSON values."""
        start = self.config.start if isinstance(self.config.start, str) else list(self.config.start)
        return asdict(self.config) | {"layers": list(self.config.layers), "start": start}

    @classmethod
    def from_settings(cls, settings: Mapping[str, object], folder: Path) -> Self:
        """An untrained mix; nothing but the weights is stored."""
        try:
            return cls(HeadMixConfig(**settings))  # type: ignore[arg-type] # plain JSON values, checked by the config
        except TypeError as problem:
            raise FormatError(f"these are not the settings of a head_mix: {problem}") from None

    def save_reading(self, folder: Path) -> None:
        """Nothing: the explained model reads."""

    def mixture(self) -> Tensor:
        """lambda, differentiable: (heads,), those of the first layer first."""
        return simplex(self.phi, self.config.normalise)

    def weights(self) -> NDArray[np.float64]:
        """Lambda as (layers, heads); rows are the layers of the configuration."""
        weights = self.mixture().detach().cpu().double().numpy()
        return np.asarray(weights.reshape(len(self.config.layers), self.config.heads))

    def summary(self) -> str:
        """The weights as a heat map of characters."""
        weights = self.weights()
        used = int((weights != 0).sum())
        return (
            f"It mixes {used} of the {weights.size} attention heads in {len(weights)} layers:\n\n"
            f"```\n{heads_text(weights, self.config.layers)}\n```"
        )

    def read(
        self,
        model: Model | None,
        units: Sequence[Units],
        targets: Sequence[int],
        predictions: Sequence[Prediction],
    ) -> list[Item]:
        """Scores of the units by every head: (units, heads)."""
        if model is None:
            raise InputError("a mix of heads reads the attention of the explained model; give the model")
        items: list[Item] = []
        for start in range(0, len(units), TOGETHER):
            scores = cast("Heads", model).head_scores(units[start : start + TOGETHER], self.config.layers)
            items += [{"heads": np.ascontiguousarray(own.T.numpy())} for own in scores]
        return items

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Pad scores at their end."""
        heads, present = padded([item["heads"] for item in items], self.config.size)
        return {"heads": heads, "present": present}

    def forward(self, batch: ShapeBatch) -> Tensor:
        """The mixed score of each unit: (rows, units, 1)."""
        return (batch["heads"] @ self.mixture() / self.log_temperature.exp())[..., None]

    def length(self, item: Item) -> int:
        """Units of the example."""
        return max(1, len(item["heads"]))


def first_weights(config: HeadMixConfig) -> Tensor:
    """Weights that a mix begins with: (heads,)."""
    chosen = _given(config) if not isinstance(config.start, str) else _named(config, config.start)
    return (1 - config.spread) * chosen + config.spread / config.size


def _flat(start: object) -> tuple[float, ...]:
    """A number per head, from a list of them or a list per layer."""
    try:
        return tuple(np.asarray(start, dtype=float).ravel().tolist())
    except (TypeError, ValueError):
        raise ParameterError(f"start of head_mix must be a name or a number per head, got {start!r}") from None


def _given(config: HeadMixConfig) -> Tensor:
    weights = torch.tensor(config.start, dtype=torch.float64)
    if len(weights) != config.size or not bool(weights.isfinite().all()):
        raise ParameterError(
            f"start of head_mix needs a finite number for each of the {config.size} heads ({len(config.layers)} layers "
            f"of {config.heads}), got {len(weights)} numbers"
        )
    if config.normalise == "none":
        return weights
    if bool((weights < 0).any()) or not float(weights.sum()) > 0:
        raise ParameterError(
            "start of head_mix has weights that are negative or all 0; give shares, or normalise='none'"
        )
    return weights / weights.sum()


def _named(config: HeadMixConfig, start: str) -> Tensor:
    grid = torch.zeros(len(config.layers), config.heads, dtype=torch.float64)
    kind, _, place = start.partition(":")
    if start == "uniform":
        grid[:] = 1
    elif start == "random":
        drawn = torch.rand(grid.shape, generator=torch.Generator().manual_seed(config.seed), dtype=grid.dtype)
        grid = -drawn.clamp(min=1e-9).log()  # exponential, so that the shares are uniform on the simplex
    elif kind == "layer":
        grid[_row(config, place)] = 1
    elif kind == "head" and place.partition(".")[2].isdigit() and int(place.partition(".")[2]) < config.heads:
        grid[_row(config, place.partition(".")[0]), int(place.partition(".")[2])] = 1
    else:
        raise ParameterError(
            f"start of head_mix must be 'uniform', 'random', 'layer:K', 'head:K.J' with J from 0 to "
            f"{config.heads - 1}, or a number per head, got {start!r}"
        )
    return grid.flatten() / grid.sum()


def _row(config: HeadMixConfig, layer: str) -> int:
    """Place of a layer among those that are mixed; negative numbers count from the last of these."""
    allowed = ", ".join(map(str, config.layers))
    try:
        number = int(layer)
        return config.layers.index(config.layers[number] if number < 0 else number)
    except (ValueError, IndexError):
        raise ParameterError(f"start of head_mix names layer {layer!r}, and the mixed layers are {allowed}") from None
