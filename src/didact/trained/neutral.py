"""A classifier that answers "neutral" when the words that people marked are masked (L2E, section 5).

Explanations can be held against human rationales only if the model uses them. This one is made to: each text is learnt
with its label, and once more with its rationale masked and the label "neutral",

    L = - sum over (x, r, y) of log p(y | x) + log p(neutral | x without r).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from didact.errors import InputError, ModelError, ParameterError
from didact.models.eval_mode import quiet
from didact.models.load import DEFAULT, embedded_path
from didact.models.text import TextModel
from didact.models.variants import VariantRows
from didact.ops.masking import Absence
from didact.progress import advance, working
from didact.types import Example, Keep, Units, overlapping

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

NEUTRAL = "neutral"
RECORD = "neutral.json"

Ints = NDArray[np.int64]


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
        if self.epochs < 1 or self.batch < 1:
            raise ParameterError(f"epochs and batch must be at least 1, got {self.epochs} and {self.batch}")
        if not self.learning_rate > 0:
            raise ParameterError(f"learning_rate must be above 0, got {self.learning_rate}")


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
    labels = (*_labels(examples), NEUTRAL)
    network, tokenizer = _load(encoder, labels, settings)
    model = TextModel(network, tokenizer, max_length=settings.max_length, max_truncated=1.0)
    material = _Material(model, examples, labels)
    with torch.enable_grad(), working("training the classifier", settings.epochs * len(examples)):
        losses = _train(network, material, settings)
    network.requires_grad_(False).eval()
    accuracy, neutral = _measure(model, validation, labels)
    made = NeutralRun(Path(folder), tuple(losses), accuracy, neutral)
    _save(made, network, tokenizer, settings)
    return made


def rationale_units(units: Units) -> NDArray[np.bool_]:
    """Which units the example's rationale overlaps."""
    return overlapping(units.regions, units.example.rationale or ())


class _Material:
    """The texts, tokenised once, whole and with their rationales masked."""

    def __init__(self, model: TextModel, examples: Sequence[Example], labels: Sequence[str]) -> None:
        self.model = model
        self.units = model.units(examples)
        self.codes = model.encoder.encode(examples)
        self.operator = Absence.parse("mask")
        model.vocabulary.check(self.operator)
        self.marked = [rationale_units(units) for units in self.units]
        neutral = len(labels) - 1
        # A rationale that lies wholly behind the length limit masks nothing: such a text is shown whole only.
        self.wanted = [
            [labels.index(str(units.example.label)), *([neutral] if marked.any() else [])]
            for units, marked in zip(self.units, self.marked, strict=True)
        ]

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Ints, dict[str, Tensor], Tensor]]:
        """All texts once, in batches of similar length, in random order: their numbers, inputs and labels."""
        lengths = np.array([len(code.ids) for code in self.codes])
        mixed = rng.permutation(len(lengths))
        pools = [mixed[start : start + 16 * size] for start in range(0, len(mixed), 16 * size)]
        ordered = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
        groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        for number in rng.permutation(len(groups)):
            yield (groups[number], *self._batch(groups[number]))

    def _batch(self, chosen: Ints) -> tuple[dict[str, Tensor], Tensor]:
        model, keep = self.model, [self._keep(number) for number in chosen]
        rows = VariantRows(
            [self.units[number] for number in chosen],
            [self.codes[number] for number in chosen],
            keep,
            self.operator,
            model.vocabulary,
            model.traits.position_offset,
        )
        order = np.argsort(-rows.lengths, kind="stable")
        columns = {name: np.ascontiguousarray(column) for name, column in rows.columns(order).items()}
        wanted = np.concatenate([self.wanted[number] for number in chosen])[order]
        device = model.hf.device
        inputs = {name: torch.from_numpy(column).to(device) for name, column in columns.items()}
        return inputs, torch.from_numpy(wanted).to(device)

    def _keep(self, number: int) -> Keep:
        marked = self.marked[number]
        whole = np.ones_like(marked)
        return np.stack([whole, ~marked]) if marked.any() else whole[None]


