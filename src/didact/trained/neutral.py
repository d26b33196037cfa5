"""A classifier that predicts "neutral" when the words that people marked are masked (L2E, section 5).

Explanations can be held against human rationales only if the model uses them. This classifier is made to: each text is
learnt with its label, and once more with its rationale masked and the label "neutral",

    L = - sum over (x, r, y) of log p(y | x) + log p(neutral | x without r).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from didact import checksums, disk
from didact.errors import InputError
from didact.models.compose import compose
from didact.models.device import choose_device
from didact.models.encoders import load_encoder
from didact.models.eval_mode import quiet
from didact.models.finetune import MaskedTexts, Optimization, finetune
from didact.models.load import DEFAULT
from didact.models.network import NetworkModel
from didact.models.readers.base import ReaderOptions
from didact.types import Example, Keep, Target, Units, overlapping

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

NEUTRAL = "neutral"
RECORD = "neutral.json"


@dataclass(frozen=True, kw_only=True)
class NeutralConfig:
    """How the classifier is trained.

    Args:
        epochs: how often each text is shown, whole and masked. The paper trains 40 with a frozen encoder.
        learning_rate: of AdamW, falling to 0 in a straight line.
        batch: texts per step; each is two rows.
        frozen: train the classification head alone.
        weight_decay: of AdamW.
        max_length: length limit in tokens, below the model's own.
        seed: decides the head's first weights and the order of the texts.
        device: "cpu" or "cuda"; the GPU when there is one.
    """

    epochs: int = 3
    learning_rate: float = 5e-5
    batch: int = 8
    frozen: bool = False
    weight_decay: float = 0.01
    max_length: int | None = None
    seed: int = 0
    device: str | None = None

    def __post_init__(self) -> None:
        _ = self.optimization  # checked at once

    @property
    def optimization(self) -> Optimization:
        """What of it the training loop uses."""
        return Optimization(
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch=self.batch,
            weight_decay=self.weight_decay,
            seed=self.seed,
        )


@dataclass(frozen=True)
class NeutralRun:
    """A trained classifier.

    Attributes:
        folder: where it lies; ``load_model`` reads it.
        losses: mean loss per text after each epoch.
        accuracy: share of the validation texts that get their label; NaN without such texts.
        neutral: share of them that is neutral once the rationale is masked.
    """

    folder: Path
    losses: tuple[float, ...]
    accuracy: float
    neutral: float


def train_neutral(
    encoder: str | Path,
    examples: Sequence[Example],
    folder: Path | str,
    *,
    validation: Sequence[Example] = (),
    config: NeutralConfig | None = None,
) -> NeutralRun:
    """Train a classifier on texts with rationales and save it.

    Args:
        encoder: directory or Hub id of a Transformers encoder, or "default" for the embedded model. A head that it has
            is replaced.
        examples: texts with labels and rationales.
        folder: where the classifier goes.
        validation: further ones, to measure accuracy on.
        config: the rest.
    """
    settings = config or NeutralConfig()
    disk.check_writable(Path(folder) / RECORD)
    labels = (*_labels(examples), NEUTRAL)
    network, tokenizer = load_encoder(None if encoder == DEFAULT else encoder, labels=labels, seed=settings.seed)
    torch.nn.Module.to(network, choose_device(settings.device))
    if settings.frozen:
        network.base_model.requires_grad_(False)
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    options = ReaderOptions(settings.max_length, max_truncated=1.0)
    model = compose(network, tokenizer, inputs="text", options=options)
    texts = _texts(model, examples, labels)
    losses = finetune(texts, _loss, settings.optimization, weights=weights, what="training the classifier")
    network.requires_grad_(False).eval()
    accuracy, neutral = _measure(model, validation, labels)
    made = NeutralRun(Path(folder), tuple(losses), accuracy, neutral)
    _save(made, network, tokenizer, settings)
    return made


def rationale_units(units: Units) -> NDArray[np.bool_]:
    """Which units the example's rationale overlaps."""
    return overlapping(units.regions, units.example.rationale or ())


def _texts(model: NetworkModel, examples: Sequence[Example], labels: Sequence[str]) -> MaskedTexts:
    """Each text whole, with its label, and with its rationale masked, as neutral.

    A rationale that lies wholly behind the length limit masks nothing: such a text is shown whole only.
    """
    units = model.units(examples)
    marked = [rationale_units(unit) for unit in units]
    wanted = [
        torch.tensor([labels.index(str(unit.example.label)), *([len(labels) - 1] if own.any() else [])])
        for unit, own in zip(units, marked, strict=True)
    ]

    def shown(number: int, rng: np.random.Generator) -> Keep:
        whole = np.ones_like(marked[number])
        return np.stack([whole, ~marked[number]]) if marked[number].any() else whole[None]

    return MaskedTexts(model, units, shown, wanted, "mask")


def _loss(outputs: Tensor, labels: Tensor, texts: int) -> Tensor:
    """The objective above, per text."""
    return F.cross_entropy(outputs, labels, reduction="sum") / texts


def _measure(model: NetworkModel, examples: Sequence[Example], labels: Sequence[str]) -> tuple[float, float]:
    """Share of right labels, and share of masked texts that are neutral."""
    if not examples:
        return float("nan"), float("nan")
    _check(examples)
    right = [
        prediction.label == str(example.label)
        for prediction, example in zip(model.predict(examples), examples, strict=True)
    ]
    units = [unit for unit in model.units(examples) if rationale_units(unit).any()]
    return float(np.mean(right)), float(np.mean(neutral_share(model, units))) if units else float("nan")


def neutral_share(model: NetworkModel, units: Sequence[Units]) -> list[bool]:
    """Whether each text is neutral to the model once its rationale is masked."""
    keep = [~rationale_units(unit)[None] for unit in units]
    columns = [
        model.score(units, [Target(number, label)] * len(units), keep, "mask")
        for number, label in enumerate(model.labels)
    ]
    outputs = np.array([[float(value[0]) for value in column] for column in columns])  # (labels, texts)
    return [model.labels[index] == NEUTRAL for index in outputs.argmax(axis=0)]


def _labels(examples: Sequence[Example]) -> tuple[str, ...]:
    _check(examples)
    labels = tuple(sorted({str(example.label) for example in examples}))
    if NEUTRAL in labels:
        raise InputError(f"a text is labelled {NEUTRAL!r} already, which is the label of masked texts; rename it")
    return labels


def _check(examples: Sequence[Example]) -> None:
    if not examples:
        raise InputError("there are no texts; give some with labels and rationales")
    for number, example in enumerate(examples):
        if example.label is None or not example.rationale:
            lacks = "label" if example.label is None else "rationale"
            raise InputError(
                f"text {number} (from 0), {example.preview}, has no {lacks}; training needs both, so leave it out"
            )


def _save(
    made: NeutralRun, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, settings: NeutralConfig
) -> None:
    facts = {"losses": made.losses, "accuracy": made.accuracy, "neutral": made.neutral}
    text = json.dumps(facts | {"settings": vars(settings) | {"device": None}}, indent=1)
    with disk.filling(made.folder, checksums.HASHES) as beside, quiet():
        network.save_pretrained(beside)
        tokenizer.save_pretrained(beside)
        disk.write_text(beside / RECORD, text + "\n")
        checksums.write_hashes(beside)
