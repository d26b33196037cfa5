"""The lessons of a cohort: many students of one kind trained at once, each as if it were alone.

Each student has its own weights, its own lessons in its own order, and its own gradient norm; nothing is summed over
students but the loss, whose gradient with respect to one student's weights the others do not enter. So it does not
matter who sits beside whom, and a student that runs away to infinity takes nobody with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from didact.errors import CapabilityError, InputError, ParameterError
from didact.progress import advance, working
from didact.students.base import Batch, Cohort, CohortOutput, Course, Ints, Lesson, Student, StudentOutcome, TaskSetup
from didact.students.optimization import Schedule, clipped, optimizer, products
from didact.students.tokenized import TokenizedTexts, answer_characters, answer_positions, hint_table
from didact.types import Floats

LONGEST_ANSWER = 30
"""Tokens of an answer in a passage."""

SORTED_BATCHES = 8
"""Batches among which texts of similar length are put together."""

IGNORED = -1
FAR_BELOW = -1e9
"""Logit of a position that cannot be an answer; finite, so that a text without any passage gives no NaN."""


@dataclass(frozen=True, eq=False)
class CohortMaterial:
    """What is taught and asked, as the student reads it.

    Attributes:
        pool: texts of the lessons.
        answers: the teacher's: (lessons,) classes or numbers, or (lessons, 2) positions.
        exam: texts of the exam.
    """

    pool: TokenizedTexts
    answers: NDArray[Any]
    exam: TokenizedTexts


Maker = Callable[[Sequence[int]], Cohort]
"""Makes untrained students from their seeds."""


def material(
    pool: Sequence[Lesson], pool_sheets: TokenizedTexts, exam_sheets: TokenizedTexts, lab: TaskSetup
) -> CohortMaterial:
    """Lessons and exam as tensors hold them; answers that do not fit the task are refused."""
    if lab.task == "span":
        return CohortMaterial(pool_sheets, answer_positions(pool_sheets, pool), exam_sheets)
    answers = np.array([lesson.answer for lesson in pool], dtype=np.float64)
    if lab.task == "number":
        return CohortMaterial(pool_sheets, answers, exam_sheets)
    wrong = np.flatnonzero((answers != np.floor(answers)) | (answers < 0) | (answers >= lab.outputs))
    if len(wrong):
        raise InputError(
            f"lesson {wrong[0]} (from 0) has the answer {pool[wrong[0]].answer!r}; classes must be 0 to "
            f"{lab.outputs - 1}, as the lab has {lab.outputs} outputs"
        )
    return CohortMaterial(pool_sheets, answers.astype(np.int64), exam_sheets)


def check_setup(student: Student, lab: TaskSetup) -> None:
    """Refuse tasks, channels and devices that this kind of student cannot serve."""
    card = student.card
    if lab.task not in card.tasks:
        raise CapabilityError(f"{card.name} cannot imitate task {lab.task!r}; it can: {', '.join(sorted(card.tasks))}")
    if lab.channel is not None and lab.channel.card.name not in card.channels:
        raise CapabilityError(
            f"channel {lab.channel.card.name!r} does not reach the student {card.name}; those that do: "
            f"{', '.join(sorted(card.channels)) or 'none'}"
        )
    if lab.channel is not None and lab.task not in lab.channel.card.tasks:
        raise CapabilityError(f"channel {lab.channel.card.name!r} cannot accompany task {lab.task!r}")
    if lab.device.partition(":")[0] not in ("cpu", "cuda"):
        raise ParameterError(f"students are taught on 'cpu' or 'cuda', got {lab.device!r}")
    if lab.device != "cpu" and not torch.cuda.is_available():
        raise ParameterError(f"device {lab.device!r} was asked for, but no CUDA device is available here; use 'cpu'")
    if lab.together is not None and lab.together < 1:
        raise ParameterError(f"together must be at least 1, got {lab.together}")


def teach(
    make: Maker, what: CohortMaterial, courses: Sequence[Course], lab: TaskSetup, schedule: Schedule, together: int
) -> list[StudentOutcome]:
    """Teach each course to a student of its own, up to ``together`` of them at once, and let all sit the exam.

    Args:
        make: makes the students.
        what: lessons and exam.
        courses: one per student.
        lab: task, channel and device.
        schedule: of the training.
        together: students trained at once; fewer where the device's memory does not hold them.

    Returns:
        One outcome per course, in order. ``details`` has the mean task loss of the first and the last epoch, the mean
        channel loss of the last epoch, and the number of steps.
    """
    _check_courses(courses, len(what.pool))
    found: dict[int, StudentOutcome] = {}
    waiting = _groups(courses, together)
    steps = sum(schedule.steps(len(course.lessons)) for course in courses)
    with working(f"teaching {len(courses)} students", steps), products(schedule.precision):
        while waiting:
            group = waiting.pop(0)
            try:
                outcomes = _Class(make, what, [courses[number] for number in group], lab, schedule).taught()
            except torch.OutOfMemoryError:
                if len(group) == 1:
                    raise
                torch.cuda.empty_cache()
                half = len(group) // 2
                waiting[:0] = [group[:half], group[half:]]
                continue
            found.update(zip(group, outcomes, strict=True))
    return [found[number] for number in range(len(courses))]


class _Class:
    """Some courses with equally many lessons, taught together."""

    def __init__(
        self, make: Maker, what: CohortMaterial, courses: Sequence[Course], lab: TaskSetup, schedule: Schedule
    ) -> None:
        self.what, self.courses, self.lab, self.schedule = what, courses, lab, schedule
        self.device = torch.device(lab.device)
        seeds = [course.seed for course in courses]
        self.size = len(courses)
        self.cohort = make(seeds).to(self.device).train(schedule.dropout)
        self.told = [course.weight != 0 and any(hint is not None for hint in course.hints) for course in courses]
        self.channel = lab.channel if any(self.told) else None
        self.head = None if self.channel is None else self.channel.head(self.cohort.width, seeds)
        if self.head is not None:
            self.head.to(self.device)
        self.weight = torch.tensor([course.weight for course in courses], device=self.device, dtype=torch.float32)
        self.pool = _Stock(what.pool, self.device)
        self.scale = _scale(what.answers, courses) if lab.task == "number" else None
        self.answers = torch.from_numpy(_own_answers(what.answers, self.scale)).to(self.device)
        self.pad = 32 if self.device.type == "cuda" else 8
        self.optimizer, self.parameters = optimizer([self.cohort, self.head], schedule)

    def taught(self) -> list[StudentOutcome]:
        """Train, examine, report."""
        task, channel, lost = self._train()
        self.cohort.eval()
        answers, sound = self._examined()
        outcomes = []
        for number, course in enumerate(self.courses):
            first, last = _ends(task[:, number], self.schedule.epochs)
            details = {"first_loss": first, "last_loss": last, "steps": float(len(task))}
            if self.channel is not None and self.told[number]:
                details["channel_loss"] = _ends(channel[:, number], self.schedule.epochs)[1]
            trouble = self._trouble(course, answers[number], bool(sound[number]), int(lost[number]), (first, last))
            outcomes.append(StudentOutcome(answers[number], trouble, details))
        return outcomes

    def _train(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Losses of task and channel (steps, S), and the step at which each student was lost, -1 for none."""
        plan = self._plan()
        tasks, channels = [], []
        lost = torch.full((self.size,), -1, device=self.device)
        with _seeded([course.seed for course in self.courses], self.device, self.schedule.dropout):
            for step, (batch, passage) in enumerate(plan):
                with self._autocast():
                    reading = self.cohort.read(batch, None if self.channel is None else self.channel.look)
                    task = self._task_loss(reading.answers.float(), batch, passage)
                    told = self._channel_loss(reading, batch)
                norm = self._update((task + self.weight * told).sum() if told is not None else task.sum(), step)
                fine = task.isfinite() & norm.isfinite()
                lost = torch.where((lost < 0) & ~fine, step, lost)
                tasks.append(task.detach())
                channels.append(torch.zeros_like(task) if told is None else told.detach())
                advance(self.size)
        return torch.stack(tasks).cpu().numpy(), torch.stack(channels).cpu().numpy(), lost.cpu().numpy()

    def _task_loss(self, answers: Tensor, batch: Batch, passage: Tensor | None) -> Tensor:
        """Mean over each student's batch (S,)."""
        if self.lab.task == "number":
            return F.mse_loss(answers, batch.answers, reduction="none").mean(1)
        if passage is None:
            each = F.cross_entropy(answers.flatten(0, 1), batch.answers.flatten(), reduction="none")
            return each.view(batch.answers.shape).mean(1)
        logits = answers.masked_fill(~passage[..., None], FAR_BELOW).transpose(-1, -2)  # (S, B, 2, L)
        each = F.cross_entropy(logits.flatten(0, 2), batch.answers.flatten(), reduction="none", ignore_index=IGNORED)
        return each.view(batch.answers.shape).sum(-1).mean(1)

    def _channel_loss(self, reading: CohortOutput, batch: Batch) -> Tensor | None:
        """Mean over each student's batch (S,)."""
        if self.channel is None:
            return None
        return self.channel.loss(reading, batch, self.head).float().mean(1)

    def _update(self, loss: Tensor, step: int) -> Tensor:
        """One step of all students; the norms of their gradients (S,)."""
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        grads = [weight.grad for weight in self.parameters if weight.grad is not None]
        norm = clipped(grads, self.size, self.schedule.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.rate(step, self.schedule.steps(len(self.courses[0].lessons)))
        self.optimizer.step()
        return norm

    def _plan(self) -> Iterator[tuple[Batch, Tensor | None]]:
        """All batches of all epochs, with the positions of the passage where an answer is looked for."""
        lessons = np.stack([course.lessons for course in self.courses])
        # Whom hints do not count for, gets none: what is not there cannot be infinite.
        hints = [course.hints if course.weight != 0 else [None] * len(course.hints) for course in self.courses]
        table = hint_table(self.what.pool, list(lessons), hints) if self.channel is not None else None
        weights = None if table is None else torch.from_numpy(table.weights).to(self.device)
        links = None if table is None or table.links is None else torch.from_numpy(table.links).to(self.device)
        lengths = self.what.pool.lengths
        each = np.arange(self.size)[:, None]
        for epoch in range(self.schedule.epochs):
            orders = [
                _order(lengths[course.lessons], course.seed, epoch, self.schedule.batch_size) for course in self.courses
            ]
            placed = torch.from_numpy(np.stack([np.concatenate(order) for order in orders])).to(self.device)
            rows = torch.from_numpy(lessons).to(self.device).gather(1, placed)
            told = None if table is None else torch.from_numpy(table.rows).to(self.device).gather(1, placed)
            begin = 0
            for number, first in enumerate(orders[0]):
                at = slice(begin, begin + len(first))
                begin += len(first)
                places = np.stack([order[number] for order in orders])
                wide = self._width(self.pool, int(lengths[lessons[each, places]].max()))
                batch = self._batch(self.pool, rows[:, at], wide)
                answers = self.answers[rows[:, at]] if self.scale is None else self.answers.gather(1, rows[:, at])
                hinted = _hinted(batch, answers, weights, links, None if told is None else told[:, at])
                yield hinted, self._passage(self.pool, rows[:, at], wide)

    def _batch(self, stock: _Stock, rows: Tensor, wide: int) -> Batch:
        """Texts without hints and answers: rows (S, B)."""
        empty = torch.zeros((), device=self.device)
        mask = torch.arange(wide, device=self.device) < stock.lengths[rows][..., None]
        return Batch(
            stock.ids[:, :wide][rows],
            stock.types[:, :wide][rows],
            mask,
            stock.text[:, :wide][rows],
            empty.expand(rows.shape),
            empty.expand(mask.shape),
        )

    def _passage(self, stock: _Stock, rows: Tensor, wide: int) -> Tensor | None:
        return stock.passage[:, :wide][rows] if self.lab.task == "span" else None

    def _width(self, stock: _Stock, longest: int) -> int:
        """Longest text of a batch, rounded up so that few different shapes come up."""
        return min(-(-longest // self.pad) * self.pad, stock.width)

    def _examined(self) -> tuple[list[NDArray[Any]], NDArray[Any]]:
        """Answers of each student, and whether all of them are finite."""
        exam = self.what.exam
        stock = _Stock(exam, self.device)
        order = np.argsort(exam.lengths, kind="stable")
        tokens = 131072 if self.device.type == "cuda" else 4096
        parts, sound = [], torch.ones(self.size, dtype=torch.bool, device=self.device)
        begin = 0
        with torch.inference_mode(), self._autocast():
            while begin < len(order):
                rows = _fitting(exam.lengths[order[begin:]], tokens // self.size)
                chosen = order[begin : begin + rows]
                begin += rows
                wide = self._width(stock, int(exam.lengths[chosen].max()))
                places = torch.from_numpy(chosen).to(self.device).expand(self.size, -1)
                reading = self.cohort.read(self._batch(stock, places, wide))
                found = reading.answers.float()
                sound &= found.flatten(1).isfinite().all(1)
                parts.append(_decided(self.lab.task, found, self._passage(stock, places, wide)))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        said = torch.cat(parts, 1).cpu().numpy()[:, back] if parts else np.zeros((self.size, 0))
        return [self._spoken(number, said[number]) for number in range(self.size)], sound.cpu().numpy()

    def _spoken(self, number: int, said: NDArray[Any]) -> NDArray[Any]:
        """Answers in the teacher's terms."""
        if self.lab.task == "span":
            said = said.reshape(-1, 2)
            found = answer_characters(self.what.exam, np.maximum(said, 0))
            return np.where(said >= 0, found, -1)
        if self.scale is not None:
            return said.astype(np.float64) * float(self.scale[1][number]) + float(self.scale[0][number])
        return said

    def _trouble(
        self, course: Course, answers: NDArray[Any], sound: bool, lost: int, losses: tuple[float, float]
    ) -> str | None:
        if lost >= 0:
            steps = self.schedule.steps(len(course.lessons))
            return f"its loss or gradient was not finite at step {lost + 1} of {steps}"
        if not sound:
            return "its answers to the exam are not finite"
        taught = np.unique(self.what.answers[course.lessons])
        first, last = losses
        varied = self.lab.task != "classes" or len(taught) == 1 or len(answers) < 2 or len(np.unique(answers)) > 1
        if not varied and last >= first:
            return f"it answers {answers[0]} throughout, and its loss never fell (first {first:.4g}, last {last:.4g})"
        return None

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.schedule.precision == "bfloat16" and self.device.type == "cuda":
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return contextlib.nullcontext()


class _Stock:
    """Sheets on the device, so that a batch is picked there."""

    def __init__(self, sheets: TokenizedTexts, device: torch.device) -> None:
        self.width = sheets.width
        self.ids = torch.from_numpy(sheets.ids).to(device)
        self.types = torch.from_numpy(sheets.types).to(device)
        self.text = torch.from_numpy(sheets.text).to(device)
        self.passage = torch.from_numpy(sheets.text & (sheets.fields == 1)).to(device)
        self.lengths = torch.from_numpy(sheets.lengths).to(device)


def _hinted(batch: Batch, answers: Tensor, weights: Tensor | None, links: Tensor | None, told: Tensor | None) -> Batch:
    hints, linked = batch.hints, None
    if weights is not None and told is not None:
        wide = batch.ids.shape[-1]
        hints = weights[:, :wide][told]
        linked = None if links is None else links[..., :wide][told].float()
    return Batch(batch.ids, batch.types, batch.mask, batch.text, answers, hints, linked)


def _order(lengths: Ints, seed: int, epoch: int, size: int) -> list[Ints]:
    """Places of the lessons in an epoch, batch by batch.

    The student's seed shuffles them; then, among a few batches at a time, texts of similar length come together, and
    these batches change places in a way that is the same for all students, so that all read long texts in one step and
    short ones in another.
    """
    order = np.random.default_rng([seed, epoch]).permutation(len(lengths))
    made: list[Ints] = []
    for begin in range(0, len(order), size * SORTED_BATCHES):
        part = order[begin : begin + size * SORTED_BATCHES]
        part = part[np.argsort(-lengths[part], kind="stable")]
        cut = [part[at : at + size] for at in range(0, len(part), size)]
        made += [cut[number] for number in np.random.default_rng([epoch, begin]).permutation(len(cut))]
    return made


def _decided(task: str, answers: Tensor, passage: Tensor | None) -> Tensor:
    """Classes or numbers (S, B), or first and last position of an answer (S, B, 2), -1 where there is no passage."""
    if task == "number":
        return answers
    if passage is None:
        return answers.argmax(-1)
    logits = answers.masked_fill(~passage[..., None], FAR_BELOW)
    first, last = logits.unbind(-1)  # (S, B, L)
    ends = F.pad(last, (0, LONGEST_ANSWER - 1), value=2 * FAR_BELOW).unfold(-1, LONGEST_ANSWER, 1)
    best = (first[..., None] + ends).flatten(2).argmax(-1)  # (S, B) of L * LONGEST_ANSWER
    start, more = best // LONGEST_ANSWER, best % LONGEST_ANSWER
    found = torch.stack([start, start + more], -1)
    return torch.where(passage.any(-1)[..., None], found, -1)


def _groups(courses: Sequence[Course], together: int) -> list[list[int]]:
    """Numbers of courses with equally many lessons, up to ``together`` in a group, in groups of like size."""
    alike: dict[int, list[int]] = {}
    for number, course in enumerate(courses):
        alike.setdefault(len(course.lessons), []).append(number)
    found: list[list[int]] = []
    for many in alike.values():
        size = -(-len(many) // -(-len(many) // together))
        found += [many[at : at + size] for at in range(0, len(many), size)]
    return found


def _check_courses(courses: Sequence[Course], pool: int) -> None:
    for number, course in enumerate(courses):
        if not len(course.lessons):
            raise InputError(f"course {number} (from 0) has no lessons; give at least one")
        if len(course.hints) != len(course.lessons):
            raise InputError(
                f"course {number} (from 0) has {len(course.lessons)} lessons and {len(course.hints)} hints; give one "
                "each, None where the student is told nothing"
            )
        if course.lessons.min() < 0 or course.lessons.max() >= pool:
            raise InputError(f"course {number} (from 0) names a lesson outside of the pool of {pool}")
        if course.seed < 0:
            raise ParameterError(f"course {number} (from 0) has the seed {course.seed}; seeds are 0 or more")


def _scale(answers: NDArray[Any], courses: Sequence[Course]) -> tuple[Floats, Floats]:
    """Mean and spread of each student's numbers (S,): it learns on their own scale, whatever the teacher's."""
    own = np.stack([answers[course.lessons] for course in courses])
    spread = own.std(1)
    return own.mean(1), np.where(spread > 0, spread, 1.0)


def _own_answers(answers: NDArray[Any], scale: tuple[Floats, Floats] | None) -> NDArray[Any]:
    """The teacher's answers; numbers on each student's scale (S, lessons)."""
    if scale is None:
        return answers
    return ((answers - scale[0][:, None]) / scale[1][:, None]).astype(np.float32)


def _ends(losses: NDArray[Any], epochs: int) -> tuple[float, float]:
    """Mean over the first epoch and over the last."""
    steps = len(losses) // epochs
    return float(losses[:steps].mean()), float(losses[-steps:].mean())


def _fitting(lengths: Ints, tokens: int) -> int:
    """How many of the texts, short ones first, fit into so many tokens when padded; at least one."""
    room = lengths * np.arange(1, len(lengths) + 1) <= tokens
    return max(1, int(room.sum()))


@contextlib.contextmanager
def _seeded(seeds: Sequence[int], device: torch.device, needed: bool) -> Iterator[None]:
    """Draw dropout from the students' seeds; the caller's generator is left as it was."""
    if not needed:
        yield
        return
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(np.random.SeedSequence(list(seeds)).generate_state(1)[0]))
        yield
