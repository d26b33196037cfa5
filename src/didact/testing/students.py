"""What every registered student must pass, as plain functions that third parties can run too.

``CHECKS`` maps a name to a check; ``applicable`` lists the checks that make sense for a student with a channel, or with
none; ``check`` runs one and raises AssertionError with what went wrong. Channels have their own suite in
``didact.testing.channels``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, get_args

import numpy as np
import torch

from didact.errors import CapabilityError
from didact.students.base import (
    Channel,
    ChannelCard,
    Hint,
    LabelledExample,
    Reads,
    Student,
    StudentCard,
    StudentOutcome,
    StudentRun,
    TaskSetup,
)
from didact.students.matching import reaches
from didact.types import ANSWER_KINDS, AnswerKind, Box, Example, Image, Span

POOL, TEST, WORDS, SIDE = 64, 40, 4, 32
GOOD, BAD = ("wonderful", "brilliant", "charming"), ("dreadful", "boring", "awful")
FILLERS = ("the", "film", "plot", "rainy", "evening", "old", "cinema", "sister", "music", "camera", "with", "and")

SMALL: dict[str, object] = {
    "epochs": 7,
    "batch_size": 8,
    "embedding": 32,
    "hidden": 32,
    "max_length": 32,
    "min_count": 1,
    "least": 1,
}
"""Settings under which students train fast; ``small`` takes those that a student has."""

Check = Callable[[Student, Channel | None], None]


def small(kind: type[Student]) -> Student:
    """A student of this kind that trains fast."""
    names = {item.name for item in dataclasses.fields(kind)}
    return kind.configured(**{name: value for name, value in SMALL.items() if name in names})


def applicable(card: StudentCard, channel: ChannelCard | None = None) -> list[str]:
    """Checks for a student by itself, or for its training with a channel that reaches it."""
    if channel is None:
        return [name for name in CHECKS if name not in WITH_HINTS]
    return list(WITH_HINTS) if reaches(channel, card) else []


def check(name: str, student: Student, channel: Channel | None = None) -> None:
    """Run one check."""
    CHECKS[name](student, channel)


def card_is_complete(student: Student, channel: Channel | None) -> None:
    """The card has a name for the command line, a sentence, a source, and known kinds of answers."""
    card = student.card
    assert re.fullmatch(r"[a-z][a-z0-9_]*", card.name), card.name
    assert card.family in ("network", "closed form"), card.family
    assert card.summary.endswith("."), card.summary
    assert card.reference
    assert card.answers, "a student imitates at least one kind of answer"
    assert card.answers <= set(ANSWER_KINDS), card.answers
    assert card.reads in get_args(Reads), card.reads


def learns_a_separable_corpus(student: Student, channel: Channel | None) -> None:
    """On texts with one decisive word, most test texts are answered right."""
    kind = _kind(student)
    pool, test = _corpus(kind, student.card.reads)
    setup = TaskSetup(kind, 2 if kind == "class" else 1)
    (outcome,) = student.train_and_predict(pool, [_run(kind, 0, POOL)], [item.example for item in test], setup)
    assert outcome.failure is None, outcome.failure
    truth = [labelled.answer for labelled in test]
    if kind == "class":
        share = float(np.mean(outcome.answers == np.array(truth)))
        assert share > 0.7, f"{share:.0%} of the test texts are right"
    elif kind == "number":
        correlation = float(np.corrcoef(outcome.answers, np.array(truth, dtype=np.float64))[0, 1])
        assert correlation > 0.4, f"the correlation with the teacher is {correlation:.2f}"


def imitates_what_its_card_says(student: Student, channel: Channel | None) -> None:
    """Every kind of answer on the card is trained without failure, and answered in the right shape."""
    for kind in sorted(student.card.answers):
        (outcome,) = _trained(student, [_run(kind, 0, 16)], kind)
        assert outcome.failure is None, f"{kind}: {outcome.failure}"
        assert outcome.answers.shape == ((TEST, 2) if kind == "span" else (TEST,)), f"{kind}: {outcome.answers.shape}"
        assert np.isfinite(outcome.answers).all(), kind
        if kind == "class":
            assert set(outcome.answers.tolist()) <= {0, 1}
        if kind == "span":
            lengths = [len(labelled.example.texts[1]) for labelled in _corpus(kind)[1]]
            assert (outcome.answers.max(1) < np.array(lengths)).all(), "answers end inside of their passages"


def refuses_other_answers(student: Student, channel: Channel | None) -> None:
    """Kinds of answers that are not on the card are refused, with those that are."""
    for kind in sorted(set(ANSWER_KINDS) - student.card.answers):
        _refused(student, TaskSetup(kind=kind), sorted(student.card.answers))


def refuses_channels_that_do_not_reach_it(student: Student, channel: Channel | None) -> None:
    """A channel that needs what the student does not offer is refused, with what is missing."""
    _refused(student, TaskSetup(kind=_kind(student), channel=_Unreachable()), ["nothing_offers_this"])


def same_seed_same_answers(student: Student, channel: Channel | None) -> None:
    """Training again gives the same answers and details, and the global generator is left as it was."""
    kind = _kind(student)
    state = torch.random.get_rng_state()
    first, second = (_trained(student, [_run(kind, 3, 16)], kind)[0] for _ in range(2))
    assert np.array_equal(first.answers, second.answers)
    assert first.details == second.details
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator was used"


def a_curve_changes_nothing(student: Student, channel: Channel | None) -> None:
    """Tests during the training leave the answers as they are; the last point of the curve has them."""
    kind = _kind(student)
    pool, test = _corpus(kind, student.card.reads)
    examples = [labelled.example for labelled in test]
    setup = TaskSetup(kind, 2 if kind == "class" else 1)
    runs = [_run(kind, 0, 16)]
    (plain,) = student.train_and_predict(pool, runs, examples, setup)
    (outcome,) = student.train_and_predict(pool, runs, examples, dataclasses.replace(setup, curve=3))
    assert np.array_equal(plain.answers, outcome.answers), "tests changed the training"
    assert plain.curve == (), "there is a curve, and none was wanted"
    if outcome.curve:  # a student in closed form has no epochs
        assert np.array_equal(outcome.curve[-1].answers, outcome.answers)
        epochs = [point.epoch for point in outcome.curve]
        assert epochs == sorted(set(epochs)), epochs
        assert all(epoch % 3 == 0 for epoch in epochs[:-1]), epochs
        steps = [point.steps for point in outcome.curve]
        assert steps == sorted(set(steps)), steps


def others_change_nothing(student: Student, channel: Channel | None) -> None:
    """Which students are trained together does not matter: one by one, all at once, in another order."""
    kind: AnswerKind = "number" if "number" in student.card.answers else _kind(student)
    runs = [_run(kind, seed, count) for seed, count in ((0, 16), (1, 16), (2, 12))]
    together = _trained(student, runs, kind, together=3)
    alone = [_trained(student, [run], kind, together=1)[0] for run in runs]
    for outcomes in (alone, _trained(student, runs[::-1], kind, together=2)[::-1]):
        for one, other in zip(together, outcomes, strict=True):
            _same(one, other)


def weight_zero_is_no_hints(student: Student, channel: Channel | None) -> None:
    """With hints of weight 0 the answers are those without hints; also where the hints are not finite."""
    kind = _kind(student, channel)
    plain = _run(kind, 0, 16)
    unused = [dataclasses.replace(plain, hints=_hints(student, kind, plain, weight)) for weight in (1.0, np.nan)]
    without, *others = _trained(student, [plain, *unused], kind, channel, together=1)
    for outcome in others:
        _same(without, outcome)


def hints_make_a_difference(student: Student, channel: Channel | None) -> None:
    """With hints, a student's training is another one than without."""
    kind = _kind(student, channel)
    plain = _run(kind, 0, 16)
    hinted = dataclasses.replace(plain, hints=_hints(student, kind, plain), weight=1.0)
    (one,), (other,) = (_trained(student, [run], kind, channel) for run in (plain, hinted))
    shared = one.details.keys() & other.details.keys()
    different = any(one.details[name] != other.details[name] for name in shared)
    assert different or not np.array_equal(one.answers, other.answers), "the hints did not reach the student"


