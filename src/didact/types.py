"""The nouns of didact: plain frozen data that every other package speaks.

Nothing here draws, saves or computes a score. Everything turns into JSON with ``to_dict`` and back with ``from_dict``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from didact.errors import FormatError, InputError

Floats = NDArray[np.float64]
Keep = NDArray[Any]
"""Keep masks of one example, shape (variants, units): boolean, or weights in [0, 1] for the blend operator."""

Scale = Literal["logit", "log_probability", "probability"]
SCALES: tuple[Scale, ...] = ("logit", "log_probability", "probability")

Level = Literal["word", "token"]
LEVELS: tuple[Level, ...] = ("word", "token")

JsonValue = str | int | float | bool | None


@dataclass(frozen=True)
class Span:
    """Characters ``start`` to ``end`` (exclusive) of one field: 0 is the text, 1 its pair."""

    start: int
    end: int
    field: int = 0


@dataclass(frozen=True)
class Example:
    """One thing to explain: a text or a pair of texts, perhaps with a gold label and a human rationale.

    Attributes:
        text: what is explained, or its first text.
        text_pair: the second text of a pair.
        label: the gold label.
        rationale: what people marked; () when they marked nothing, None when nobody was asked. Where several people
            marked, this is what they agree on (data read by didact: what at least half of them marked).
        id: a name for the example, for records.
        annotators: what each of several people marked; empty when there is only ``rationale``.
    """

    text: str
    text_pair: str | None = None
    label: str | int | None = None
    rationale: tuple[Span, ...] | None = None
    id: str | None = None
    annotators: tuple[tuple[Span, ...], ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """The texts in the order in which spans count them."""
        return (self.text,) if self.text_pair is None else (self.text, self.text_pair)

    @property
    def fingerprint(self) -> str:
        """Hash of what the model reads, the same in every process."""
        return hashlib.sha256(json.dumps(self.fields).encode()).hexdigest()[:16]

    @classmethod
    def of(cls, given: str | tuple[str, str] | Example) -> Example:
        """Turn what a user may pass into an example, refusing what cannot be explained."""
        example = given if isinstance(given, Example) else cls(*given) if _is_pair(given) else cls(given)  # type: ignore[arg-type]
        for text in example.fields:
            if not isinstance(text, str):
                raise InputError(f"a text must be a string, got {type(text).__name__}: {text!r:.80}")
            if not text.strip():
                raise InputError("the text is empty or blank: there is nothing to explain; give at least one word")
        return example

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "text": self.text,
            "text_pair": self.text_pair,
            "label": self.label,
            "rationale": None if self.rationale is None else _plain(self.rationale),
            "id": self.id,
            "annotators": [_plain(spans) for spans in self.annotators],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Example:
        """Inverse of ``to_dict``."""
        spans = data.get("rationale")
        rationale = None if spans is None else tuple(Span(*span) for span in spans)
        annotators = tuple(tuple(Span(*span) for span in marked) for marked in data.get("annotators", ()))
        return cls(data["text"], data.get("text_pair"), data.get("label"), rationale, data.get("id"), annotators)


@dataclass(frozen=True)
class Units:
    """What gets a score: the words or tokens of one example as one model sees them.

    Token positions that no unit covers (special tokens, padding) are always present and never scored, so a method
    cannot score them by mistake.

    Attributes:
        example: the example these units belong to.
        level: "word" or "token".
        spans: where each unit stands in the source.
        positions: the token positions each unit covers; empty for a black box, which shows no tokens.
        truncated: share of the source's characters that the model's length limit cuts off.
    """

    example: Example
    level: Level
    spans: tuple[Span, ...]
    positions: tuple[tuple[int, ...], ...] = ()
    truncated: float = 0.0

    def __post_init__(self) -> None:
        sizes = [len(text) for text in self.example.fields]
        for number, span in enumerate(self.spans):
            if not 0 <= span.field < len(sizes):
                raise FormatError(f"unit {number} lies in field {span.field}, but the example has {len(sizes)}")
            if not 0 <= span.start <= span.end <= sizes[span.field]:
                raise FormatError(
                    f"unit {number} covers characters {span.start} to {span.end} of a text of {sizes[span.field]}"
                )

    def __len__(self) -> int:
        return len(self.spans)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The units as written in the source."""
        fields = self.example.fields
        return tuple(fields[span.field][span.start : span.end] for span in self.spans)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "example": self.example.to_dict(),
            "level": self.level,
            "spans": _plain(self.spans),
            "positions": [list(p) for p in self.positions],
            "truncated": self.truncated,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Units:
        """Inverse of ``to_dict``."""
        return cls(
            example=Example.from_dict(data["example"]),
            level=data["level"],
            spans=tuple(Span(*span) for span in data["spans"]),
            positions=tuple(tuple(p) for p in data["positions"]),
            truncated=float(data["truncated"]),
        )


