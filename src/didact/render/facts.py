"""The words and numbers beside the coloured text, the same in every output."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from didact.errors import InputError
from didact.render import answers
from didact.render.pieces import name, ranked
from didact.types import Example, Explanation, Image, Prediction, Span, Target

_FIELDS = ("text", "pair")
_QUESTION = ("question", "passage")
LISTED_CLASSES = 10
"""Alternatives whose probabilities are shown one by one."""

_SCALES = {"logit": "logit", "log_probability": "log-probability", "probability": "probability"}


@dataclass(frozen=True)
class Group:
    """Explanations of one example by one model, to be shown together.

    Attributes:
        explanations: at least one.
    """

    explanations: tuple[Explanation, ...]

    @property
    def first(self) -> Explanation:
        """The explanation whose prediction is shown for all."""
        return self.explanations[0]

    @property
    def example(self) -> Example:
        """The explained example."""
        return self.first.example

    @property
    def target(self) -> Target | None:
        """The target, if all explain the same."""
        return self.first.target if all(each.target == self.first.target for each in self.explanations) else None

    @property
    def by_label(self) -> list[Group]:
        """The explanations by what they explain, on any scale: a group per class where every class is explained."""
        parts: dict[str, list[Explanation]] = {}
        for each in self.explanations:
            parts.setdefault(answers.explained(each), []).append(each)
        return [Group(tuple(members)) for members in parts.values()]

    @property
    def warnings(self) -> list[str]:
        """What holds for all explanations of the group."""
        others = [warnings(each) for each in self.explanations[1:]]
        return [warning for warning in warnings(self.first) if all(warning in other for other in others)]

    def own_warnings(self, explanation: Explanation) -> list[str]:
        """What holds for this explanation and not for all of the group."""
        return [warning for warning in warnings(explanation) if warning not in self.warnings]


def grouped(explanations: Sequence[Explanation]) -> list[Group]:
    """Explanations of the same example together, in the order in which the examples first appear."""
    if not explanations:
        raise InputError("there is nothing to show: the list of explanations is empty; give at least one")
    groups: list[list[Explanation]] = []
    known: dict[object, list[list[Explanation]]] = {}
    for each in explanations:
        key = (each.example, tuple(sorted(each.model.items())), each.prediction.labels)
        for members in known.setdefault(key, []):
            if np.allclose(members[0].prediction.outputs, each.prediction.outputs, rtol=1e-2, atol=1e-2):
                members.append(each)
                break
        else:
            groups.append([each])
            known[key].append(groups[-1])
    return [Group(tuple(members)) for members in groups]


def field_name(explanation: Explanation, field: int) -> str:
    """What a field is called: image, question and passage where the answer is a span of two, text, or pair."""
    fields = explanation.example.fields
    if isinstance(fields[field], Image):
        return "image"
    if explanation.prediction.kind == "span" and len(fields) == len(_QUESTION):
        return _QUESTION[field]
    return _FIELDS[field] if field < len(_FIELDS) else f"text {field + 1}"


def plural(noun: str, count: int) -> str:
    """A level as a noun: 1 patch, 2 patches, 3 words."""
    return noun if count == 1 else noun + ("es" if noun.endswith(("ch", "s", "x")) else "s")


def snippet(example: Example) -> str:
    """How an example begins, in one line."""
    first = example.fields[0]
    return name(first, 120) if isinstance(first, str) else " ".join(filter(None, (example.preview, example.id)))


def certainty(explanation: Explanation) -> str:
    """Probability of the predicted class or answer, or the value of a regression."""
    prediction = explanation.prediction
    if prediction.is_regression:
        return f"{prediction.outputs[prediction.index]:.4g}"
    return percent(prediction.value(Target(prediction.index, prediction.label, "probability")))


def alternatives(prediction: Prediction) -> list[tuple[str, float]]:
    """The other classes with their probabilities, the most probable first; of many, the rest as one."""
    if prediction.kind != "class":
        return []
    shares = prediction.probabilities
    others = [index for index in range(len(shares)) if index != prediction.index]
    order = sorted(others, key=lambda index: -shares[index])
    listed = [(prediction.labels[index], shares[index]) for index in order[:LISTED_CLASSES]]
    more = order[LISTED_CLASSES:]
    return [*listed, (f"{len(more)} more together", math.fsum(shares[index] for index in more))] if more else listed


def other_classes(prediction: Prediction) -> str:
    """``alternatives`` in one line."""
    return ", ".join(f"{label} {percent(share)}" for label, share in alternatives(prediction))


def target(explanation: Explanation) -> str:
    """The explained number: which output, on which scale, and what it is here."""
    explained, prediction = explanation.target, explanation.prediction
    scale = "output" if prediction.is_regression else _SCALES[explained.scale]
    scale = scale if explained.contrast is None else f"difference of {_several(scale)}"
    line = f"{answers.explained(explanation)}, {scale} {prediction.value(explained):.4g}"
    if not prediction.is_regression and explained.index != prediction.index:
        share = prediction.value(dataclasses.replace(explained.first, scale="probability"))
        line += f", not the predicted {'class' if prediction.kind == 'class' else 'answer'} ({percent(share)})"
    return line


def _several(scale: str) -> str:
    return scale[:-1] + "ies" if scale.endswith("y") else f"{scale}s"


def explained_share(explanation: Explanation) -> str:
    """The probability of the explained class; empty where a difference or no class is explained."""
    explained, prediction = explanation.target, explanation.prediction
    if prediction.kind != "class" or explained.contrast is not None:
        return ""
    return percent(prediction.value(dataclasses.replace(explained, scale="probability")))


def settings(explanation: Explanation) -> list[str]:
    """All settings of the method, as name=value."""
    return _pairs(explanation.parameters)


def details(explanation: Explanation) -> list[str]:
    """The method's own numbers, as name=value."""
    return [f"{key}={value:.4g}" for key, value in explanation.details.items()]