def hints_that_are_not_finite_are_reported(student: Student, channel: Channel | None) -> None:
    """A run with NaN in its hints is a failure, and the students beside it are as if it were not there."""
    kind = _kind(student, channel)
    plain = [_run(kind, seed, 16) for seed in range(3)]
    runs = [dataclasses.replace(run, hints=_hints(student, kind, run), weight=1.0) for run in plain]
    runs[1] = dataclasses.replace(runs[1], hints=_hints(student, kind, runs[1], np.nan))
    first, spoilt, last = _trained(student, runs, kind, channel, together=3)
    assert spoilt.failure, "hints that are not finite were not reported"
    for run, outcome in ((runs[0], first), (runs[2], last)):
        _same(outcome, _trained(student, [run], kind, channel, together=1)[0])


WITH_HINTS = ("weight_zero_is_no_hints", "hints_make_a_difference", "hints_that_are_not_finite_are_reported")
"""Checks that train with a channel."""

CHECKS: dict[str, Check] = {
    function.__name__: function
    for function in (
        card_is_complete,
        learns_a_separable_corpus,
        imitates_what_its_card_says,
        refuses_other_answers,
        refuses_channels_that_do_not_reach_it,
        same_seed_same_answers,
        a_curve_changes_nothing,
        others_change_nothing,
        weight_zero_is_no_hints,
        hints_make_a_difference,
        hints_that_are_not_finite_are_reported,
    )
}


