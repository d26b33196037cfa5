"""Explanations made by hand, without a model."""

import re
from collections.abc import Callable

import pytest

from didact.types import Cost, Example, Explanation, Prediction, Span, Target, Units

Make = Callable[..., Explanation]

CLASSES = Prediction(("negative", "positive"), (-2.1, 2.2), (0.013, 0.987))
VALUE = Prediction(("stars",), (3.4123,))

NASTY = {
    "script": "Stop <script>alert('x')</script> & \"go\" </div>",
    "latex": r"Pay 5% of $10_000 & more: #1 {x} \foo ~ ^2 | `q' -- ok,,",
    "emoji": "So good 👩‍🚀👍🏽 truly 🎬!",
    "cjk": "これは素晴らしい映画です。 很好看",
    "combining": "Cafe\u0301 nai\u0308ve z\u0301\u0323 ok",
    "space": "\n first line\n\n\tsecond  line\twith tabs ",
    "rtl": "פילם נהדר and more",
    "control": "bell \x07 escape \x1b[31mred\x1b[0m null \x00 c1 \x9b31m",
    "noncharacter": "broken \ufffe half \u202e turned",
    "markup": "[/] [bold]loud[/bold] [link=https://example.org]live[/link] :smile:",
}


@pytest.fixture
def make() -> Make:
    """Factory: ``make(text, scores=..., method=...)``; the units are words and marks, or the given spans."""
    return make_explanation


def make_explanation(text: str = "A warm but slow film.", **given: object) -> Explanation:
    example = Example(text, given.pop("pair", None), label=given.pop("label", None))
    spans = given.pop("spans", None)
    if spans is None:
        spans = [
            Span(match.start(), match.end(), field)
            for field, source in enumerate(example.fields)
            for match in re.finditer(r"\w+|[^\w\s]", source)
        ]
    units = Units(example, given.pop("level", "word"), tuple(spans), (), given.pop("truncated", 0.0))
    prediction = given.pop("prediction", CLASSES)
    return Explanation(
        method=given.pop("method", "gradient_x_input"),
        units=units,
        scores=tuple(given.pop("scores", None) or wave(len(units))),
        target=given.pop("target", Target(prediction.index, prediction.label)),
        prediction=prediction,
        parameters=given.pop(
            "parameters", {"steps": 50, "baseline": "mask", "seed": None, "rate": 1e-05, "fast": True}
        ),
        cost=given.pop("cost", Cost(51, 50, 49, 0.4213)),
        details=given.pop("details", {"base_value": -0.25}),
        model=given.pop("model", {"name": "tiny-classifier", "hash": "abc123"}),
        versions={"didact": "0.1.0"},
        **given,
    )


def wave(length: int) -> list[float]:
    """Scores of both signs and different sizes."""
    return [round((-1) ** unit * (unit + 1) / 10, 3) for unit in range(length)]
