"""Batches of a cohort: every student's own training examples in its own order, picked on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from didact.errors import InputError, ParameterError
from didact.students.base import Batch, Ints, LabelledExample, StudentRun, TaskSetup
from didact.students.optimization import Schedule
from didact.students.patched import PatchedImages
from didact.students.tokenized import HintTable, TokenizedTexts, answer_positions, hint_table
from didact.types import Floats

SORTED_BATCHES = 8
"""Batches among which texts of similar length are put together."""

PAD_TO = {"cpu": 8, "cuda": 32}
"""Lengths are rounded up to a multiple of this, so that few different shapes come up."""


@dataclass(frozen=True, eq=False)
class CohortData:
    """Training pool and test texts as the student reads them.

    Attributes:
        pool: texts of the training pool.
        answers: the teacher's: (pool,) classes or numbers, or (pool, 2) positions.
        test: test texts.
    """

    pool: TokenizedTexts
    answers: Ints | Floats
    test: TokenizedTexts


def cohort_data(
    pool: Sequence[LabelledExample], pool_texts: TokenizedTexts, test_texts: TokenizedTexts, setup: TaskSetup
) -> CohortData:
    """Training pool and test texts as arrays; answers that do not fit the setup are refused."""
    if setup.kind == "span":
        return CohortData(pool_texts, answer_positions(pool_texts, pool), test_texts)
    answers = np.array([labelled.answer for labelled in pool], dtype=np.float64)
    if setup.kind == "number":
        return CohortData(pool_texts, answers, test_texts)
    wrong = np.flatnonzero((answers != np.floor(answers)) | (answers < 0) | (answers >= setup.outputs))
    if len(wrong):
        raise InputError(
            f"training example {wrong[0]} (from 0) has the answer {pool[wrong[0]].answer!r}; classes must be 0 to "
            f"{setup.outputs - 1}, as the setup has {setup.outputs} outputs"
        )
    return CohortData(pool_texts, answers.astype(np.int64), test_texts)


def check_runs(runs: Sequence[StudentRun], pool: int) -> None:
    """Refuse runs without examples, with places outside of the pool, or with hints that do not match."""
    for number, run in enumerate(runs):
        if not len(run.places):
            raise InputError(f"run {number} (from 0) has no training examples; give at least one")
        if len(run.hints) != len(run.places):
            raise InputError(
                f"run {number} (from 0) has {len(run.places)} training examples and {len(run.hints)} hints; give one "
                "each, None where there is no hint"
            )
        if run.places.min() < 0 or run.places.max() >= pool:
            raise InputError(f"run {number} (from 0) has a place outside of the pool of {pool}")
        if run.seed < 0:
            raise ParameterError(f"run {number} (from 0) has the seed {run.seed}; seeds are 0 or more")


class TextTensors:
    """Texts on the device, so that a batch is picked there.

    Args:
        texts: as the student reads them.
        setup: kind of answer and device.
    """

    def __init__(self, texts: TokenizedTexts, setup: TaskSetup) -> None:
        self.device = torch.device(setup.device)
        self._width = texts.width
        self._ids, self._types, self._text, self._lengths = (
            torch.from_numpy(values).to(self.device) for values in (texts.ids, texts.types, texts.text, texts.lengths)
        )
        self._pixels = None
        if isinstance(texts, PatchedImages):
            self._pixels = torch.from_numpy(texts.pixels).to(self.device)
        self._passage = None
        if setup.kind == "span":
            self._passage = torch.from_numpy(texts.text & (texts.fields == 1)).to(self.device)

    def batch(self, places: Tensor, longest: int) -> Batch:
        """Texts without hints and answers.

        Args:
            places: of the texts (S, B).
            longest: tokens of the longest of them, so that the device need not be waited for.
        """
        multiple = PAD_TO[self.device.type]
        width = min(-(-longest // multiple) * multiple, self._width)
        zero = torch.zeros((), device=self.device)
        mask = torch.arange(width, device=self.device) < self._lengths[places][..., None]
        return Batch(
            self._ids[:, :width][places],
            self._types[:, :width][places],
            mask,
            self._text[:, :width][places],
            zero.expand(places.shape),
            zero.expand(mask.shape),
            passage=None if self._passage is None else self._passage[:, :width][places],
            places=places,
            pixels=None if self._pixels is None else self._pixels[places],
        )


@dataclass(frozen=True, eq=False)
class AnswerScale:
    """Mean and spread of each student's numbers (S,): it learns on their own scale, whatever the teacher's is."""

    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, answers: Ints | Floats, runs: Sequence[StudentRun]) -> AnswerScale:
        """The scale of the answers in each run."""
        own = np.stack([answers[run.places] for run in runs])
        spread = own.std(1)
        return cls(own.mean(1), np.where(spread > 0, spread, 1.0))

    def standardised(self, answers: Ints | Floats) -> NDArray[np.float32]:
        """The teacher's numbers on each student's scale: (pool,) -> (S, pool)."""
        return ((answers - self.mean[:, None]) / self.spread[:, None]).astype(np.float32)

    def restored(self, student: int, answers: NDArray[np.float32]) -> Floats:
        """A student's numbers on the teacher's scale."""
        return answers.astype(np.float64) * float(self.spread[student]) + float(self.mean[student])


class TrainingBatches:
    """Batches of all epochs for runs with equally many training examples.

    Args:
        data: training pool and test texts.
        runs: one per student.
        setup: kind of answer, channel and device; without a channel, batches have no hints.
        schedule: size of a batch and number of epochs.
    """

    def __init__(self, data: CohortData, runs: Sequence[StudentRun], setup: TaskSetup, schedule: Schedule) -> None:
        self.runs, self.schedule = runs, schedule
        self.scale = AnswerScale.of(data.answers, runs) if setup.kind == "number" else None
        self.steps = schedule.steps(len(runs[0].places))
        self._texts = TextTensors(data.pool, setup)
        self._lengths = data.pool.lengths
        answers = data.answers if self.scale is None else self.scale.standardised(data.answers)
        self._answers = self._on_device(answers)
        self._places = np.stack([run.places for run in runs])
        self._hints = None if setup.channel is None else _hints(data.pool, runs)
        self._weights = None if self._hints is None else self._on_device(self._hints.weights)
        links = None if self._hints is None else self._hints.links
        self._links = None if links is None else self._on_device(links)

    def __iter__(self) -> Iterator[Batch]:
        for epoch in range(self.schedule.epochs):
            yield from self.epoch(epoch)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch, counted from 0."""
        size = self.schedule.batch_size
        orders = [epoch_order(self._lengths[run.places], run.seed, number, size) for run in self.runs]
        order = self._on_device(np.stack([np.concatenate(batches) for batches in orders]))
        places = self._on_device(self._places).gather(1, order)
        hint_rows = None if self._hints is None else self._on_device(self._hints.rows).gather(1, order)
        students, begin = np.arange(len(self.runs))[:, None], 0
        for step, first in enumerate(orders[0]):
            at = slice(begin, begin + len(first))
            begin += len(first)
            chosen = np.stack([batches[step] for batches in orders])
            longest = int(self._lengths[self._places[students, chosen]].max())
            batch = self._texts.batch(places[:, at], longest)
            yield self._completed(batch, places[:, at], None if hint_rows is None else hint_rows[:, at])

    def _completed(self, batch: Batch, places: Tensor, hint_rows: Tensor | None) -> Batch:
        """The batch with answers and hints."""
        answers = self._answers[places] if self.scale is None else self._answers.gather(1, places)
        hints, links, width = batch.hints, None, batch.ids.shape[-1]
        if self._weights is not None and hint_rows is not None:
            hints = self._weights[:, :width][hint_rows]
            links = None if self._links is None else self._links[..., :width][hint_rows].float()
        return replace(batch, answers=answers, hints=hints, links=links)

    def _on_device(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(values).to(self._texts.device)


def epoch_order(lengths: Ints, seed: int, epoch: int, size: int) -> list[Ints]:
    """Order of the training examples in an epoch, batch by batch.

    The student's seed shuffles them; then, among a few batches at a time, texts of similar length come together, and
    these batches change places in a way that is the same for all students, so that all read long texts in one step and
    short ones in another.
    """
    order = np.random.default_rng([seed, epoch]).permutation(len(lengths))
    batches: list[Ints] = []
    for begin in range(0, len(order), size * SORTED_BATCHES):
        part = order[begin : begin + size * SORTED_BATCHES]
        part = part[np.argsort(-lengths[part], kind="stable")]
        cut = [part[at : at + size] for at in range(0, len(part), size)]
        batches += [cut[number] for number in np.random.default_rng([epoch, begin]).permutation(len(cut))]
    return batches


def _hints(pool: TokenizedTexts, runs: Sequence[StudentRun]) -> HintTable:
    """All hints of the runs; a run of weight 0 gets none, since 0 times an infinite weight would not be 0."""
    hints = [run.hints if run.weight != 0 else [None] * len(run.hints) for run in runs]
    return hint_table(pool, [run.places for run in runs], hints)