@dataclass(frozen=True)
class Target:
    """The one number explained: output ``index``, called ``label``, on a stated scale."""

    index: int
    label: str
    scale: Scale = "logit"


@dataclass(frozen=True)
class Prediction:
    """What the model says about an example, from a plain forward pass.

    Attributes:
        labels: names of the outputs.
        outputs: logits, or the regression output, or a black box's log-probabilities.
        probabilities: one per label; empty for regression.
    """

    labels: tuple[str, ...]
    outputs: tuple[float, ...]
    probabilities: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.outputs) or len(self.probabilities) not in (0, len(self.outputs)):
            raise FormatError(
                f"a prediction needs one label per output: {len(self.labels)} labels, {len(self.outputs)} outputs, "
                f"{len(self.probabilities)} probabilities"
            )

    @property
    def index(self) -> int:
        """The predicted output."""
        return max(range(len(self.outputs)), key=self.outputs.__getitem__)

    @property
    def label(self) -> str:
        """Name of the predicted output."""
        return self.labels[self.index]

    @property
    def is_regression(self) -> bool:
        """Whether the output is a number rather than a class."""
        return not self.probabilities

    def value(self, target: Target) -> float:
        """The explained number, as the plain pass gives it."""
        if target.scale == "logit" or self.is_regression:
            return self.outputs[target.index]
        probability = self.probabilities[target.index]
        return probability if target.scale == "probability" else math.log(max(probability, 1e-300))


