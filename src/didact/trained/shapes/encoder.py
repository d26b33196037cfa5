"""AML's network: a pretrained encoder that reads the text and the prediction, and a small network per token."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import FormatError, ParameterError
from didact.models.planner import Budget, default_budget
from didact.protocols import Model
from didact.provenance import display_name
from didact.trained.shapes._encoder_backbone import embeddings_of, load_backbone, rebuilt, save_network
from didact.trained.shapes._encoder_config import EncoderConfig
from didact.trained.shapes._encoder_images import BackboneImages
from didact.trained.shapes._encoder_inputs import PLACES, BackboneInputs, BackboneTexts
from didact.trained.shapes.base import Item, Shape, ShapeBatch, ShapeCard, register
from didact.types import Prediction, Units

if TYPE_CHECKING:
    from transformers import PreTrainedModel

INPUTS: Mapping[str, type[BackboneInputs]] = {kind.name: kind for kind in (BackboneTexts, BackboneImages)}

STANDARDISED = 100
"""Training texts whose predictions a number's mean and spread are taken from."""


@register(
    ShapeCard(
        name="encoder",
        family="pretrained encoder",
        summary="A pretrained encoder reads the text and the prediction; a small network scores each token.",
        reference="Barkan et al. 2024, Attributive Masking Learning",
    )
)
class AttributionEncoder(Shape):
    """Scores all units in one pass of a pretrained encoder, for the prediction of the explained model.

    The prediction becomes a vector behind the last token, z = z_0 + sum over outputs j of p_j z_j, with p_j the
    probability of output j (of a model that predicts a number: that number, standardised). Where another output than
    the predicted one is explained, a vector of its own is added. Each token's state then goes through
    Linear, tanh, Linear; the prediction's is not scored.

    Units are those of the explained model, tokens those of the backbone: they are brought together by the characters
    they stand for, so that any encoder can explain any model. A unit that the backbone does not read gets the mean
    over the others of its text, and is counted by ``unread``.

    Args:
        config: sizes and choices.
        network: the backbone, without a head.
        inputs: feeds it.
    """

    fixed = frozenset({"prediction", "pixel_values"})

    def __init__(self, config: EncoderConfig, network: PreTrainedModel, inputs: BackboneInputs) -> None:
        super().__init__()
        self.config = config
        self.backbone = network
        self.inputs = inputs
        size, width = int(network.config.hidden_size), inputs.width(network)
        std = float(getattr(network.config, "initializer_range", 0.02))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.prediction = nn.Parameter(torch.randn(config.labels + 1, width) * std)  # z_0, then z_j of the outputs
            self.inner = nn.Linear(size, size)
            self.output = nn.Linear(size, config.outputs)
        self.other = nn.Parameter(torch.zeros(config.labels + 1, width))  # the last row: an output without a name
        self.dropout = nn.Dropout(config.dropout)
        embeddings_of(network).requires_grad_(not config.frozen_embeddings)

    @classmethod
    def build(cls, model: Model, units: Sequence[Units], outputs: int, settings: Mapping[str, object]) -> Self:
        """An encoder with pretrained weights; ``settings`` are fields of ``EncoderConfig``."""
        try:
            config = EncoderConfig(**{**settings, "labels": len(model.labels), "outputs": outputs})  # type: ignore[arg-type]
        except TypeError as problem:
            raise ParameterError(f"unknown setting of encoder: {str(problem).split('__init__() ')[-1]}") from None
        images = any(not own.example.is_textual for own in units)
        config = replace(_standardised(config, model, units), reads="image" if images else "text")
        network, processor = load_backbone(model, config)
        inputs = INPUTS[config.reads].of(network, processor, config)
        return cls(inputs.settled(replace(config, backbone=display_name(config.backbone))), network, inputs)

    @property
    def outputs(self) -> int:
        """Numbers per unit."""
        return self.config.outputs

    @property
    def settings(self) -> dict[str, object]:
        """The configuration as plain JSON values."""
        return asdict(self.config)

    @classmethod
    def from_settings(cls, settings: Mapping[str, object], folder: Path) -> Self:
        """An untrained encoder; neither the explained model nor the pretrained backbone is needed."""
        try:
            config = EncoderConfig(**settings)  # type: ignore[arg-type] # plain JSON values, checked by the config
        except TypeError as problem:
            raise FormatError(f"these are not the settings of an encoder: {problem}") from None
        network = rebuilt(folder)
        return cls(config, network, INPUTS[config.reads].load(folder, network, config))

    def save_reading(self, folder: Path) -> None:
        """Write the backbone's configuration and tokenizer."""
        save_network(self.backbone, folder)
        self.inputs.save(folder)

    def read(
        self,
        model: Model | None,
        units: Sequence[Units],
        targets: Sequence[int],
        predictions: Sequence[Prediction],
    ) -> list[Item]:
        """What the backbone reads of each example, the prediction, and the explained output."""
        inputs = self.inputs.read(units)
        return [
            {
                **own,
                "prediction": self._facts(prediction),
                "other": np.array(-1 if target == prediction.index else min(target, self.config.labels)),
            }
            for own, target, prediction in zip(inputs, targets, predictions, strict=True)
        ]

    def restarted(self, number: int) -> AttributionEncoder:
        """A copy with other first weights of what is not pretrained."""
        config = replace(self.config, seed=self.config.seed + number)
        return type(self)(config, *copy.deepcopy((self.backbone, self.inputs))).to(self.prediction.device)

    def budget(self, device: torch.device) -> Budget:
        """As for a network that is explained: padding costs more than a further batch."""
        return default_budget(device)

    def check_export(self) -> None:
        """Refuse images: what the export is tried on are texts."""
        if self.config.reads == "image":
            raise ParameterError("an encoder of images is not exported; explain with the torch runtime")

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Pad items at their end."""
        counts = np.array([len(item[PLACES]) for item in items])
        most = max(2, *(item[PLACES].shape[1] for item in items))  # a size of 1 would be a case of its own to export
        places = np.full((len(items), counts.max(), most), -1, dtype=np.int64)
        for row, item in zip(places, items, strict=True):
            own = item[PLACES]
            row[: len(own), : own.shape[1]] = own
        return {
            **self.inputs.collate(items),
            "present": torch.from_numpy(np.arange(counts.max()) < counts[:, None]),
            PLACES: torch.from_numpy(places),
            "prediction": torch.from_numpy(np.stack([item["prediction"] for item in items])),
            "other": torch.tensor([int(item["other"]) for item in items]),
        }

    def forward(self, batch: ShapeBatch) -> Tensor:
        """Numbers for the units: (rows, units, outputs)."""
        states = self.inputs.states(self.backbone, batch, self._vector(batch))
        numbers = self.output(torch.tanh(self.inner(self.dropout(states))))  # (rows, positions, outputs)
        return self._by_unit(numbers, batch[PLACES])

    def refined(self) -> list[nn.Parameter]:
        """Without the vectors of the prediction, which a single text says little about."""
        own = {id(self.prediction), id(self.other)}
        return [weight for weight in super().refined() if id(weight) not in own]

    def length(self, item: Item) -> int:
        """Positions of the backbone."""
        return self.inputs.length(item)

    def unread(self, item: Item) -> NDArray[np.int64]:
        """Numbers of the units that the backbone does not read."""
        return np.flatnonzero((np.asarray(item[PLACES], dtype=np.int64) < 0).all(axis=1))

    def _vector(self, batch: ShapeBatch) -> Tensor:
        """The prediction as the backbone is given it: (rows, width)."""
        facts, other = batch["prediction"], batch["other"]
        z = self.prediction[0] + facts.to(self.prediction.dtype) @ self.prediction[1:]
        return z + self.other[other.clamp(min=0)] * (other >= 0)[:, None]

    def _by_unit(self, numbers: Tensor, places: Tensor) -> Tensor:
        """Numbers of positions merged to those of units: (rows, positions, n) -> (rows, units, n)."""
        at = places.clamp(min=0).flatten(1)[..., None].expand(-1, -1, numbers.shape[-1])
        each = numbers.gather(1, at).view(*places.shape, -1)  # (rows, units, most, n)
        there = (places >= 0)[..., None]
        if self.config.merge == "max":
            merged = each.masked_fill(~there, torch.finfo(each.dtype).min).amax(2)
        else:
            merged = (each * there).sum(2) / there.sum(2).clamp(min=1)
        known = there.any(2)
        mean = (merged * known).sum(1, keepdim=True) / known.sum(1, keepdim=True).clamp(min=1)
        return torch.where(known, merged, mean.detach())

    def _facts(self, prediction: Prediction) -> NDArray[np.float32]:
        """What is shown of a prediction, a number per output."""
        outputs = np.array(prediction.outputs[: self.config.labels])
        if prediction.probabilities:
            facts = np.array(prediction.probabilities)
        elif prediction.extract is not None:
            facts = np.exp(outputs)  # log-probabilities of spans or texts
        elif self.config.labels == 1:
            facts = (outputs - self.config.centre) / self.config.spread
        else:
            facts = np.exp(outputs - outputs.max())
            facts /= facts.sum()
        return facts.astype(np.float32)


def _standardised(config: EncoderConfig, model: Model, units: Sequence[Units]) -> EncoderConfig:
    """With mean and spread of the predictions where these are numbers."""
    if config.labels > 1 or not units:
        return config
    made = model.predict([own.example for own in units[:STANDARDISED]])
    numbers = [prediction.outputs[0] for prediction in made if prediction.is_regression]
    if not numbers:
        return config
    return replace(config, centre=float(np.mean(numbers)), spread=float(np.std(numbers)) or 1.0)
