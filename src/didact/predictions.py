"""What a model predicts, and which of its numbers is explained."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from didact.errors import FormatError
from didact.examples import Answer, AnswerKind, plain_answer, read_answer
from didact.regions import Span
from didact.validation import check_unicode, finite_number, list_value, object_value, shown, text_value, whole_number

Scale = Literal["logit", "log_probability", "probability"]
SCALES: tuple[Scale, ...] = ("logit", "log_probability", "probability")


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


def _read_extract(plain: object, name: str) -> Span | str | None:
    answer = read_answer(plain, name)
    if answer is None or isinstance(answer, (Span, str)):
        return answer
    raise FormatError(f"{name} must be a span or a text, got {shown(plain)}")


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


def _optional_answer(answer: Span | str | None, name: str = "answer") -> dict[str, Any]:
    return {} if answer is None else {name: plain_answer(answer)}
