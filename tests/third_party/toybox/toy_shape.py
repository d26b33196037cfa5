"""A shape: a linear layer on the explained model's word embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from didact.protocols import Differentiable, Model
from didact.trained.shapes.base import SHAPES, Item, Shape, ShapeBatch, ShapeCard
from didact.types import Prediction, Units


@SHAPES.register(
    ShapeCard("toy_shape", "explained model", "A layer on embeddings.", "none", frozenset({"differentiable"}))
)
class EmbeddingProbe(Shape):
    """Scores a unit by the mean embedding of its positions; nothing but the layer is trained and saved."""

    def __init__(self, size: int, outputs: int, seed: int = 0) -> None:
        super().__init__()
        self.size, self.seed = size, seed
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            self.output = nn.Linear(size, outputs)

    @classmethod
    def build(cls, model: Model, units: Sequence[Units], outputs: int, settings: Mapping[str, object]) -> Self:
        (vectors,) = cast("Differentiable", model).embed(units[:1])
        return cls(vectors.shape[-1], outputs, cast("int", settings["seed"]))

    @property
    def outputs(self) -> int:
        return self.output.out_features

    @property
    def settings(self) -> dict[str, object]:
        return {"size": self.size, "outputs": self.outputs, "seed": self.seed}

    @classmethod
    def from_settings(cls, settings: Mapping[str, object], folder: Path) -> Self:
        return cls(**cast("Mapping[str, int]", settings))

    def save_reading(self, folder: Path) -> None:
        """Nothing: the model reads."""

    def read(
        self, model: Model | None, units: Sequence[Units], targets: Sequence[int], predictions: Sequence[Prediction]
    ) -> list[Item]:
        vectors = cast("Differentiable", model).embed(units)
        means = [
            np.stack([own[list(positions)].mean(0).cpu().numpy() for positions in text.positions])
            if len(text)
            else np.zeros((0, self.size), np.float32)
            for text, own in zip(units, vectors, strict=True)
        ]
        return [{"states": states} for states in means]

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        counts = np.array([len(item["states"]) for item in items])
        states = torch.zeros(len(items), counts.max(), self.size)
        for row, item in zip(states, items, strict=True):
            row[: len(item["states"])] = torch.from_numpy(item["states"])
        return {"states": states, "present": torch.from_numpy(np.arange(counts.max()) < counts[:, None])}

    def forward(self, batch: ShapeBatch) -> Tensor:
        scores: Tensor = self.output(batch["states"])
        return scores
