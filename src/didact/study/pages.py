"""A planned page as it is shown: nothing on it tells which method made an explanation, or what the right answer is."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Literal

from didact.study import wording
from didact.study.design import Shown, StudyDesign
from didact.study.material import StudyMaterial
from didact.study.plan import LETTERS, Kind, PlannedPage
from didact.study.wording import PRACTICE, PracticeItem
from didact.types import Cost, Example, Explanation, Prediction, Span, Target, Units

TOP_SHARE = 0.1
"""Of the units that are marked where a study shows the top ones."""


@dataclass(frozen=True)
class StudyPage:
    """What to show, and what to ask for.

    Attributes:
        id: give it back with the answer; "" on the last page, which asks for nothing.
        kind: "consent" and "predict" take one of ``choices``, "rank" a rank for the name of each explanation (1 is the
            best, ties allowed), "survey" a text, "instructions" and "learn" "next"; "end" is the last page.
        title: heading.
        text: what to read, in plain text with line breaks.
        question: what to answer.
        example: the item, where there is one.
        prediction: what the model says of it, where raters may know.
        explanations: blind; each has its name on the page ("A", "B", ...) as method and nothing about its origin.
        choices: answers to choose from.
        feedback: on the practice page before.
        done: pages answered.
        total: pages in all.
    """

    id: str
    kind: Kind | Literal["end"]
    title: str
    text: str = ""
    question: str = ""
    example: Example | None = None
    prediction: str | None = None
    explanations: tuple[Explanation, ...] = ()
    choices: tuple[str, ...] = ()
    feedback: str = ""
    done: int = 0
    total: int = 0

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return {
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(self)},
            "example": None if self.example is None else self.example.to_dict(),
            "explanations": [explanation.to_dict() for explanation in self.explanations],
            "choices": list(self.choices),
        }


def shown(page: PlannedPage, design: StudyDesign, material: StudyMaterial) -> StudyPage:
    """The page without feedback and progress."""
    make = {
        "consent": _consent,
        "instructions": _instructions,
        "rank": _rank,
        "predict": _predict,
        "learn": _learn,
        "survey": _survey,
    }[page.kind]
    return make(page, design, material)


def feedback(page: PlannedPage, answer: object) -> str:
    """Feedback on an answer, shown on the page after it; "" but for practice."""
    if page.phase != "practice":
        return ""
    if page.kind == "predict":
        expected = page.expected[0]
        return wording.FEEDBACK_RIGHT if answer == expected else wording.FEEDBACK_PREDICT.format(expected=expected)
    best = page.expected[0]
    first = [label for label, rank in answer.items() if rank == 1] if isinstance(answer, dict) else []
    form = wording.FEEDBACK_RANK_RIGHT if first == [best] else wording.FEEDBACK_RANK
    return form.format(best=best, why=PRACTICE[int(page.item)].why)


def blind(explanation: Explanation, label: str, show: Shown) -> Explanation:
    """The explanation without anything that tells where it is from, with scores between -1 and 1."""
    scores = explanation.scores
    if show == "top":
        marked = max(1, math.ceil(TOP_SHARE * len(scores)))
        best = set(sorted(range(len(scores)), key=lambda at: -scores[at])[:marked])
        scores = tuple(float(at in best) for at in range(len(scores)))
    elif show == "support":
        scores = tuple(max(0.0, score) for score in scores)
    largest = max((abs(score) for score in scores), default=0.0) or 1.0
    units = explanation.units
    bare = Units(_bare(explanation.example), units.level, units.regions, (), units.truncated)
    return Explanation(
        method=label,
        units=bare,
        scores=tuple(score / largest for score in scores),
        target=dataclasses.replace(explanation.target, scale="logit"),
        prediction=explanation.prediction,
        signed=show == "signed",
        cost=Cost(),
    )


def _bare(example: Example) -> Example:
    """Without the gold answer and what people marked."""
    return Example(fields=example.fields)


def _consent(page: PlannedPage, design: StudyDesign, material: StudyMaterial) -> StudyPage:
    return StudyPage(page.id, "consent", design.title, design.consent, choices=("yes", "no"))


def _instructions(page: PlannedPage, design: StudyDesign, material: StudyMaterial) -> StudyPage:
    return StudyPage(page.id, "instructions", "What to do", design.instructions, choices=("next",))


def _survey(page: PlannedPage, design: StudyDesign, material: StudyMaterial) -> StudyPage:
    return StudyPage(page.id, "survey", "Almost done", question=wording.SURVEY)


def _rank(page: PlannedPage, design: StudyDesign, material: StudyMaterial) -> StudyPage:
    if page.phase == "practice":
        originals = _practised(PRACTICE[int(page.item)], page.order)
    else:
        originals = [material.items[page.item][name] for name in page.order]
    question = design.question
    if page.phase == "attention":
        question = wording.CHECK_RANK.format(order=", then ".join(page.expected))
    explanations = tuple(blind(each, LETTERS[at], design.show) for at, each in enumerate(originals))
    return StudyPage(
        page.id,
        "rank",
        _heading(page),
        question=question,
        example=_bare(originals[0].example),
        prediction=_answer_text(originals[0]),
        explanations=explanations,
        choices=tuple(LETTERS[: len(explanations)]),
    )


def _predict(page: PlannedPage, design: StudyDesign, material: StudyMaterial) -> StudyPage:
    question = wording.PREDICT
    if page.phase == "attention":
        question = wording.CHECK_PREDICT.format(expected=page.expected[0])
    example = _bare(next(iter(material.items[page.item].values())).example)
    return StudyPage(page.id, "predict", _heading(page), question=question, example=example, choices=material.labels())


def _learn(page: PlannedPage, design: StudyDesign, material: StudyMaterial) -> StudyPage:
    row = material.items[page.item]
    first = next(iter(row.values()))
    return StudyPage(
        page.id,
        "learn",
        "Learn",
        question=wording.LEARN_MARKED if page.order else wording.LEARN,
        example=_bare(first.example),
        prediction=_answer_text(first),
        explanations=tuple(blind(row[name], LETTERS[at], design.show) for at, name in enumerate(page.order)),
        choices=("next",),
    )


def _heading(page: PlannedPage) -> str:
    """The same for pages that count and those that check whether pages are read."""
    return "Practice" if page.phase == "practice" else "Rank" if page.kind == "rank" else "Foresee"


def _answer_text(explanation: Explanation) -> str:
    """The model's answer in words."""
    answer = explanation.prediction.answer
    if isinstance(answer, Span):
        source = explanation.example.fields[answer.field]
        return source[answer.start : answer.end] if isinstance(source, str) else ""
    return f"{answer:.3g}" if isinstance(answer, float) else str(answer)


def _practised(item: PracticeItem, order: tuple[str, ...]) -> list[Explanation]:
    places = [Span(match.start(), match.end()) for match in re.finditer(r"\w+", item.text)]
    units = Units(Example(item.text), "word", tuple(places))
    prediction = Prediction((item.predicted, "other"), (1.0, 0.0), (1.0, 0.0))
    made = []
    for name in order:
        marks = item.marks[int(name)]
        scores = tuple(float(text in marks) for text in units.texts)
        made.append(Explanation("practice", units, scores, Target(0, item.predicted), prediction))
    return made