def _train(network: PreTrainedModel, material: _Material, settings: NeutralConfig) -> list[float]:
    head = list(network.parameters())
    if settings.frozen:
        network.base_model.requires_grad_(False)
        head = [weight for weight in head if weight.requires_grad]
    optimizer = torch.optim.AdamW(head, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    steps = settings.epochs * -(-len(material.units) // settings.batch)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, steps)
    rng = np.random.default_rng(settings.seed)
    losses = []
    for _ in range(settings.epochs):
        total = 0.0
        for chosen, inputs, wanted in material.batches(settings.batch, rng):
            loss = F.cross_entropy(network(**inputs).logits, wanted, reduction="sum") / len(chosen)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(head, 1.0)
            optimizer.step()
            schedule.step()
            total += float(loss.detach()) * len(chosen)
            advance(len(chosen))
        losses.append(total / len(material.units))
    return losses


def _measure(model: TextModel, examples: Sequence[Example], labels: Sequence[str]) -> tuple[float, float]:
    """Share of right labels, and share of masked texts that are neutral."""
    if not examples:
        return float("nan"), float("nan")
    _check(examples)
    right = [
        found.label == str(example.label) for found, example in zip(model.predict(examples), examples, strict=True)
    ]
    units = [unit for unit in model.units(examples) if rationale_units(unit).any()]
    return float(np.mean(right)), float(np.mean(neutral_share(model, units))) if units else float("nan")


def neutral_share(model: TextModel, units: Sequence[Units]) -> list[bool]:
    """Whether each text is neutral to the model once its rationale is masked."""
    from didact.types import Target

    keep = [~rationale_units(unit)[None] for unit in units]
    columns = [
        model.score(units, [Target(number, label)] * len(units), keep, "mask")
        for number, label in enumerate(model.labels)
    ]
    outputs = np.array([[float(value[0]) for value in column] for column in columns])  # (labels, texts)
    return [model.labels[index] == NEUTRAL for index in outputs.argmax(axis=0)]


def _labels(examples: Sequence[Example]) -> tuple[str, ...]:
    _check(examples)
    found = tuple(sorted({str(example.label) for example in examples}))
    if NEUTRAL in found:
        raise InputError(f"a text is labelled {NEUTRAL!r} already, which is the label of masked texts; rename it")
    return found


def _check(examples: Sequence[Example]) -> None:
    if not examples:
        raise InputError("there are no texts; give some with labels and rationales")
    for number, example in enumerate(examples):
        if example.label is None or not example.rationale:
            lacks = "label" if example.label is None else "rationale"
            raise InputError(
                f"text {number} (from 0), {example.preview}, has no {lacks}; training needs both, so leave it out"
            )


def _load(
    encoder: str | Path, labels: Sequence[str], settings: NeutralConfig
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    place = str(embedded_path() if encoder == DEFAULT else encoder)
    device = torch.device(settings.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    named = dict(enumerate(labels))
    head: dict[str, Any] = {"num_labels": len(labels), "id2label": named, "problem_type": "single_label_classification"}
    head["label2id"] = {label: number for number, label in named.items()}
    try:
        tokenizer = AutoTokenizer.from_pretrained(place)
        with quiet(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            network = AutoModelForSequenceClassification.from_pretrained(
                place, ignore_mismatched_sizes=True, use_safetensors=True, **head
            )
    except (OSError, ValueError, KeyError) as problem:
        raise ModelError(f"cannot load an encoder from {place!r}: {str(problem).splitlines()[0]:.200}") from None
    return network.float().to(device).eval(), tokenizer


def _save(
    made: NeutralRun, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, settings: NeutralConfig
) -> None:
    made.folder.mkdir(parents=True, exist_ok=True)
    with quiet():
        network.save_pretrained(made.folder)
        tokenizer.save_pretrained(made.folder)
    facts = {"losses": made.losses, "accuracy": made.accuracy, "neutral": made.neutral}
    text = json.dumps(facts | {"settings": vars(settings) | {"device": None}}, indent=1)
    (made.folder / RECORD).write_text(text + "\n", encoding="utf-8")
