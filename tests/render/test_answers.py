"""Answers, and the words that labels are about, in every output."""

import pytest

from didact.render import answers, facts
from didact.render.html import page, read_page
from didact.render.latex import latex
from didact.render.pieces import pieces
from didact.render.terminal import terminal_text
from didact.types import Example, Explanation, Prediction, Span, Target, Units

FIELDS = "Who wrote it?", "Ann <Lee> wrote it."
WORDS = (Span(0, 3), Span(4, 9), Span(0, 3, 1), Span(4, 9, 1), Span(10, 15, 1))
LABELS = ("answer", "no answer")
ANN = Span(0, 9, 1)


def answer(
    target: Target, extract: Span = ANN, outputs: tuple[float, ...] = (-0.5, -2.0), label: object = None
) -> Explanation:
    example = Example(*FIELDS, label=label)  # type: ignore[arg-type]
    labels = (*LABELS, "given answer")[: len(outputs)]
    prediction = Prediction(labels, outputs, extract=extract)
    return Explanation("occlusion", Units(example, "word", WORDS), (0.1, 0.9, 0.5, -0.5, 0.0), target, prediction)


PREDICTED = answer(Target(0, "answer", "log_probability", ANN), label=(ANN, Span(0, 3, 1), ANN))
GIVEN = answer(Target(2, "given answer", "log_probability", Span(10, 15, 1)), outputs=(-0.5, -2.0, -3.0))
NONE = answer(Target(1, "no answer", "log_probability"), Span(0, 0, 1), (-2.0, -0.5))
WORD = Explanation(
    "occlusion",
    Units(Example("Ann wrote it"), "word", (Span(0, 3), Span(4, 9))),
    (0.5, 0.1),
    Target(1, "PER", "logit", Span(0, 3)),
    Prediction(("O", "PER"), (0.0, 2.0), (0.12, 0.88), Span(0, 3)),
)


@pytest.mark.parametrize(
    ("explanation", "predicted", "target"),
    [
        (PREDICTED, "“Ann <Lee>”", "“Ann <Lee>”, log-probability -0.5"),
        (GIVEN, "“Ann <Lee>”", "“wrote”, log-probability -3, not the predicted answer (5.0 %)"),
        (NONE, "no answer", "no answer, log-probability -0.5"),
        (WORD, "PER of “Ann”", "PER of “Ann”, logit 2"),
    ],
)
def test_what_is_predicted_and_what_is_explained(explanation: Explanation, predicted: str, target: str) -> None:
    assert answers.predicted(explanation) == predicted
    assert facts.target(explanation) == target
    assert facts.certainty(explanation) == ("88.0 %" if explanation is WORD else "60.7 %")
    assert facts.meaning(explanation)[0] == f"supports {target.split(',')[0]}"
    shown = terminal_text([explanation], colour=False)
    assert predicted in shown
    assert read_page(page([explanation])) == [explanation]
    assert answers.predicted(explanation).strip("“”").split()[0] in latex([explanation])


def test_gold_answers() -> None:
    assert answers.gold(PREDICTED.example) == "“Ann <Lee>” or “Ann”"
    assert answers.gold(Example(*FIELDS, label=Span(10, 15, 1))) == "“wrote”"
    assert answers.gold(Example(*FIELDS, label=())) == "no answer"
    assert answers.gold(Example("a text", label="good")) == "good"


def test_fields_are_question_and_passage_where_the_answer_is_a_span() -> None:
    assert [facts.field_name(PREDICTED, field) for field in (0, 1)] == ["question", "passage"]
    assert facts.field_name(WORD, 0) == "text"
    assert "passage  Ann <Lee> wrote it." in terminal_text([PREDICTED], colour=False)


def test_the_explained_answer_is_marked_where_it_stands() -> None:
    marked = {field: [piece.text for piece in pieces(PREDICTED, field) if piece.marked] for field in (0, 1)}
    assert marked == {0: [], 1: ["Ann", " ", "<Lee>"]}
    assert '<b class="answer">&lt;Lee&gt;</b>' in page([PREDICTED])
    assert "\\textbf{" in latex([PREDICTED])
    assert "\x1b[1m" in terminal_text([PREDICTED]) or "\x1b[1;" in terminal_text([PREDICTED])
    assert "".join(piece.text for piece in pieces(PREDICTED, 1)) == FIELDS[1]