def cost(explanation: Explanation) -> str:
    """Forwards, backwards and seconds."""
    spent = explanation.cost
    forwards = _count(spent.forwards, "forward")
    if spent.evaluated is not None and spent.evaluated != spent.forwards:
        forwards += f" ({spent.evaluated:,} run)"
    parts = [forwards, _count(spent.backwards, "backward")]
    if spent.seconds is not None:
        parts.append(duration(spent.seconds))
    return ", ".join(parts)


def warnings(explanation: Explanation) -> list[str]:
    """What a reader of the scores must know: what the model did not see of the text, and what the method reports."""
    cut, unknown = explanation.units.truncated, explanation.units.unknown
    lines = []
    if cut > 0:
        image = any(isinstance(field, Image) for field in explanation.example.fields)
        lines.append(
            f"{_share(cut)} of the image lies outside of what the model looks at"
            if image
            else f"{_share(cut)} of the text was cut off by the model's length limit"
        )
    if unknown > 0:
        lines.append(f"{_share(unknown)} of the text's tokens are unknown to the model's tokenizer")
    return lines + list(explanation.warnings)


def _share(share: float) -> str:
    return "less than 1 %" if share < 0.01 else f"{min(round(100 * share), 99 if share < 1 else 100)} %"


def meaning(explanation: Explanation, *, several: bool = False) -> tuple[str, ...]:
    """What the colours mean: for and against, or one importance."""
    label = "the target" if several else answers.explained(explanation)
    if not explanation.signed:
        return (f"importance for {label}, no sign",)
    if explanation.prediction.is_regression:
        return f"raises {label}", f"lowers {label}"
    return f"supports {label}", f"opposes {label}"


def meanings(group: Group) -> list[tuple[bool, tuple[str, ...]]]:
    """What the colours mean in a group, signed methods first: (signed, words)."""
    kinds = {each.signed: each for each in reversed(group.explanations)}
    several = group.target is None
    return [(signed, meaning(kinds[signed], several=several)) for signed in (True, False) if signed in kinds]


def scaling(group: Group) -> str:
    """How strong the strongest colour is, and what ± means where numbers have one."""
    errors = "; ± is one standard error" if any(each.errors for each in group.explanations) else ""
    boxes = any(not isinstance(region, Span) for region in group.first.units.regions)
    places = "; parts of an image are named left:top:right:bottom, in pixels" if boxes else ""
    return _fullest(group) + errors + places


def numbers(explanation: Explanation) -> list[str]:
    """The scores with equally many decimals, about three figures for the largest, a sign where signs mean something."""
    form = _form(explanation)
    return [_number(score, form, explanation.signed) for score in explanation.scores]


def estimates(explanation: Explanation) -> list[str]:
    """The scores as ``numbers`` writes them, each with its standard error behind ± where the method estimates one."""
    written, form = numbers(explanation), _form(explanation)
    if not explanation.errors:
        return written
    return [f"{number} ± {error:{form}}" for number, error in zip(written, explanation.errors, strict=True)]


def strongest(explanation: Explanation, most: int) -> list[tuple[str, str]]:
    """The strongest units and their scores, with standard errors where there are."""
    written, texts = estimates(explanation), explanation.units.texts
    return [(name(texts[unit]), written[unit]) for unit in ranked(explanation)[:most]]


def origin(explanation: Explanation) -> list[str]:
    """The explained model: its name, then what else is known as name=value."""
    known = dict(explanation.model)
    model_name = known.pop("name", None)
    return ([] if model_name is None else [model_name]) + _pairs(known)


def versions(explanation: Explanation) -> list[str]:
    """Library versions, as name=value."""
    return _pairs(explanation.versions)


def percent(share: float) -> str:
    """A probability for people; never rounded up to certainty."""
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """A time span in a fitting unit."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _fullest(group: Group) -> str:
    if len(group.explanations) > 1:
        return "each row is scaled to its own largest score"
    explanation = group.first
    largest = max((abs(score) for score in explanation.scores), default=0.0)
    if largest == 0:
        return "all scores are zero" if explanation.scores else "nothing was scored"
    return f"full colour is the largest score, {numbers(explanation)[ranked(explanation)[0]]}"


def _form(explanation: Explanation) -> str:
    largest = max((abs(score) for score in explanation.scores), default=0.0)
    power = math.floor(math.log10(largest)) if largest > 0 else 0
    return ".2e" if not -4 <= power <= 5 else f".{max(0, 2 - power)}f"


def _pairs(values: Mapping[str, object]) -> list[str]:
    return [f"{key}={_plain(value)}" for key, value in values.items()]


def _plain(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _count(amount: int, noun: str) -> str:
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def _number(score: float, form: str, signed: bool) -> str:
    plain = f"{abs(score):{form}}"
    if float(plain) == 0:
        return plain
    return plain if not signed and score > 0 else f"{'+' if score > 0 else '-'}{plain}"
