"""A mix of the explained model's heads, corrected by what each head's attention does to the prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import InputError
from didact.models.outputs import resolve_target
from didact.ops.units import mean_to_units
from didact.protocols import ATTENTIVE, DIFFERENTIABLE, HEADS, Attentive, Model
from didact.trained.shapes._padding import padded
from didact.trained.shapes.base import Item, Shape, ShapeBatch, ShapeCard, register
from didact.trained.shapes.head_mix import TOGETHER, HeadMixShape
from didact.types import Prediction, Units


@register(
    ShapeCard(
        name="gradient_gate",
        family="explained model",
        summary="A mix of the explained model's attention heads plus a mix of each head's attention times gradient.",
        reference="Fernandes et al. 2022, Learning to Scaffold (mix of heads); Chefer, Gur and Wolf 2021 (products)",
        needs=frozenset({HEADS, ATTENTIVE, DIFFERENTIABLE}),
        outputs="1",
    )
)
class GradientGate(Shape):
    """Scores a unit by a ``head_mix`` plus sum over heads h of mu_h g^h, where g^h is attention times gradient.

    Attention shows where a head looks, and its product with the gradient what that does to the prediction. The products
    of a head are divided by their root mean square over the text's units, since their sizes differ by orders. All mu
    begin at 0, so that it begins as the mix of heads that ``start`` names.

    Args:
        mix: the mix of heads.
    """

    def __init__(self, mix: HeadMixShape) -> None:
        super().__init__()
        self.mix = mix
        self.mu = nn.Parameter(torch.zeros(mix.config.size))

    @classmethod
    def build(cls, model: Model, units: Sequence[Units], outputs: int, settings: Mapping[str, object]) -> Self:
        """Settings are those of ``head_mix``."""
        return cls(HeadMixShape.build(model, units, outputs, settings))

    @property
    def outputs(self) -> int:
        """One: the logit of the unit."""
        return 1

    @property
    def settings(self) -> dict[str, object]:
        """Those of the mix of heads."""
        return self.mix.settings

    @classmethod
    def from_settings(cls, settings: Mapping[str, object], folder: Path) -> Self:
        """An untrained shape; nothing but the weights is stored."""
        return cls(HeadMixShape.from_settings(settings, folder))

    def save_reading(self, folder: Path) -> None:
        """Nothing: the explained model reads."""

    def weights(self) -> NDArray[np.float64]:
        """Those of the mix of heads: (layers, heads)."""
        return self.mix.weights()

    def summary(self) -> str:
        """The weights of the heads as a heat map of characters, and how much comes on top."""
        largest = float(self.mu.detach().abs().max())
        on_top = f"Attention times gradient of every head adds to their scores, with weights of {largest:.3g} at most."
        return f"{self.mix.summary()}\n\n{on_top}"

    def read(
        self,
        model: Model | None,
        units: Sequence[Units],
        targets: Sequence[int],
        predictions: Sequence[Prediction],
    ) -> list[Item]:
        """Scores of the units by every head, and attention times gradient of every head."""
        if model is None:
            raise InputError("gradients of the explained model are read; give the model")
        heads, products = self.mix.read(model, units, targets, predictions), list[NDArray[np.float32]]()
        for start in range(0, len(units), TOGETHER):
            some = slice(start, start + TOGETHER)
            wanted = [
                resolve_target(model, None if one.kind == "number" else index, one, None)
                for index, one in zip(targets[some], predictions[some], strict=True)
            ]
            passes = cast("Attentive", model).attention_times_gradient(units[some], wanted, "mean")
            products += [self._products(own, maps) for own, (_, maps) in zip(units[some], passes, strict=True)]
        return [{**own, "products": values} for own, values in zip(heads, products, strict=True)]

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Pad both at their end."""
        products, _ = padded([item["products"] for item in items], self.mix.config.size)
        return self.mix.collate(items) | {"products": products}

    def forward(self, batch: ShapeBatch) -> Tensor:
        """The score of each unit: (rows, units, 1)."""
        scores: Tensor = self.mix(batch)
        return scores + (batch["products"] @ self.mu)[..., None]

    def length(self, item: Item) -> int:
        """Units of the example."""
        return self.mix.length(item)

    def _products(self, units: Units, maps: Tensor) -> NDArray[np.float32]:
        """Attention times gradient (layers, heads, tokens) of the mixed layers -> (units, heads), of size 1 each."""
        values = mean_to_units(units, maps[list(self.mix.config.layers)].detach().float()).flatten(0, 1)
        size = values.square().mean(-1, keepdim=True).sqrt()
        return np.ascontiguousarray((values / torch.where(size > 0, size, 1.0)).T.cpu().numpy())
