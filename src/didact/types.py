"""The nouns of didact: plain frozen data that every other package speaks.

Nothing here draws, saves or computes a score. Everything turns into JSON with ``to_dict`` and back with ``from_dict``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from didact.cards import Card as Card
from didact.cards import Invariance as Invariance
from didact.cards import MetricCard as MetricCard
from didact.errors import DidactError, FormatError, InputError
from didact.examples import ANSWER_KINDS as ANSWER_KINDS
from didact.examples import Answer as Answer
from didact.examples import AnswerKind as AnswerKind
from didact.examples import Example as Example
from didact.examples import Field as Field
from didact.examples import FieldLike as FieldLike
from didact.examples import check_regions as check_regions
from didact.images import ArrayLike as ArrayLike
from didact.images import Image as Image
from didact.predictions import SCALES as SCALES
from didact.predictions import Prediction as Prediction
from didact.predictions import Scale as Scale
from didact.predictions import Target as Target
from didact.regions import Box as Box
from didact.regions import Mask as Mask
from didact.regions import Region as Region
from didact.regions import Span as Span
from didact.regions import inside as inside
from didact.regions import marked_shares as marked_shares
from didact.regions import overlap_matrix as overlap_matrix
from didact.regions import overlapping as overlapping
from didact.regions import overlaps as overlaps
from didact.regions import plain_regions as plain_regions
from didact.regions import read_regions as read_regions
from didact.validation import (
    check_unicode,
    dump_json,
    finite_number,
    list_value,
    object_value,
    parse_json,
    plain_value,
    shown,
    text_value,
    truth_value,
    whole_number,
)
from didact.views import view

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Keep = NDArray[Any]
"""Keep masks of one example, shape (variants, units): boolean, or weights in [0, 1] for the blend operator."""

Level = str
"""What a unit is, as the model offers it: "word" or "token" of a text, "patch" or "superpixel" of an image."""

JsonValue = str | int | float | bool | None


@dataclass(frozen=True)
class Units:
    """What gets a score: the words, tokens or patches of one example as one model sees them.

    Positions that no unit covers (special tokens, padding) are always present and never scored, so a method cannot
    score them by mistake.

    Attributes:
        example: the example these units belong to.
        level: "word", "token", "patch": one of those that the model offers.
        regions: where each unit stands in the source.
        positions: the input positions each unit covers; empty for a black box, which shows none.
        truncated: share of the source's characters that the model's length limit cuts off.
        unknown: share of the source's tokens that the model's tokenizer does not know.
    """

    example: Example
    level: Level
    regions: tuple[Region, ...]
    positions: tuple[tuple[int, ...], ...] = ()
    truncated: float = 0.0
    unknown: float = 0.0

    def __post_init__(self) -> None:
        check_regions(self.regions, "unit", self.example.fields)
        if not (0 <= self.truncated <= 1 and 0 <= self.unknown <= 1):
            raise FormatError(f"shares lie between 0 and 1, got {self.truncated} truncated and {self.unknown} unknown")

    def __len__(self) -> int:
        return len(self.regions)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The regions of units of text; refused where a unit is a part of an image."""
        spans = tuple(region for region in self.regions if isinstance(region, Span))
        if len(spans) != len(self.regions):
            raise InputError(f"these units are {self.level}s of an image, and words or tokens are needed here")
        return spans

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The units as written in the source; of an image, the corners of each box, or of the box round a mask."""
        fields = self.example.fields
        return tuple(_shown(region, fields[region.field]) for region in self.regions)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "example": self.example.to_dict(),
            "level": self.level,
            "regions": plain_regions(self.regions),
            "positions": [list(p) for p in self.positions],
            "truncated": self.truncated,
            **({"unknown": self.unknown} if self.unknown else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Units:
        """Inverse of ``to_dict``; regions of text may come under their older name ``spans``."""
        places = "spans" if "spans" in object_value(data, "units") else "regions"
        data = object_value(data, "units", ("example", "level", places, "positions", "truncated"), ("unknown",))
        positions = [list_value(each, "positions") for each in list_value(data["positions"], "positions")]
        regions = read_regions(data[places], "unit")
        if len(positions) not in (0, len(regions)):
            raise FormatError(f"positions come for each unit or not at all: {len(positions)} for {len(regions)} units")
        return cls(
            example=Example.from_dict(object_value(data["example"], "example")),
            level=text_value(data["level"], "level"),
            regions=regions,
            positions=tuple(tuple(whole_number(at, "a position") for at in each) for each in positions),
            truncated=finite_number(data["truncated"], "truncated", 0, 1),
            unknown=finite_number(data.get("unknown", 0.0), "unknown", 0, 1),
        )


@dataclass(frozen=True)
class Cost:
    """What an explanation took.

    Attributes:
        forwards: evaluations of the model that were requested (rows, not batches).
        backwards: how many of them were differentiated.
        evaluated: forwards really run; fewer when a variant repeats. None when not measured.
        seconds: wall time; examples explained in one call share it equally. None when not measured.
    """

    forwards: int = 0
    backwards: int = 0
    evaluated: int | None = None
    seconds: float | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cost:
        """From plain JSON values: counts, and seconds that are not negative."""
        data = object_value(data, "cost", (), ("forwards", "backwards", "evaluated", "seconds"))
        evaluated, seconds = data.get("evaluated"), data.get("seconds")
        return cls(
            whole_number(data.get("forwards", 0), "forwards"),
            whole_number(data.get("backwards", 0), "backwards"),
            None if evaluated is None else whole_number(evaluated, "evaluated"),
            None if seconds is None else finite_number(seconds, "seconds", 0),
        )


@dataclass(frozen=True)
class Estimate:
    """What explaining is expected to take, computed beforehand.

    Attributes:
        method: registered name of the explainer.
        examples: how many texts.
        units: how many units they have together.
        forwards: evaluations that will be requested; exact, or at most, where the method may stop early.
        backwards: how many of them will be differentiated.
        seconds: expected wall time, from timing a few passes; fewer where variants repeat.
        memory: expected peak in bytes: the weights and one batch of activations, rough; methods that keep matrices of
            their own (decompositions) need more. None for a black box.
    """

    method: str
    examples: int
    units: int
    forwards: int
    backwards: int
    seconds: float
    memory: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return vars(self).copy()


@dataclass(frozen=True)
class Explanation:
    """Scores for the units of one example, and everything needed to know where they came from.

    Attributes:
        method: registered name of the explainer ("human" for a rationale).
        units: what was scored.
        scores: one finite number per unit; positive supports the target where the method is signed.
        target: the explained number.
        prediction: the model's plain prediction.
        parameters: all settings of the method.
        signed: whether a negative score means evidence against the target.
        cost: what it took.
        details: method-specific numbers (base value, fit, completeness gap); NaN where one is not defined.
        model: name and hash of the explained model.
        versions: library versions.
        errors: one standard error per score where the method estimates them, else empty.
        warnings: sentences that a reader of the scores must know; every output shows them.
    """

    method: str
    units: Units
    scores: tuple[float, ...]
    target: Target
    prediction: Prediction
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    signed: bool = True
    cost: Cost = Cost()
    details: Mapping[str, float] = field(default_factory=dict)
    model: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[float, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_kinds(self)
        for name in ("parameters", "details", "model", "versions"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        if len(self.scores) != len(self.units):
            raise FormatError(f"an explanation needs one score per unit: {len(self.scores)} for {len(self.units)}")
        if not all(math.isfinite(score) for score in self.scores):
            raise FormatError(f"scores must be finite; {self.method} gave {self.scores}")
        if len(self.errors) not in (0, len(self.scores)):
            raise FormatError(f"errors come one per score or not at all: {len(self.errors)} for {len(self.scores)}")
        if not all(math.isfinite(error) and error >= 0 for error in self.errors):
            raise FormatError(f"standard errors must be finite and not negative; {self.method} gave {self.errors}")
        for index in (self.target.index, self.target.contrast or 0):
            if not 0 <= index < len(self.prediction.outputs):
                raise FormatError(f"the target is output {index}, but there are {len(self.prediction.outputs)}")

    def __reduce__(self) -> tuple[Any, ...]:
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        # The read-only mappings do not pickle.
        return _revived, ({k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in values.items()},)

    @property
    def example(self) -> Example:
        """The explained example."""
        return self.units.example

    @property
    def array(self) -> Floats:
        """The scores as a fresh numpy array."""
        return np.array(self.scores, dtype=np.float64)

    def __repr__(self) -> str:
        text = " / ".join(Example(one).preview for one in self.example.fields)
        strongest = ", ".join(f"{unit} {score:+.3g}" for unit, score in self.top(3))
        answer = _described(self.prediction)
        return f"Explanation({text} -> {answer}; {self.method} for {self.target.name}: {strongest})"

    def show(self) -> None:
        """Draw it in the notebook or the terminal."""
        view("show")(self)

    def save(self, path: str | Path) -> Path:
        """Write it as .json, .html, .tex, .svg or .txt, or that of an image as .png, by the file's ending."""
        place: Path = view("save")(self, path)
        return place

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with a row per unit: its text, place and score; see ``didact.to_dataframe``."""
        return view("to_dataframe")(self)

    def top(self, k: int = 5) -> list[tuple[str, float]]:
        """The ``k`` units with the largest score (absolute score where scores are signed), strongest first."""
        strength = [abs(score) if self.signed else score for score in self.scores]
        order = sorted(range(len(strength)), key=lambda i: -strength[i])
        texts = self.units.texts
        return [(texts[i], self.scores[i]) for i in order[:k]]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "method": self.method,
            "units": self.units.to_dict(),
            "scores": list(self.scores),
            "target": self.target.to_dict(),
            "prediction": self.prediction.to_dict(),
            "parameters": dict(self.parameters),
            "signed": self.signed,
            "cost": vars(self.cost).copy(),
            "details": {name: value if math.isfinite(value) else None for name, value in self.details.items()},
            "model": dict(self.model),
            "versions": dict(self.versions),
            "errors": list(self.errors),
            **({"warnings": list(self.warnings)} if self.warnings else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Explanation:
        """Inverse of ``to_dict``; what is missing, unknown or malformed is named, and nothing is guessed."""
        try:
            return cls(**_explanation_fields(data))
        except DidactError as problem:
            raise FormatError(f"not an explanation: {problem}") from None

    def to_json(self, *, indent: int | None = None) -> str:
        """JSON text; floats survive the round trip exactly."""
        return dump_json(self.to_dict(), indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Explanation:
        """Inverse of ``to_json``."""
        data = parse_json(text)
        if not isinstance(data, dict):
            raise FormatError(f"an explanation is a JSON object, got {type(data).__name__}")
        return cls.from_dict(data)


@dataclass(frozen=True)
class Grade:
    """A metric's verdict on one explanation.

    Attributes:
        value: the number; NaN where the metric is not defined for this example.
        parts: what it is made of, by name: the values at each k, the points of a curve, one value per other explainer.
    """

    value: float
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """One measured number as a tidy row, with where it came from.

    Attributes:
        explainer: its label in the experiment.
        method: registered name.
        seed: of the explainer; 0 where it has none.
        null: "" for the explanation itself; "shuffle" with its scores shuffled over its units.
        metric: the metric's label in the experiment.
        part: "" for the metric's value; else the name of one of its parts.
        example: the example's id, or its fingerprint where it has none.
        value: the number; NaN where undefined.
        model: fingerprint of the explained model.
        data: name of the data.
        settings: hash of the settings of all that made the number: explainer, metric, and student where there is one.
        student: label of the student whose test score it is; "" where no student is involved. Its ``seed`` is the
            number of its subset of training examples, its ``explainer`` the method whose explanations it was taught
            with ("none" for no explanations), and ``null`` the name of the control where they explain nothing.
        channel: label of the channel by which explanations reached the student; "" for "none".
        size: number of the student's training examples; 0 where there is no student.
        failure: why the student does not count, as when its training diverged; its values are NaN.
    """

    explainer: str
    method: str
    seed: int
    null: str
    metric: str
    part: str
    example: str
    value: float
    model: str
    data: str
    settings: str
    student: str = ""
    channel: str = ""
    size: int = 0
    failure: str = ""


_NEEDED = "method units scores target prediction parameters signed cost details model versions".split()  # noqa: SIM905


def _explanation_fields(plain: object) -> dict[str, Any]:
    """The arguments of an explanation from plain values, each checked."""
    data = object_value(plain, "the object", _NEEDED, ("errors", "warnings"))
    details, model, versions = (object_value(data[name], name) for name in ("details", "model", "versions"))
    parameters = object_value(data["parameters"], "parameters")
    return {
        "method": text_value(data["method"], "method"),
        "units": Units.from_dict(object_value(data["units"], "units")),
        "scores": tuple(finite_number(score, "a score") for score in list_value(data["scores"], "scores")),
        "target": Target.from_dict(object_value(data["target"], "target")),
        "prediction": Prediction.from_dict(object_value(data["prediction"], "prediction")),
        "parameters": {name: plain_value(value, f"parameter {name!r}") for name, value in parameters.items()},
        "signed": truth_value(data["signed"], "signed"),
        "cost": Cost.from_dict(object_value(data["cost"], "cost")),
        "details": {
            name: math.nan if value is None else finite_number(value, f"detail {name!r}")
            for name, value in details.items()
        },
        "model": {name: text_value(value, f"model: {name}") for name, value in model.items()},
        "versions": {name: text_value(value, f"versions: {name}") for name, value in versions.items()},
        "errors": tuple(finite_number(e, "a standard error", 0) for e in list_value(data.get("errors", ()), "errors")),
        "warnings": tuple(text_value(w, "a warning") for w in list_value(data.get("warnings", ()), "warnings")),
    }


_KINDS: dict[str, type] = {
    "method": str,
    "units": Units,
    "scores": tuple,
    "target": Target,
    "prediction": Prediction,
    "parameters": Mapping,
    "signed": bool,
    "cost": Cost,
    "details": Mapping,
    "model": Mapping,
    "versions": Mapping,
    "errors": tuple,
    "warnings": tuple,
}


def _check_kinds(explanation: Explanation) -> None:
    """Refuse parts of another kind, and texts that no file could hold; lists become tuples."""
    for name, kind in _KINDS.items():
        value = getattr(explanation, name)
        if kind is tuple and isinstance(value, list):
            value = tuple(value)
            object.__setattr__(explanation, name, value)
        if not isinstance(value, kind):
            raise FormatError(f"{name} of an explanation must be {kind.__name__}, got {shown(value)}")
    mappings = [getattr(explanation, name) for name in ("parameters", "details", "model", "versions")]
    named = [part for mapping in mappings for pair in mapping.items() for part in pair]
    for value in (explanation.method, *explanation.warnings, *named):
        if isinstance(value, str):
            check_unicode(value, f"{value!a:.60} of an explanation")
    for number in (*explanation.scores, *explanation.errors, *explanation.details.values()):
        if not isinstance(number, _NUMBERS):
            raise FormatError(f"scores, errors and details must be numbers, got {shown(number)}")


_NUMBERS = (int, float, np.integer, np.floating)


def _described(prediction: Prediction) -> str:
    """What is predicted, in a few words."""
    if prediction.probabilities:
        return f"{prediction.label} {prediction.probabilities[prediction.index]:.1%}"
    return f"{prediction.answer:.4g}" if isinstance(prediction.answer, float) else repr(prediction.answer)


def _revived(values: dict[str, Any]) -> Explanation:
    return Explanation(**values)


def _shown(region: Region, source: Field) -> str:
    if isinstance(region, Span) and isinstance(source, str):
        return source[region.start : region.end]
    box = region.bounds if isinstance(region, Mask) else region
    return ":".join(str(number) for number in dataclasses.astuple(box)[:-1])
