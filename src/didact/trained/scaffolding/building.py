"""From the settings of the scaffold signal to the students that it trains."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from didact.errors import CapabilityError
from didact.models.device import choose_device
from didact.simulation.hints import Distribution
from didact.students.base import CHANNELS, STUDENTS, Student, TaskSetup
from didact.students.network import NetworkStudent
from didact.trained.scaffolding.closed_form import ClosedFormConfig, ClosedFormStudents
from didact.trained.scaffolding.group import GroupTexts, StudentGroup
from didact.trained.scaffolding.lives import Ages, Lives
from didact.trained.scaffolding.meta_gradients import Difference, MetaGradient
from didact.trained.scaffolding.population import Population, PopulationConfig
from didact.types import AnswerKind

STUDENT = {
    "pooling": "scalar_mix",
    "optimizer": "sgd",
    "schedule": "constant",
    "warmup": 0.0,
    "clip": 5.0,
    "weight_decay": 0.01,
}
"""Settings of the students of SMaT, for kinds that have them."""


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """Students that an explainer learns to teach.

    Args:
        meta: "linear"; "exact" differentiates twice; "unrolled:K" and "look_ahead:K" look over K steps; "closed_form"
            has ridge students instead of networks.
        students: size of the population.
        ages: "mixed", or "equal" for students that are all as old.
        resets: a student is replaced by a fresh one after so many passes over its texts; 0 for never.
        beta: weight of the explanations in the students' loss; 5 when not given. In closed form, the exponent of the
            prior; 1 when not given.
        inner_rate: learning rate of the students.
        batch: texts per step of a student.
        outer_batch: texts of the outer loss per student.
        every: steps of the students per step of the explainer.
        examples: texts that each student learns from; fewer where there are not so many.
        outer: share of the training texts that the outer loss has for itself.
        explanation: from scores of units to what students see: "softmax", or "sparsemax", which marks few of them; how
            many follows from the scores' size, and so from a temperature that is trained.
        balanced: scale the gradient of each student to the same length, so that all ages count the same.
        radius: by which students are moved for the derivative along a direction.
        difference: by which that is computed: "forward", or "central" for a smaller error and one more pass.
        student_kind: registered name of the students; when not given "transformer", or "vision_transformer" for images,
            or "ridge" in closed form.
        student: their settings, where they differ from those of SMaT, such as model="path" of a transformer.
        channel: by which explanations reach them; "head_mix" when not given, "prior" in closed form.
        channel_settings: of the channel.
        device: "cpu" or "cuda", of the students; the GPU when not given and there is one.
        seed: decides first weights, texts and orders of the students.
    """

    meta: str = "linear"
    students: int = 6
    ages: Ages = "mixed"
    resets: int = 45
    beta: float | None = None
    inner_rate: float = 5e-3
    batch: int = 32
    outer_batch: int = 32
    every: int = 1
    examples: int = 500
    outer: float = 0.3
    explanation: Distribution = "softmax"
    balanced: bool = False
    radius: float = 0.02
    difference: Difference = "forward"
    student_kind: str | None = None
    student: Mapping[str, object] = field(default_factory=dict)
    channel: str | None = None
    channel_settings: Mapping[str, object] = field(default_factory=dict)
    device: str | None = None
    seed: int = 0


def build_group(settings: GroupSettings, texts: GroupTexts, kind: AnswerKind, labels: int) -> StudentGroup:
    """Untrained students.

    Args:
        settings: of the signal.
        texts: with the teacher's answers.
        kind: of the answers.
        labels: number of classes; 1 for a number.
    """
    meta = MetaGradient.parsed(settings.meta)
    closed = meta.kind == "closed_form"
    channel = CHANNELS.get(settings.channel or ("prior" if closed else "head_mix"))
    setup = TaskSetup(
        kind=kind,
        outputs=1 if kind == "number" else labels,
        channel=channel.configured(**settings.channel_settings),
        device=str(choose_device(settings.device)),
    )
    if closed:
        return ClosedFormStudents(_student(settings, "ridge"), texts, setup, _closed(settings, texts))
    is_textual = all(item.example.is_textual for item in texts.all)
    student = _student(settings, "transformer" if is_textual else "vision_transformer")
    if not isinstance(student, NetworkStudent):
        raise CapabilityError(
            f"{student.card.name} students make no steps; use meta='closed_form', or one of the networks: "
            f"{', '.join(card.name for card in STUDENTS.cards() if card.family == 'network')}"
        )
    return Population(student, texts, setup, _population(settings, texts, meta))


def student_of(kind: str, given: Mapping[str, object], **usual: object) -> Student:
    """A student with the settings of SMaT.

    Args:
        kind: registered name.
        given: settings that a user gave.
        **usual: settings that hold where they are not given, and the kind has them.
    """
    made = STUDENTS.get(kind)
    names = [item.name for item in dataclasses.fields(made)]
    own = {name: value for name, value in {**STUDENT, **usual}.items() if name in names}
    return made.configured(**own | dict(given))


def _student(settings: GroupSettings, usual: str) -> Student:
    """A student with the settings of the signal."""
    kind = settings.student_kind or usual
    return student_of(kind, settings.student, learning_rate=settings.inner_rate, batch_size=settings.batch)


def _population(settings: GroupSettings, texts: GroupTexts, meta: MetaGradient) -> PopulationConfig:
    examples = max(1, min(settings.examples, len(texts.pool)))
    lives = Lives(
        students=settings.students,
        examples=examples,
        batch=min(settings.batch, examples),
        window=max(settings.every, meta.steps),
        resets=settings.resets,
        ages=settings.ages,
        seed=settings.seed,
    )
    return PopulationConfig(
        lives=lives,
        beta=5.0 if settings.beta is None else settings.beta,
        outer_batch=settings.outer_batch,
        radius=settings.radius,
        difference=settings.difference,
        meta=meta,
        balanced=settings.balanced,
    )


def _closed(settings: GroupSettings, texts: GroupTexts) -> ClosedFormConfig:
    return ClosedFormConfig(
        students=settings.students,
        examples=max(1, min(settings.examples, len(texts.pool))),
        weight=1.0 if settings.beta is None else settings.beta,
        seed=settings.seed,
    )
