"""A recipe of simulability: the teacher, its explainers, the students, and how explanations reach them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, get_args

from didact.errors import FormatError, ParameterError
from didact.experiments.engine.tables import Count, DataTable, ModelTable, QuestionTable, Seed, Share, check_table
from didact.experiments.engine.toml import (
    Entry,
    Options,
    Plain,
    Setting,
    TomlRecipe,
    check_choice,
    check_labels,
    checked_label,
)
from didact.settings import Between, shown
from didact.simulation.controls import CONTROLS
from didact.simulation.hints import Distribution, HintFormat
from didact.simulation.scoring import METRICS
from didact.simulation.simulability import Plan
from didact.students.base import CHANNELS, Reads
from didact.students.matching import imitating
from didact.types import AnswerKind, JsonValue

KIND = "simulability"
Teacher = Literal["model", "human"]

STUDENTS = (
    Entry("ridge", "ridge"),
    Entry("bilstm_attention", "bilstm_attention", {"embedding": 64, "hidden": 64}),
)
"""The students of a recipe that names none, where they can imitate the teacher: cheap enough for a laptop."""

EXPLAINERS = tuple(Entry(name, name) for name in ("occlusion", "gradient_x_input", "attention"))


@dataclass(frozen=True)
class Format:
    """A format of hints under a label."""

    label: str
    format: HintFormat


@dataclass(frozen=True)
class SimulabilityRecipe(TomlRecipe):
    """What a simulation is made of.

    Attributes:
        name: of the experiment; its folder is called so unless another is given.
        teacher: "model": students imitate its predictions, explained by explainers; "human": they learn gold answers,
            explained by what people marked.
        task: "span" for questions about a passage; otherwise the teacher's labels decide.
        model: "source" (anything ``load_model`` reads from a string) and options of ``load_model``.
        data: of the pool: "source" and options of ``load_data``, for questions of ``load_questions``; "limit" counts
            the texts of the pool, and is twice the most taught for generated ones.
        test: of the test texts, likewise; held out from ``data`` when not given.
        explainers: whose explanations students are trained with.
        students: kinds of students with their settings.
        channels: how explanations reach students, with settings and a "weight"; all that fit when empty.
        hints: formats of hints; with several, every explainer is used in each.
        noise: probabilities that a marked unit is lost; with several, every hint is used with each.
        controls: hints that explain nothing, as large as the first explainer's in the first format.
        metrics: metrics of explanations whose ranking is compared with the students'.
        sizes: numbers of training texts.
        subsets: students of a kind, each with training texts of its own; see ``Plan`` for these and the following.
        precision: half-width of the gains' intervals at which to stop.
        most: subsets at most.
        seed: of subsets, students and controls.
        group: students trained in one step.
        metric: how an answer is compared with the teacher's.
        chunk: texts explained together.
        together: students trained at once; None leaves it to the student.
        half: whether perturbation methods, which evaluate the model thousands of times, run it in float16 on a GPU.
        tf32: whether a GPU may round the factors of products to ten bits while it explains.
        tables: numbers of the paper's tables that it fills.
    """

    kind: ClassVar[str] = KIND
    entry_fields: ClassVar[Mapping[str, str]] = {
        "explainers": "method",
        "students": "student",
        "channels": "channel",
        "metrics": "metric",
    }
    source_fields: ClassVar[tuple[str, ...]] = ("model", "data", "test")
    older_names: ClassVar[Mapping[str, str]] = {"exam": "test"}
    list_fields: ClassVar[tuple[str, ...]] = ("sizes", "noise", "controls", "tables")
    tables_of: ClassVar[Mapping[str, type]] = {"model": ModelTable}

    name: str = "simulation"
    teacher: Teacher = "model"
    task: AnswerKind | None = None
    model: Options = field(default_factory=lambda: {"source": "default"})
    data: Options = field(default_factory=lambda: {"source": "corpus"})
    test: Options = field(default_factory=dict)
    explainers: tuple[Entry, ...] = EXPLAINERS
    students: tuple[Entry, ...] = STUDENTS
    channels: tuple[Entry, ...] = ()
    hints: tuple[Format, ...] = (Format("10 %", HintFormat()),)
    noise: tuple[Share, ...] = (0.0,)
    controls: tuple[str, ...] = tuple(CONTROLS)
    metrics: tuple[Entry, ...] = ()
    sizes: tuple[Count, ...] = (100,)
    subsets: Annotated[int, Between(1, 100_000)] = 5
    precision: float | None = None
    most: Annotated[int, Between(1, 100_000)] | None = None
    seed: Seed = 0
    group: Count = 32
    metric: str = ""
    chunk: Count = 32
    together: Count | None = None
    half: bool = False
    tf32: bool = False
    tables: tuple[int, ...] = ()

    @classmethod
    def parsed(cls, data: Plain, where: str) -> Plain:
        """Fields from plain values; variables in settings that begin with one are filled in."""
        data = super().parsed(data, where)
        for name in cls.entry_fields:
            if isinstance(data.get(name), tuple):
                data[name] = tuple(_expanded(one) for one in data[name])
        if isinstance(data.get("hints"), (list, tuple)):
            data["hints"] = tuple(_format(one, f"{where}, hints") for one in data["hints"])
        return data

    def check(self, where: str = "recipe") -> None:
        """Refuse what cannot be run."""
        check_choice("teacher", self.teacher, get_args(Teacher), where)
        if self.task is not None:
            check_choice("task", self.task, tuple(METRICS), where)
        if self.task == "span" and self.teacher != "human":
            raise FormatError(f"{where}: questions are taught by people here; say teacher = 'human'")
        for name in self.needed_lists():
            if not getattr(self, name):
                raise FormatError(f"{where}: {name} is empty; name at least one")
        super().check(where)
        check_labels([Entry(one.label, "") for one in self.hints], f"{where}, hints")
        for control in self.controls:
            check_choice("control", control, list(CONTROLS), where)
        kind = QuestionTable if self.task == "span" else DataTable
        check_table(kind, self.data, f"{where}, [data]", needed=["source"])
        check_table(kind, self.test, f"{where}, [test]")
        if self.metric:
            known = [name for task in METRICS if self.task in (None, task) for name in METRICS[task]]
            check_choice("metric", self.metric, known, where)
        try:
            self.plan()
        except ParameterError as problem:
            raise FormatError(f"{where}: {problem}") from None

    def needed_lists(self) -> tuple[str, ...]:
        """Lists that must not be empty."""
        return ("students", "hints", "noise", *(("explainers",) if self.teacher == "model" else ()))

    def formats_of(self, explainer: str) -> tuple[Format, ...]:
        """The formats in which an explainer's explanations are shown: all of them."""
        return self.hints

    def plan(self) -> Plan:
        """How many students are trained."""
        return Plan(self.sizes, self.subsets, self.precision, self.most, self.seed, self.group)

    def to_dict(self) -> Plain:
        """Plain values, as in the file; what was left out stays out."""
        hints = [
            {"label": one.label} | {name: value for name, value in vars(one.format).items() if value is not None}
            for one in self.hints
        ]
        return super().to_dict() | {"hints": hints}


