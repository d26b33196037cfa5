"""The nouns of didact: plain frozen data that every other package speaks.

Nothing here draws, saves or computes a score. Everything turns into JSON with ``to_dict`` and back with ``from_dict``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from didact.errors import DidactError, FormatError, InputError
from didact.images import ArrayLike as ArrayLike
from didact.images import Image as Image
from didact.images import is_picture
from didact.regions import Box as Box
from didact.regions import Mask as Mask
from didact.regions import Region as Region
from didact.regions import RegionT, read_region
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

Scale = Literal["logit", "log_probability", "probability"]
SCALES: tuple[Scale, ...] = ("logit", "log_probability", "probability")

Level = str
"""What a unit is, as the model offers it: "word" or "token" of a text, "patch" or "superpixel" of an image."""

JsonValue = str | int | float | bool | None

Field = str | Image
"""What an example is made of: texts and images."""

FieldLike = Field | Path | bytes | ArrayLike
"""What a user may pass as a field: a text as a string, an image as a path, bytes, an array or a PIL image."""

AnswerKind = Literal["class", "number", "span", "text"]
"""What a model predicts, a person marks as right, or a student imitates."""
ANSWER_KINDS: tuple[AnswerKind, ...] = ("class", "number", "span", "text")

Answer = str | int | float | Span | tuple[Span, ...]
"""One answer: a class by its name or number, a number, a span of a field (several where each is right), or a text."""


@dataclass(frozen=True, init=False)
class Example:
    """One thing to explain: a text, a pair of texts, an image, perhaps with a gold answer and a human rationale.

    >>> Example("A dull plot.", label="negative").text
    'A dull plot.'
    >>> Example("Who wrote it?", "Mary Shelley wrote it.", label=Span(0, 12, 1)).text_pair
    'Mary Shelley wrote it.'

    Attributes:
        fields: the texts and images, in the order in which regions count them.
        label: the gold answer: a class by its name or number, a number, or a span (a tuple where each of several is
            right).
        rationale: what people marked; () when they marked nothing, None when nobody marked it. Where several people
            marked, this is what they agree on (data read by didact: what at least half of them marked).
        id: a name for the example, for records.
        annotators: what each of several people marked; empty when there is only ``rationale``.
    """

    fields: tuple[Field, ...]
    label: Answer | None
    rationale: tuple[Region, ...] | None
    id: str | None
    annotators: tuple[tuple[Region, ...], ...]

    def __init__(
        self,
        *given: Field | None,
        fields: Sequence[Field] = (),
        label: Answer | None = None,
        rationale: Sequence[Region] | None = None,
        id: str | None = None,
        annotators: Sequence[Sequence[Region]] = (),
    ) -> None:
        taken = (*fields, *(one for one in given if one is not None))
        label = _plain_number(label)
        if label is not None and not isinstance(label, (str, int, float, Span, tuple)):
            raise InputError(f"the label of an example is a name, a number or a span, got {shown(label)}")
        values = {
            "fields": taken,
            "label": label,
            "rationale": None if rationale is None else tuple(rationale),
            "id": id,
            "annotators": tuple(tuple(marked) for marked in annotators),
        }
        for number, one in enumerate(taken):
            if isinstance(one, str):
                check_unicode(one, "the text" if not number else f"text {number + 1} of the example")
        for name, value in values.items():
            if isinstance(value, str):
                check_unicode(value, f"the {name} of the example")
            object.__setattr__(self, name, value)

    @property
    def text(self) -> str:
        """The first field, which must be a text."""
        return self._text(0)

    @property
    def text_pair(self) -> str | None:
        """The second field, where there is one; it must be a text."""
        return self._text(1) if len(self.fields) > 1 else None

    @property
    def texts(self) -> tuple[str, ...]:
        """All fields, which must be texts."""
        return tuple(self._text(number) for number in range(len(self.fields)))

    @property
    def is_textual(self) -> bool:
        """Whether all fields are texts."""
        return all(isinstance(one, str) for one in self.fields)

    @property
    def preview(self) -> str:
        """The beginning of the first field, for messages."""
        first = self.fields[0] if self.fields else ""
        if not isinstance(first, str):
            return f"an image of {first.size[0]} x {first.size[1]} pixels"
        return repr(first if len(first) <= 60 else f"{first[:57]}...")

    @property
    def fingerprint(self) -> str:
        """Hash of what the model reads, the same in every process."""
        plain = [one if isinstance(one, str) else {"image": one.fingerprint} for one in self.fields]
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]

    @classmethod
    def of(cls, given: FieldLike | Sequence[FieldLike] | Example) -> Example:
        """Turn what a user may pass into an example, refusing what cannot be explained.

        A string is a text; a ``Path``, a PIL image, an array and bytes are images, as ``Image.of`` reads them.
        """
        if isinstance(given, Example):
            example = given
        else:
            several = given if _is_several(given) else (given,)
            example = cls(*(Image.of(one) if is_picture(one) else one for one in several))  # type: ignore[union-attr,arg-type]
        if not example.fields:
            raise InputError("an example needs at least one text or image, got none")
        for one in example.fields:
            if not isinstance(one, (str, Image)):
                raise InputError(f"a text must be a string, got {type(one).__name__}: {one!r:.80}")
            if isinstance(one, str) and not one.strip():
                raise InputError("the text is empty or blank: there is nothing to explain; give at least one word")
        return example

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; texts as ``text`` and ``text_pair``, all else as ``fields``."""
        texts = self.is_textual and len(self.fields) in (1, 2)
        plain = [one if isinstance(one, str) else one.to_dict() for one in self.fields]
        return {
            **({"text": plain[0], "text_pair": (*plain, None)[1]} if texts else {"fields": plain}),
            "label": _plain_answer(self.label),
            "rationale": None if self.rationale is None else plain_regions(self.rationale),
            "id": self.id,
            "annotators": [plain_regions(marked) for marked in self.annotators],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Example:
        """Inverse of ``to_dict``; texts, answers and marked places are checked."""
        whole = "fields" in object_value(data, "an example")
        needed, optional = (("fields",), ()) if whole else (("text",), ("text_pair",))
        data = object_value(data, "an example", needed, (*optional, "label", "rationale", "id", "annotators"))
        given = list_value(data["fields"], "fields") if whole else (data["text"], data.get("text_pair"))
        fields = tuple(_read_field(one) for one in given if one is not None)
        if not fields:
            raise FormatError("an example needs at least one text or image")
        marked, named = data.get("rationale"), data.get("id")
        each = list_value(data.get("annotators", ()), "annotators")
        return cls(
            fields=fields,
            label=_inside_answer(_read_answer(data.get("label"), "label"), "label", fields),
            rationale=None if marked is None else _inside(read_regions(marked, "rationale"), "rationale", fields),
            id=None if named is None else text_value(named, "id"),
            annotators=[_inside(read_regions(one, "annotators"), "annotators", fields) for one in each],
        )

    def _text(self, number: int) -> str:
        text = self.fields[number]
        if not isinstance(text, str):
            raise InputError(f"field {number} of this example is an image, and a text is needed here")
        return text


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
        _inside(self.regions, "unit", self.example.fields)
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
class Target:
    """The one number explained, on a stated scale.

    Attributes:
        index: which output.
        label: its name.
        scale: of the number.
        answer: the span or the text whose score is explained, where outputs are no classes.
        contrast: of a contrastive target, the output whose number is subtracted: score(label) - score(contrast_label).
        contrast_label: its name.
    """

    index: int
    label: str
    scale: Scale = "logit"
    answer: Span | str | None = None
    contrast: int | None = None
    contrast_label: str = ""

    @property
    def name(self) -> str:
        """The label; of a contrastive target both labels."""
        return self.label if self.contrast is None else f"{self.label} rather than {self.contrast_label}"

    @property
    def first(self) -> Target:
        """The label's own number; the target itself where it is not contrastive."""
        return self if self.contrast is None else dataclasses.replace(self, contrast=None, contrast_label="")

    @property
    def second(self) -> Target | None:
        """The number that a contrastive target subtracts."""
        return None if self.contrast is None else Target(self.contrast, self.contrast_label, self.scale, self.answer)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = {"index": self.index, "label": self.label, "scale": self.scale, **_optional_answer(self.answer)}
        contrast = {"contrast": self.contrast, "contrast_label": self.contrast_label}
        return plain | ({} if self.contrast is None else contrast)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Target:
        """Inverse of ``to_dict``."""
        data = object_value(data, "target", ("index", "label"), ("scale", "answer", "contrast", "contrast_label"))
        scale = data.get("scale", "logit")
        if scale not in SCALES:
            raise FormatError(f"target: scale must be one of {', '.join(SCALES)}, got {shown(scale)}")
        return cls(
            whole_number(data["index"], "target: index"),
            text_value(data["label"], "target: label"),
            scale,
            _read_extract(data.get("answer"), "target: answer"),
            None if data.get("contrast") is None else whole_number(data["contrast"], "target: contrast"),
            text_value(data.get("contrast_label", ""), "target: contrast_label"),
        )


@dataclass(frozen=True)
class Prediction:
    """What the model answers for an example, from a plain forward pass.

    Attributes:
        labels: names of the outputs.
        outputs: logits, the regression output, a black box's log-probabilities, or the log-probability of the span or
            text.
        probabilities: one per label; empty where the outputs are no classes.
        extract: the predicted span of a field (an empty one for no answer), or the generated text; with probabilities,
            the place that they are about. None where the answer is a class or a number of the whole input.
    """

    labels: tuple[str, ...]
    outputs: tuple[float, ...]
    probabilities: tuple[float, ...] = ()
    extract: Span | str | None = None

    def __post_init__(self) -> None:
        if not len(self.labels) == len(self.outputs) > 0 or len(self.probabilities) not in (0, len(self.outputs)):
            raise FormatError(
                f"a prediction needs one label per output: {len(self.labels)} labels, {len(self.outputs)} outputs, "
                f"{len(self.probabilities)} probabilities"
            )
        for label in self.labels:
            check_unicode(label, f"the label {label!a:.60}")
        if not all(map(math.isfinite, self.outputs)):
            raise FormatError(f"the outputs of a prediction must be finite, got {shown(self.outputs)}")
        _check_probabilities(self)

    @property
    def index(self) -> int:
        """The predicted output."""
        return max(range(len(self.outputs)), key=self.outputs.__getitem__)

    @property
    def label(self) -> str:
        """Name of the predicted output."""
        return self.labels[self.index]

    @property
    def kind(self) -> AnswerKind:
        """What is predicted."""
        if self.probabilities:
            return "class"
        if self.extract is not None:
            return "span" if isinstance(self.extract, Span) else "text"
        return "number"

    @property
    def answer(self) -> Answer:
        """The predicted class by its name, the number, the span or the text."""
        if self.probabilities:
            return self.label
        return self.outputs[0] if self.extract is None else self.extract

    @property
    def is_regression(self) -> bool:
        """Whether the output is a number rather than a class."""
        return self.kind == "number"

    def value(self, target: Target) -> float:
        """The explained number, as the plain pass gives it."""
        if target.second is not None:
            return self.value(target.first) - self.value(target.second)
        if target.scale == "logit" or self.is_regression:
            return self.outputs[target.index]
        if not self.probabilities:
            log_p = self.outputs[target.index]
            return math.exp(log_p) if target.scale == "probability" else log_p
        probability = self.probabilities[target.index]
        return probability if target.scale == "probability" else math.log(max(probability, 1e-300))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = {name: list(getattr(self, name)) for name in ("labels", "outputs", "probabilities")}
        return plain | _optional_answer(self.extract, "extract")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Prediction:
        """Inverse of ``to_dict``; numbers must be finite, and probabilities what classes can have."""
        data = object_value(data, "prediction", ("labels", "outputs"), ("probabilities", "extract"))
        labels, outputs, shares = (
            list_value(data.get(name, ()), name) for name in ("labels", "outputs", "probabilities")
        )
        made = cls(
            tuple(text_value(label, "a label") for label in labels),
            tuple(finite_number(output, "an output") for output in outputs),
            tuple(finite_number(share, "a probability") for share in shares),
            _read_extract(data.get("extract"), "extract"),
        )
        if not outputs:
            raise FormatError("a prediction needs at least one output")
        return made


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
class Card:
    """What a registered explainer is and needs; lists in docs, CLI and tests are made from cards.

    Attributes:
        name: registered name; also its file, its CLI name and its test id.
        family: gradient, relevance, decomposition, attention, perturbation, self-report or control.
        summary: one sentence.
        reference: where it was published.
        cost: forwards and backwards in words, for n units; ``Explainer.cost`` gives the numbers.
        needs: capabilities of the model beyond ``score``.
        signed: whether scores carry a sign.
        seeded: whether the result depends on a seed.
        axioms: completeness, dummy, symmetry, as far as the method promises them.
        tolerance: how far completeness may be missed at default settings, relative to 1 + |difference|.
        inputs: kinds of example it takes: "text", "pair", "image".
        needs_rationale: whether it explains only examples that have a human rationale.
        default: whether an evaluation that names no methods grades it.
        aliases: other names it is known by, which stand for ``name``.
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
    inputs: tuple[str, ...] = ("text", "pair", "image")
    needs_rationale: bool = False
    default: bool = False
    aliases: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = vars(self).copy()
        lists = {"needs": sorted(self.needs), "axioms": sorted(self.axioms)}
        return plain | lists | {"inputs": list(self.inputs), "aliases": list(self.aliases)}


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
            "corpus" (all examples at once), "repeats" (other seeds), "others" (other explainers), "surrogate"; of the
            explained examples "text" (not images) and "classes" (a prediction with probabilities).
        invariant: to any strictly increasing map of a text's scores ("order"), to a x + b with a > 0 ("affine"), to a x
            ("scale"), or to "none" of these.
        timed: whether it measures time or memory, so that no two runs give the same number.
        default: whether an evaluation that names no metrics computes it, as far as the data allow.
        aliases: other names it is known by, which stand for ``name``.
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
    default: bool = False
    aliases: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an open end of the range is None."""
        plain = vars(self).copy()
        ends = {end: plain[end] if math.isfinite(plain[end]) else None for end in ("low", "high")}
        plain.update(ends, needs=sorted(self.needs), aliases=list(self.aliases))
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


def _read_span(row: object, name: str) -> Span:
    region = read_region(row, name)
    if not isinstance(region, Span):
        raise FormatError(f"{name} must be a span of 2 or 3 numbers, got {shown(row)}")
    return region


def _read_field(plain: object) -> Field:
    if isinstance(plain, Mapping):
        return Image.from_dict(plain)
    return text_value(plain, "a text")


def _plain_number(label: Any) -> Any:
    """A number of numpy as Python's own; anything else as it is."""
    return label.item() if isinstance(label, np.generic) else label


def _plain_answer(answer: Answer | None) -> Any:
    """An answer as plain JSON values: a span as {"span": ...}, several as {"spans": ...}."""
    if isinstance(answer, Span):
        return {"span": plain_regions([answer])[0]}
    return {"spans": plain_regions(answer)} if isinstance(answer, tuple) else answer


def _read_answer(plain: object, name: str) -> Answer | None:
    if not isinstance(plain, Mapping):
        return plain_value(plain, name)
    entries = object_value(plain, name, (), ("span", "spans"))
    if len(entries) != 1:
        raise FormatError(f"{name} must have either 'span' or 'spans', got {shown(plain)}")
    if "span" in entries:
        return _read_span(entries["span"], name)
    return tuple(_read_span(row, name) for row in list_value(entries["spans"], name))


def _read_extract(plain: object, name: str) -> Span | str | None:
    answer = _read_answer(plain, name)
    if answer is None or isinstance(answer, (Span, str)):
        return answer
    raise FormatError(f"{name} must be a span or a text, got {shown(plain)}")


def _inside_answer(answer: Answer | None, name: str, fields: Sequence[Field]) -> Answer | None:
    if isinstance(answer, (Span, tuple)):
        _inside((answer,) if isinstance(answer, Span) else answer, name, fields)
    return answer


_ROUNDING = 1e-3
_HALF_PRECISION = 0.02


def _check_probabilities(prediction: Prediction) -> None:
    """Probabilities of classes add up to 1, or are each the sigmoid of its output where several labels may hold."""
    shares, outputs = prediction.probabilities, prediction.outputs
    if shares and not all(-_ROUNDING <= share <= 1 + _ROUNDING for share in shares):
        raise FormatError(f"probabilities lie between 0 and 1, got {shown(list(shares))}")
    if not shares or abs(math.fsum(shares) - 1) <= _HALF_PRECISION:
        return
    sigmoids = [0.5 * (1 + math.tanh(0.5 * output)) for output in outputs]
    if any(abs(share - own) > _HALF_PRECISION for share, own in zip(shares, sigmoids, strict=True)):
        raise FormatError(
            f"probabilities must add up to 1, or be the sigmoid of each output, got {shown(list(shares))}"
        )


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


def _optional_answer(answer: Span | str | None, name: str = "answer") -> dict[str, Any]:
    return {} if answer is None else {name: _plain_answer(answer)}


def check_regions(regions: Sequence[Region], name: str, fields: Sequence[Field]) -> tuple[Region, ...]:
    """The regions, refused where one lies outside of its field; ``name`` says in messages what they are."""
    return _inside(tuple(regions), name, fields)


def _inside(regions: tuple[RegionT, ...], name: str, fields: Sequence[Field]) -> tuple[RegionT, ...]:
    """The regions, refused where one lies outside of its field."""
    for number, region in enumerate(regions):
        if not 0 <= region.field < len(fields):
            raise FormatError(f"{name} {number} lies in field {region.field}, but the example has {len(fields)}")
        _check_inside(f"{name} {number}", region, fields[region.field])
    return regions


def _check_inside(name: str, region: Region, source: Field) -> None:
    """Refuse a region that lies outside of its field."""
    if isinstance(region, Span) and isinstance(source, str):
        if not 0 <= region.start <= region.end <= len(source):
            raise FormatError(f"{name} covers characters {region.start} to {region.end} of a text of {len(source)}")
    elif isinstance(region, Mask) and isinstance(source, Image):
        if region.size != source.size:
            wide, high = source.size
            raise FormatError(f"{name} is a mask of {region.size[0]} x {region.size[1]} of an image of {wide} x {high}")
    elif isinstance(region, Box) and isinstance(source, Image):
        width, height = source.size
        if not (0 <= region.left <= region.right <= width and 0 <= region.top <= region.bottom <= height):
            raise FormatError(f"{name} covers {region} of an image of {width} x {height} pixels")
    else:
        raise FormatError(f"{name} is a {type(region).__name__}, which does not fit a {type(source).__name__}")


def _shown(region: Region, source: Field) -> str:
    if isinstance(region, Span) and isinstance(source, str):
        return source[region.start : region.end]
    box = region.bounds if isinstance(region, Mask) else region
    return ":".join(str(number) for number in dataclasses.astuple(box)[:-1])


def _is_several(given: object) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, (str, bytes)) and len(given) in (1, 2)
