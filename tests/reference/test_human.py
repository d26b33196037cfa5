"""Human against a character-by-character reading of the rationale."""

import pytest

from didact.attribution.human import Human
from didact.errors import InputError
from didact.models.load import load_model
from didact.testing.tiny import keyword_predict
from didact.types import Example, Level, Span
from tests.reference.plain import text_model


@pytest.mark.parametrize("level", ["word", "token"])
def test_human_marks_what_the_rationale_overlaps(level: Level) -> None:
    text = "An unforgettable evening"
    example = Example(text, rationale=(Span(5, 8), Span(23, 24)))
    (found,) = Human(level=level).explain(text_model("bert"), [example])
    for span, score in zip(found.units.spans, found.scores, strict=True):
        inside = any(character in (5, 6, 7, 23) for character in range(span.start, span.end))
        assert score == float(inside)
    if level == "word":
        assert found.scores == (0.0, 1.0, 1.0)


def test_human_keeps_the_fields_of_a_pair_apart() -> None:
    example = Example("good food", "dull plot", rationale=(Span(0, 4, 1),))
    (found,) = Human().explain(text_model("bert", inputs="pair"), [example])
    assert found.scores == (0.0, 0.0, 1.0, 0.0)


def test_human_names_the_example_without_a_rationale() -> None:
    model = load_model(keyword_predict, labels=["negative", "positive"])
    with pytest.raises(InputError, match=r"review-7: 'a dull plot' has no human rationale"):
        Human().explain(model, [Example("a dull plot", id="review-7")])
    (empty,) = Human().explain(model, [Example("a dull plot", rationale=())])
    assert empty.scores == (0.0, 0.0, 0.0)