def able_students(recipe: SimulabilityRecipe, task: AnswerKind, reads: Reads = "text") -> tuple[Entry, ...]:
    """The students of a recipe; where it names none and the usual ones cannot read or answer such examples, others."""
    able = imitating(task, reads)
    if recipe.students != STUDENTS or any(one.name in able for one in STUDENTS):
        return recipe.students
    return tuple(Entry(name, name) for name in able)


def every_channel() -> tuple[Entry, ...]:
    """All registered channels as they are."""
    return tuple(Entry(name, name) for name in CHANNELS.names())


def _format(given: object, where: str) -> Format:
    if isinstance(given, Format):
        return given
    if not isinstance(given, Mapping):
        raise FormatError(f"{where}: a format is a table such as {{ share = 0.2 }}, got {shown(given)}")
    settings = {name: value for name, value in given.items() if name != "label"}
    check_table(HintFormat, settings, where)
    try:
        made = HintFormat(**settings)
    except ParameterError as problem:
        raise FormatError(f"{where}: {problem}") from None
    return Format(checked_label(given.get("label", format_label(made)), where), made)


def format_label(format: HintFormat) -> str:
    """A format in a few words."""
    if format.kind == "top":
        return f"{100 * format.share:g} %"
    if format.kind in get_args(Distribution):
        return format.kind if format.temperature is None else f"{format.kind} / {format.temperature:g}"
    return "dense" if format.bits is None else f"{format.bits} bit{'s' if format.bits > 1 else ''}"


def _expanded(one: Entry) -> Entry:
    """With variables in settings that begin with one filled in."""
    return dataclasses.replace(one, settings={name: _value(value) for name, value in one.settings.items()})


def _value(value: Setting) -> Setting:
    if isinstance(value, dict):
        return {name: _filled(inner) for name, inner in value.items()}
    return value if isinstance(value, list) else _filled(value)


def _filled(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and value.startswith("$"):
        filled = os.path.expandvars(value)
        if filled.startswith("$"):
            raise FormatError(f"{value!r} begins with an environment variable that is not set")
        return filled
    return value