@dataclass(frozen=True)
class Cost:
    """What an explanation took.

    Attributes:
        forwards: evaluations of the model asked for (rows, not batches).
        backwards: how many of them were differentiated.
        evaluated: forwards really run; fewer when a variant repeats. None when not measured.
        seconds: wall time; examples explained in one call share it equally. None when not measured.
    """

    forwards: int = 0
    backwards: int = 0
    evaluated: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Estimate:
    """What explaining is expected to take, told beforehand.

    Attributes:
        method: registered name of the explainer.
        examples: how many texts.
        units: how many units they have together.
        forwards: evaluations that will be asked for; exact, or at most, where the method may stop early.
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
        scores: one finite number per unit; positive speaks for the target where the method is signed.
        target: the explained number.
        prediction: the model's plain prediction.
        parameters: all settings of the method.
        signed: whether a negative score means evidence against the target.
        cost: what it took.
        details: method-specific numbers (base value, fit, completeness gap).
        model: name and hash of the explained model.
        versions: library versions.
        errors: one standard error per score where the method estimates them, else empty.
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

    def __post_init__(self) -> None:
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
        if not 0 <= self.target.index < len(self.prediction.outputs):
            raise FormatError(f"the target is output {self.target.index}, but there are {len(self.prediction.outputs)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Explanation.from_dict, (self.to_dict(),)  # the read-only mappings do not pickle

    @property
    def example(self) -> Example:
        """The explained example."""
        return self.units.example

    @property
    def array(self) -> Floats:
        """The scores as a fresh numpy array."""
        return np.array(self.scores, dtype=np.float64)

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
            "target": vars(self.target).copy(),
            "prediction": {name: list(value) for name, value in vars(self.prediction).items()},
            "parameters": dict(self.parameters),
            "signed": self.signed,
            "cost": vars(self.cost).copy(),
            "details": dict(self.details),
            "model": dict(self.model),
            "versions": dict(self.versions),
            "errors": list(self.errors),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Explanation:
        """Inverse of ``to_dict``; a missing or malformed field is named."""
        try:
            return cls(
                method=data["method"],
                units=Units.from_dict(data["units"]),
                scores=tuple(float(score) for score in data["scores"]),
                target=Target(**data["target"]),
                prediction=Prediction(**{name: tuple(value) for name, value in data["prediction"].items()}),
                parameters=data["parameters"],
                signed=data["signed"],
                cost=Cost(**data["cost"]),
                details=data["details"],
                model=data["model"],
                versions=data["versions"],
                errors=tuple(float(error) for error in data.get("errors", ())),
            )
        except KeyError as missing:
            raise FormatError(f"not an explanation: field {missing} is missing") from None
        except (TypeError, ValueError, AttributeError) as problem:
            raise FormatError(f"not an explanation: {problem}") from None

    def to_json(self, *, indent: int | None = None) -> str:
        """JSON text; floats survive the round trip exactly."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Explanation:
        """Inverse of ``to_json``."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as problem:
            raise FormatError(f"not JSON: {problem}") from None
        if not isinstance(data, dict):
            raise FormatError(f"an explanation is a JSON object, got {type(data).__name__}")
        return cls.from_dict(data)


@dataclass(frozen=True)
class Card:
    """What a registered explainer is and needs; lists in docs, CLI and tests are made from cards.

    Attributes:
        name: registered name; also its file, its CLI name and its test id.
        family: gradient, relevance, decomposition, attention, perturbation or control.
        summary: one sentence.
        reference: where it was published.
        cost: forwards and backwards in words, for n units; ``Explainer.cost`` gives the numbers.
        needs: capabilities of the model beyond ``score``.
        signed: whether scores carry a sign.
        seeded: whether the result depends on a seed.
        axioms: completeness, dummy, symmetry, as far as the method promises them.
        tolerance: how far completeness may be missed at default settings, relative to 1 + |difference|.
        inputs: kinds of example it takes.
        needs_rationale: whether it explains only examples that have a human rationale.
    """

    name: str
    family: str
    summary: str
    reference: str
    cost: str
    needs: frozenset[str] = frozenset()
    signed: bool = True
    seeded: bool = False
    axioms: frozenset[str] = frozenset()
    tolerance: float = 1e-4
    inputs: tuple[str, ...] = ("text", "pair")
    needs_rationale: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = vars(self).copy()
        plain.update(needs=sorted(self.needs), axioms=sorted(self.axioms), inputs=list(self.inputs))
        return plain


Invariance = Literal["order", "scale", "affine", "none"]
"""What may happen to the scores of an explanation without changing a metric."""


@dataclass(frozen=True)
class MetricCard:
    """What a registered metric is and needs.

    Attributes:
        name: registered name; also its file, its name on the command line and its test id.
        family: faithfulness, stability, plausibility, agreement or efficiency.
        summary: one sentence.
        reference: where it was published, or what it follows.
        higher_is_better: the direction; None where neither is better.
        low: smallest possible value.
        high: largest possible value.
        needs: what it looks at beyond the explanations: "model", "rationale", "explainer" (to explain further texts),
            "corpus" (all examples at once), "repeats" (other seeds), "others" (other explainers), "surrogate".
        invariant: to any strictly increasing map of a text's scores ("order"), to a x + b with a > 0 ("affine"), to a x
            ("scale"), or to "none" of these.
        timed: whether it measures time or memory, so that no two runs give the same number.
    """

    name: str
    family: str
    summary: str
    reference: str
    higher_is_better: bool | None = True
    low: float = -math.inf
    high: float = math.inf
    needs: frozenset[str] = frozenset()
    invariant: Invariance = "order"
    timed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an open end of the range is None."""
        plain = vars(self).copy()
        ends = {end: plain[end] if math.isfinite(plain[end]) else None for end in ("low", "high")}
        plain.update(ends, needs=sorted(self.needs))
        return plain


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
        null: "" for the explanation itself; "shuffle" with its scores shuffled over its units, "labels" with its target
            taken from another example.
        metric: the metric's label in the experiment.
        part: "" for the metric's value; else the name of one of its parts.
        example: the example's id, or its fingerprint where it has none.
        value: the number; NaN where undefined.
        model: fingerprint of the explained model.
        data: name of the data.
        settings: hash of the explainer's and the metric's settings.
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


def _plain(spans: Sequence[Span]) -> list[list[int]]:
    return [[span.start, span.end, span.field] for span in spans]


def _is_pair(given: object) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2
