"""A recipe of kind "simulability": who teaches what to whom, how often, and what the students are told."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, get_args

from didact.errors import FormatError, ParameterError
from didact.experiments.recipe import Entry, check_labels, check_names, entries, read_toml, source_of, toml_value
from didact.registry import unknown
from didact.simulation.controls import CONTROLS
from didact.simulation.hints import HintFormat
from didact.simulation.scoring import METRICS
from didact.simulation.simulability import Plan
from didact.students.base import CHANNELS
from didact.types import AnswerKind

KIND = "simulability"
Teacher = Literal["model", "human"]

STUDENTS = (
    Entry("ridge", "ridge"),
    Entry("bilstm_attention", "bilstm_attention", {"embedding": 64, "hidden": 64}),
)
"""The students of a recipe that names none: cheap enough for a laptop."""

EXPLAINERS = tuple(Entry(name, name) for name in ("occlusion", "gradient_x_input", "attention"))

_ENTRIES = {"explainers": "method", "students": "student", "channels": "channel", "metrics": "metric"}
_TABLES = ("model", "data", "exam")
_LISTS = ("sizes", "noise", "controls")


@dataclass(frozen=True)
class Format:
    """A format of hints under a label."""

    label: str
    format: HintFormat


@dataclass(frozen=True)
class Recipe:
    """What a simulation is made of.

    Attributes:
        name: of the experiment; its folder is called so unless another is given.
        teacher: "model": students imitate its predictions, explained by explainers; "human": they learn gold answers,
            explained by what people marked.
        task: "span" for questions about a passage; otherwise the teacher's labels decide.
        model: "source" (anything ``load_model`` reads from a string) and options of ``load_model``.
        data: of the pool: "source" and options of ``load_data``, for questions of ``load_questions``; "limit" counts
            the texts of the pool, and is twice the most taught for generated ones.
        exam: of the exam, likewise; cut from ``data`` when not given.
        explainers: whose explanations are told.
        students: kinds of students with their settings.
        channels: ways to tell them, with settings and a "weight"; all that fit when empty.
        hints: formats; with several, every explainer is told in each.
        noise: probabilities that a marked unit is lost; with several, everything is told with each.
        controls: hints that explain nothing, as large as the first explainer's in the first format.
        metrics: metrics of explanations whose ranking is compared with the students'.
        sizes: numbers of lessons.
        subsets: students of a kind, each with lessons of its own; see ``Plan`` for these and the following.
        precision: half-width of the gains' intervals at which to stop.
        most: subsets at most.
        seed: of subsets, students and controls.
        group: students handed over together.
        metric: how an answer is compared with the teacher's.
        chunk: texts explained together.
        tables: numbers of the paper's tables that it fills.
    """

    name: str = "simulation"
    teacher: Teacher = "model"
    task: AnswerKind | None = None
    model: Mapping[str, Any] = field(default_factory=lambda: {"source": "default"})
    data: Mapping[str, Any] = field(default_factory=lambda: {"source": "corpus"})
    exam: Mapping[str, Any] = field(default_factory=dict)
    explainers: tuple[Entry, ...] = EXPLAINERS
    students: tuple[Entry, ...] = STUDENTS
    channels: tuple[Entry, ...] = ()
    hints: tuple[Format, ...] = (Format("10 %", HintFormat()),)
    noise: tuple[float, ...] = (0.0,)
    controls: tuple[str, ...] = tuple(CONTROLS)
    metrics: tuple[Entry, ...] = ()
    sizes: tuple[int, ...] = (100,)
    subsets: int = 5
    precision: float | None = None
    most: int | None = None
    seed: int = 0
    group: int = 32
    metric: str = ""
    chunk: int = 32
    tables: tuple[int, ...] = ()

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a recipe file; what is wrong in it is named. ``$NAME`` at the beginning of a path is a variable."""
        data = read_toml(path)
        if data.pop("kind", None) != KIND:
            raise FormatError(f"{path} is no recipe of simulability: it does not say kind = {KIND!r}")
        return cls.from_dict({"name": path.stem} | data, str(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "recipe") -> Self:
        """Make a recipe from plain values; ``where`` names them in messages."""
        check_names(cls, data, where)
        parts: dict[str, Any] = dict(data)
        for name, key in _ENTRIES.items():
            if name in parts:
                parts[name] = tuple(_expanded(one) for one in entries(parts[name], key, f"{where}, {name}"))
        for name in _TABLES:
            if name in parts:
                parts[name] = source_of(parts[name], f"{where}, [{name}]")
        for name in (*_LISTS, "tables"):
            if name in parts:
                parts[name] = tuple(parts[name])
        if "hints" in parts:
            parts["hints"] = tuple(_format(one, f"{where}, hints") for one in parts["hints"])
        recipe = cls(**parts)
        recipe.check(where)
        return recipe

    def check(self, where: str = "recipe") -> None:
        """Refuse what cannot be run."""
        if self.teacher not in (allowed := get_args(Teacher)):
            raise FormatError(f"{where}: {unknown('teacher', self.teacher, allowed)}")
        if self.task is not None and self.task not in (tasks := tuple(METRICS)):
            raise FormatError(f"{where}: {unknown('task', self.task, tasks)}")
        if self.task == "span" and self.teacher != "human":
            raise FormatError(f"{where}: questions are taught by people here; say teacher = 'human'")
        for name in ("students", "hints", "noise", *(("explainers",) if self.teacher == "model" else ())):
            if not getattr(self, name):
                raise FormatError(f"{where}: {name} is empty; name at least one")
        for name in _ENTRIES:
            check_labels(getattr(self, name), f"{where}, {name}")
        check_labels([Entry(one.label, "") for one in self.hints], f"{where}, hints")
        for control in self.controls:
            if control not in CONTROLS:
                raise FormatError(f"{where}: {unknown('control', control, list(CONTROLS))}")
        for noise in self.noise:
            if not 0 <= noise <= 1:
                raise FormatError(f"{where}: noise must be from 0 to 1, got {noise!r}")
        try:
            self.plan()
        except ParameterError as problem:
            raise FormatError(f"{where}: {problem}") from None

    def plan(self) -> Plan:
        """How many students are taught."""
        return Plan(self.sizes, self.subsets, self.precision, self.most, self.seed, self.group)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in the file; what was left out stays out."""
        plain: dict[str, Any] = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        for name, key in _ENTRIES.items():
            plain[name] = [{"label": one.label, key: one.name, **one.settings} for one in getattr(self, name)]
        plain["hints"] = [
            {"label": one.label} | {k: v for k, v in vars(one.format).items() if v is not None} for one in self.hints
        ]
        for name in (*_LISTS, "tables"):
            plain[name] = list(plain[name])
        for name in _TABLES:
            plain[name] = {key: value for key, value in plain[name].items() if value is not None}
        return {name: value for name, value in plain.items() if value is not None}

    def to_toml(self) -> str:
        """The recipe as a file that ``from_toml`` reads."""
        plain = self.to_dict()
        rest = [name for name in plain if name not in _TABLES]
        lines = [f"kind = {toml_value(KIND)}", *(f"{name} = {toml_value(plain[name])}" for name in rest)]
        for name in _TABLES:
            if plain[name]:
                lines += ["", f"[{name}]", *(f"{key} = {toml_value(value)}" for key, value in plain[name].items())]
        return "\n".join(lines) + "\n"


def every_channel() -> tuple[Entry, ...]:
    """All registered channels as they are."""
    return tuple(Entry(name, name) for name in CHANNELS.names())


def _format(given: object, where: str) -> Format:
    if isinstance(given, Format):
        return given
    if not isinstance(given, Mapping):
        raise FormatError(f"{where}: a format is a table such as {{ share = 0.2 }}, got {given!r}")
    settings = {name: value for name, value in given.items() if name != "label"}
    known = [item.name for item in dataclasses.fields(HintFormat)]
    for name in settings:
        if name not in known:
            raise FormatError(f"{where}: {unknown('setting', name, known)}")
    try:
        made = HintFormat(**settings)
    except ParameterError as problem:
        raise FormatError(f"{where}: {problem}") from None
    return Format(str(given.get("label", told(made))), made)


def told(format: HintFormat) -> str:
    """A format in a few words."""
    if format.kind == "top":
        return f"{100 * format.share:g} %"
    return "dense" if format.bits is None else f"{format.bits} bit{'s' if format.bits > 1 else ''}"


def _expanded(one: Entry) -> Entry:
    """With variables in settings that begin with one filled in."""
    return dataclasses.replace(one, settings={name: _value(value) for name, value in one.settings.items()})


def _value(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("$"):
        found = os.path.expandvars(value)
        if found.startswith("$"):
            raise FormatError(f"{value!r} begins with an environment variable that is not set")
        return found
    return value
