"""Answers of trained students to test texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from didact.students.base import Cohort, Ints, TaskSetup
from didact.students.batches import AnswerScale, TextTensors
from didact.students.losses import FAR_BELOW
from didact.students.optimization import Schedule
from didact.students.tokenized import TokenizedTexts, answer_characters
from didact.students.trainer import autocast
from didact.types import Floats

LONGEST_ANSWER = 30
"""Tokens of an answer in a passage."""

TOKENS = {"cpu": 4096, "cuda": 131072}
"""Tokens that are read at once, all students together."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Answers of a cohort.

    Attributes:
        answers: per student classes or numbers (texts,), or first and last character of spans (texts, 2).
        finite: whether all outputs of a student were finite (S,).
    """

    answers: list[Ints | Floats]
    finite: NDArray[np.bool_]


class Predictor:
    """Test texts on the device, to be answered by students as often as wanted.

    Args:
        texts: test texts.
        setup: kind of answer and device.
        schedule: precision.
        scale: of the students' numbers; None for classes and spans.
    """

    def __init__(
        self, texts: TokenizedTexts, setup: TaskSetup, schedule: Schedule, scale: AnswerScale | None = None
    ) -> None:
        self.texts, self.setup, self.schedule, self.scale = texts, setup, schedule, scale
        self._tensors = TextTensors(texts, setup)
        self._order = np.argsort(texts.lengths, kind="stable")

    def predict(self, cohort: Cohort) -> Predictions:
        """Answers of every student to every text, without hints; the cohort is in evaluation mode."""
        device, lengths = self._tensors.device, self.texts.lengths
        parts, finite = [], torch.ones(cohort.size, dtype=torch.bool, device=device)
        with torch.inference_mode(), autocast(self.schedule, device):
            for chosen in _chunks(self._order, lengths, TOKENS[device.type] // cohort.size):
                places = torch.from_numpy(chosen).to(device).expand(cohort.size, -1)
                batch = self._tensors.batch(places, int(lengths[chosen].max()))
                outputs = cohort(batch).answers.float()
                finite &= outputs.flatten(1).isfinite().all(1)
                parts.append(_decoded(self.setup, outputs, batch.passage))
        back = np.empty_like(self._order)
        back[self._order] = np.arange(len(self._order))
        decoded = torch.cat(parts, 1).cpu().numpy()[:, back] if parts else np.zeros((cohort.size, 0))
        answers = [_answers(number, rows, self.texts, self.setup, self.scale) for number, rows in enumerate(decoded)]
        return Predictions(answers, finite.cpu().numpy())


def _answers(
    student: int, decoded: NDArray[np.generic], texts: TokenizedTexts, setup: TaskSetup, scale: AnswerScale | None
) -> Ints | Floats:
    """Decoded outputs as the teacher's answers are given."""
    if setup.kind == "span":
        positions = decoded.astype(np.int64).reshape(-1, 2)
        return np.where(positions >= 0, answer_characters(texts, np.maximum(positions, 0)), -1)
    return decoded.astype(np.int64) if scale is None else scale.restored(student, decoded.astype(np.float32))


def _decoded(setup: TaskSetup, outputs: Tensor, passage: Tensor | None) -> Tensor:
    """Classes or numbers (S, B), or first and last position of an answer (S, B, 2), -1 where there is no passage."""
    if setup.kind == "number":
        return outputs
    if passage is None:
        return outputs.argmax(-1)
    logits = outputs.masked_fill(~passage[..., None], FAR_BELOW)
    first, last = logits.unbind(-1)  # (S, B, L)
    ends = F.pad(last, (0, LONGEST_ANSWER - 1), value=2 * FAR_BELOW).unfold(-1, LONGEST_ANSWER, 1)
    best = (first[..., None] + ends).flatten(2).argmax(-1)  # (S, B) of L * LONGEST_ANSWER
    start, more = best // LONGEST_ANSWER, best % LONGEST_ANSWER
    return torch.where(passage.any(-1)[..., None], torch.stack([start, start + more], -1), -1)


def _chunks(order: Ints, lengths: Ints, tokens: int) -> Iterator[Ints]:
    """Texts, short ones first, as many at a time as fit into so many tokens when padded; at least one."""
    begin = 0
    while begin < len(order):
        waiting = lengths[order[begin:]]
        count = max(1, int((waiting * np.arange(1, len(waiting) + 1) <= tokens).sum()))
        yield order[begin : begin + count]
        begin += count
