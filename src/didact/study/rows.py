"""Answers as rows, with what raters were not shown: what the analysis and the export begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from didact.study.design import StudyDesign
from didact.study.plan import Kind, Phase, PlannedPage
from didact.study.responses import Response
from didact.study.session import Study


@dataclass(frozen=True)
class StudyAnswer:
    """One answer.

    Attributes:
        rater: pseudonym.
        arm: of the rater, in *simulate*.
        page: of the rater.
        kind: what the page asks for.
        phase: what it was for.
        item: what it was about.
        order: explainers of its explanations from A on.
        expected: the right answer, where there is one.
        answer: as it was given.
        seconds: on the page, without pauses before it; None where that is not known.
        minutes: between joining and answering.
    """

    rater: str
    arm: str
    page: str
    kind: Kind
    phase: Phase
    item: str
    order: tuple[str, ...]
    expected: tuple[str, ...]
    answer: Response
    seconds: float | None = None
    minutes: float = 0.0

    @classmethod
    def of(cls, page: PlannedPage, answer: Response, rater: str, arm: str = "") -> StudyAnswer:
        """An answer to a planned page."""
        return cls(rater, arm, page.id, page.kind, page.phase, page.item, page.order, page.expected, answer)

    @property
    def is_right(self) -> bool | None:
        """Whether it is the expected answer; None where nothing is expected."""
        if not self.expected:
            return None
        if isinstance(self.answer, dict):
            ranked = [self.answer[name] for name in self.expected]
            if self.phase == "practice":  # what is best is beyond doubt, the rest is not
                return ranked[0] == 1 and ranked.count(1) == 1
            return ranked == list(range(1, len(ranked) + 1))
        return self.answer == self.expected[0]

    @property
    def ranks(self) -> dict[str, int]:
        """Explainer -> its rank; empty where nothing was ranked."""
        if not isinstance(self.answer, dict) or self.phase == "practice":
            return {}
        return {name: self.answer[label] for name, label in zip(self.order, self.answer, strict=True)}


def read_answers(study: Study) -> list[StudyAnswer]:
    """All answers of a study in the order in which they came; raters who did not agree have none."""
    raters = study.raters()
    answers = []
    for event in study.ledger.reading().all("answered"):
        if event.rater not in raters:
            continue  # deleted since the raters were read
        joined, pages = raters[event.rater]
        page, body = pages[event.page], event.body
        values = vars(StudyAnswer.of(page, body["answer"], event.rater, joined.body["arm"]))
        times = {"seconds": body["seconds"], "minutes": round((event.time - joined.time) / 60, 2)}
        answers.append(StudyAnswer(**{**values, **times}))
    declined = {row.rater for row in answers if row.kind == "consent" and row.answer == "no"}
    return [row for row in answers if row.rater not in declined]


@dataclass(frozen=True)
class AttentionChecks:
    """How attentive a rater was.

    Attributes:
        passed: attention checks that were answered as requested.
        failed: those answered otherwise.
        kept: whether the rater is part of the analysis.
    """

    passed: int
    failed: int
    kept: bool


def attention(rows: Iterable[StudyAnswer], design: StudyDesign) -> dict[str, AttentionChecks]:
    """Rater -> attention; who fails more than the design's share is left out."""
    seen: dict[str, list[bool]] = {}
    for row in rows:
        results = seen.setdefault(row.rater, [])
        if row.phase == "attention":
            results.append(bool(row.is_right))
    return {
        rater: AttentionChecks(sum(each), len(each) - sum(each), each.count(False) <= design.failed * len(each))
        for rater, each in seen.items()
    }


def answered_twice(rows: Sequence[StudyAnswer], before: Phase, after: Phase) -> list[tuple[StudyAnswer, StudyAnswer]]:
    """Answers of the same rater to the same item in two phases."""
    first = {(row.rater, row.item): row for row in rows if row.phase == before}
    second = [row for row in rows if row.phase == after and (row.rater, row.item) in first]
    return [(first[row.rater, row.item], row) for row in second]


def codes(values: Sequence[str]) -> dict[str, int]:
    """Names -> numbers from zero, in order of first appearance."""
    return {name: number for number, name in enumerate(dict.fromkeys(values))}


def median_seconds(rows: Iterable[StudyAnswer]) -> Mapping[str, float]:
    """Rater -> median of the seconds on a page that counts."""
    spent: dict[str, list[float]] = {}
    for row in rows:
        if row.seconds is not None and row.phase in ("main", "repeat", "pre", "post"):
            spent.setdefault(row.rater, []).append(row.seconds)
    return {rater: sorted(each)[len(each) // 2] for rater, each in spent.items()}
