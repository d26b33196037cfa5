"""A label for each word: named entities, parts of speech."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import torch
from torch import Tensor

from didact.models.batch import EncodedBatch, Ints
from didact.models.heads._spans import occurrences
from didact.models.heads.base import HEADS, Head, HeadCard
from didact.models.heads.classes import ClassesHead, label_names
from didact.models.outputs import labelled
from didact.models.tokens.encoding import Encoding
from didact.protocols import Reads, TargetLike
from didact.types import SCALES, Prediction, Scale, Span, Target

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

OUTSIDE = ("o", "outside", "none", "other")
"""Names of the label of words that are nothing in particular, in lower case."""


@HEADS.register(
    HeadCard(
        name="word_label",
        family="classification",
        summary="A label for every word, read at its first token; one word's label is explained.",
        answers="class",
        architecture="ForTokenClassification",
        auto_class="AutoModelForTokenClassification",
    )
)
class WordLabelHead(Head):
    """Explains the logit, the log-probability or the probability of the label of one word.

    Which word is a span in the target and in the prediction. Where a user names none it is the word with the most
    probable label that is not "O" (outside of any entity). Where its word is taken out, all labels have the logit 0.

    Args:
        labels: names of the outputs.
    """

    scales: tuple[Scale, ...] = SCALES
    reads: Reads | None = "mean"

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)

    @classmethod
    def of(cls, config: PreTrainedConfig) -> Self:
        """Labels as configured."""
        return cls(label_names(config))

    def predictions(self, outputs: Tensor, batch: EncodedBatch) -> list[Prediction]:
        """Logits and probabilities of one word of each row."""
        about = cast("Sequence[Span | None]", batch.about or [None] * len(outputs))
        words = [span or self._most_certain(outputs, batch, row) for row, span in enumerate(about)]
        logits = _at_words(outputs, words, batch)
        plain = ClassesHead(self.labels).predictions(logits, batch)
        return [dataclasses.replace(made, extract=word) for made, word in zip(plain, words, strict=True)]

    def values(self, outputs: Tensor, targets: Sequence[Target], batch: EncodedBatch) -> Tensor:
        """The logit, log-probability or probability of the target's label for its word."""
        words = [cast("Span", target.answer) for target in targets]
        return ClassesHead(self.labels).values(_at_words(outputs, words, batch), targets)

    def target(self, given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
        """A label of the predicted word by name or index, a word by its span, or nothing for what is predicted."""
        word = given.answer if isinstance(given, Target) and given.answer is not None else prediction.extract
        label = None if isinstance(given, Span) else given
        chosen = labelled(self.labels, label, prediction, scale)
        return dataclasses.replace(chosen, answer=given if isinstance(given, Span) else word)

    def _most_certain(self, outputs: Tensor, batch: EncodedBatch, row: int) -> Span:
        spans, positions = cast("Encoding", batch.codes[row]).words
        columns = [int(np.flatnonzero(batch.places[row] == own[0])[0]) for own in positions]
        shares = outputs[row, columns].softmax(-1)
        kept = [number for number, label in enumerate(self.labels) if label.casefold() not in OUTSIDE]
        return spans[int(shares[:, kept or slice(None)].amax(-1).argmax())]


def _at_words(outputs: Tensor, words: Sequence[Span], batch: EncodedBatch) -> Tensor:
    """Logits at the first token of each row's word that is shown, 0 where none is: (rows, labels)."""
    columns = np.zeros(len(words), dtype=np.int64)
    shown = np.zeros(len(words), dtype=np.bool_)
    known: dict[tuple[int, Span], Ints] = {}
    for row, (word, code) in enumerate(zip(words, batch.codes, strict=True)):
        key = id(code), word
        if key not in known:
            known[key] = occurrences(cast("Encoding", code), word)[0]
        there = np.flatnonzero(np.isin(batch.places[row], known[key]))
        if len(there):
            columns[row], shown[row] = there[0], True
    taken = outputs[torch.arange(len(words), device=outputs.device), torch.from_numpy(columns).to(outputs.device)]
    return taken * torch.from_numpy(shown).to(taken)[:, None]