@dataclass(frozen=True, kw_only=True)
class _Unreachable(Channel):
    card: ClassVar[ChannelCard] = ChannelCard(
        "unreachable",
        "network",
        "Reaches no student.",
        "none",
        frozenset(ANSWER_KINDS),
        frozenset({"nothing_offers_this"}),
    )


def _kind(student: Student, channel: Channel | None = None) -> AnswerKind:
    """The first kind of answer that the student imitates, and that the channel goes with."""
    kinds = student.card.answers & (student.card.answers if channel is None else channel.card.answers)
    return next(kind for kind in ANSWER_KINDS if kind in kinds)


@cache
def _corpus(kind: AnswerKind, reads: Reads = "text") -> tuple[list[LabelledExample], list[LabelledExample]]:
    """Training pool and test examples with one decisive word, which is the answer where it is a span, or square."""
    rng = np.random.default_rng(0)
    labelled = []
    for _ in range(POOL + TEST):
        label = int(rng.integers(2))
        if kind == "span":
            example, region = _text(rng, label, question="which word is it")
            labelled.append(LabelledExample(example, region))
            continue
        example, _ = _text(rng, label) if reads == "text" else _image(rng, label)
        answer = label if kind == "class" else 2.0 * label - 1 + 0.1 * float(rng.normal())
        labelled.append(LabelledExample(example, answer))
    return labelled[:POOL], labelled[POOL:]


def _text(rng: np.random.Generator, label: int, question: str = "") -> tuple[Example, Span]:
    """Fillers with one decisive word, perhaps behind a question, and where it stands."""
    place = int(rng.integers(WORDS))
    words = rng.choice(FILLERS, WORDS).tolist()
    words[place] = str(rng.choice(GOOD if label else BAD))
    start = len(" ".join([*words[:place], ""])) if place else 0
    span = Span(start, start + len(words[place]), 1 if question else 0)
    fields = [question, " ".join(words)] if question else [" ".join(words)]
    return Example(*fields, rationale=[span]), span


def _image(rng: np.random.Generator, label: int) -> tuple[Example, Box]:
    """Gray noise with a red or a blue square, and where it stands."""
    pixels = np.repeat(rng.integers(60, 120, (SIDE, SIDE, 1)), 3, axis=2).astype(np.uint8)
    top, left = (4 * int(rng.integers(SIDE // 4 - 3)) for _ in range(2))
    pixels[top : top + 16, left : left + 16] = (230, 20, 20) if label else (20, 20, 230)
    box = Box(left, top, left + 16, top + 16)
    return Example(Image(pixels), rationale=[box]), box


def _run(kind: AnswerKind, seed: int, count: int) -> StudentRun:
    places = np.random.default_rng(seed).permutation(POOL)[:count].astype(np.int64)
    return StudentRun(places, [None] * count, 0.0, seed)


def _hints(student: Student, kind: AnswerKind, run: StudentRun, weight: float = 1.0) -> list[Hint]:
    """The decisive word or square of each example; for spans also a link from the question to it."""
    pool, _ = _corpus(kind, student.card.reads)
    made = []
    for place in run.places.tolist():
        (region,) = pool[place].example.rationale or [Span(0, 0)]
        links = ((Span(6, 10), region),) if kind == "span" and isinstance(region, Span) else ()
        made.append(Hint((region,), np.array([weight]), links))
    return made


def _trained(
    student: Student,
    runs: Sequence[StudentRun],
    kind: AnswerKind,
    channel: Channel | None = None,
    together: int | None = None,
) -> list[StudentOutcome]:
    """Outcomes after two epochs, which is enough to compare them."""
    pool, test = _corpus(kind, student.card.reads)
    setup = TaskSetup(kind, 2 if kind == "class" else 1, channel, together=together)
    if "epochs" in student.parameters:
        student = dataclasses.replace(student, epochs=2)  # type: ignore[call-arg]
    outcomes = student.train_and_predict(pool, runs, [labelled.example for labelled in test], setup)
    assert len(outcomes) == len(runs), f"{len(outcomes)} outcomes for {len(runs)} runs"
    return outcomes


def _same(one: StudentOutcome, other: StudentOutcome) -> None:
    """Answers, details and failure equal up to rounding in batched products."""
    assert (one.failure is None) == (other.failure is None), f"{one.failure}, but {other.failure}"
    np.testing.assert_allclose(one.answers, other.answers, rtol=1e-3, atol=1e-3)
    for name in one.details.keys() & other.details.keys():
        np.testing.assert_allclose(one.details[name], other.details[name], rtol=1e-3, atol=1e-3)


def _refused(student: Student, setup: TaskSetup, named: Sequence[str]) -> None:
    pool, test = _corpus("class", student.card.reads)
    message = ""
    try:
        student.train_and_predict(pool, [_run("class", 0, 4)], [test[0].example], setup)
    except CapabilityError as problem:
        message = str(problem)
    assert message, f"{student.card.name} accepted {setup}"
    assert all(name in message for name in named), f"{message} does not name {', '.join(named)}"
