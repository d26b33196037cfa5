"""Raters with planted preferences, who go through a whole study as people would: to try one before people do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from didact.data.corpus import generate
from didact.study.design import StudyDesign
from didact.study.material import StudyMaterial
from didact.study.plan import PlannedPage, planned
from didact.study.responses import Response
from didact.study.rows import StudyAnswer
from didact.study.session import Study
from didact.types import Explanation, Prediction, Span, Target, Units


@dataclass(frozen=True, kw_only=True)
class PlantedRaters:
    """What simulated raters prefer and know.

    An explainer's value on an item is its worth, plus what the rater and the item add to it, plus chance (Gumbel's
    distribution, so that rankings follow the Plackett-Luce model where raters and items add nothing).

    Attributes:
        worths: by explainer.
        between_raters: standard deviation of what a rater adds to an explainer's worth.
        between_items: of what an item adds.
        tie: explanations whose values are closer than this get the same rank.
        accuracy: share of right answers before learning.
        gains: by arm, what learning adds to it.
        careful: probability of doing what an attention check asks for.
        seed: decides all answers, with the rater's number and the page.
    """

    worths: Mapping[str, float] = field(default_factory=dict)
    between_raters: float = 0.3
    between_items: float = 0.3
    tie: float = 0.1
    accuracy: float = 0.6
    gains: Mapping[str, float] = field(default_factory=dict)
    careful: float = 0.98
    seed: int = 0

    def respond(self, page: PlannedPage, number: int, arm: str, labels: Sequence[str]) -> Response:
        """The answer to a page, the same every time.

        Args:
            page: with what people are not shown.
            number: of the rater.
            arm: of the rater.
            labels: classes to choose from.
        """
        rng = _chance(self.seed, "page", number, page.id)
        letters = "ABCDEFGH"[: len(page.order)]
        if page.kind == "rank":
            if page.phase != "main" and page.phase != "repeat" and rng.random() < self.careful:
                return {name: 1 + page.expected.index(name) for name in letters}
            return dict(zip(letters, self._ranks(page, number, rng), strict=True))
        if page.kind == "predict":
            return self._predicted(page, number, arm, labels, rng)
        return {"consent": "yes", "survey": ""}.get(page.kind, "next")

    def rows(self, design: StudyDesign, material: StudyMaterial) -> list[StudyAnswer]:
        """All answers of the planned raters, rater by rater, without a database."""
        rows = []
        for number in range(design.raters):
            arm = design.arms[number % len(design.arms)]
            for page in planned(design, material, number, arm):
                answer = self.respond(page, number, arm, material.labels())
                rows.append(StudyAnswer.of(page, answer, f"r-{number:04d}", arm))
        return rows

    def _ranks(self, page: PlannedPage, number: int, rng: np.random.Generator) -> list[int]:
        values = np.array([self._value(name, page.item, number) for name in page.order]) + rng.gumbel(
            size=len(page.order)
        )
        ranks, rank, before = [0] * len(values), 0, np.inf
        for place in np.argsort(-values).tolist():
            rank += int(before - values[place] >= self.tie)
            ranks[place], before = max(1, rank), values[place]
        return ranks

    def _value(self, name: str, item: str, number: int) -> float:
        by_rater = self.between_raters * _deviation(self.seed, "rater", number, name)
        by_item = self.between_items * _deviation(self.seed, "item", item, name)
        return float(self.worths.get(name, 0.0) + by_rater + by_item)

    def _predicted(
        self, page: PlannedPage, number: int, arm: str, labels: Sequence[str], rng: np.random.Generator
    ) -> str:
        if page.phase == "attention":
            chance = self.careful
        else:
            learned = self.gains.get(arm, 0.0) if page.phase == "post" else 0.0
            ability = 0.05 * (_deviation(self.seed, "ability", number) + _deviation(self.seed, "hard", page.item))
            chance = float(np.clip(self.accuracy + learned + ability, 0.02, 0.98))
        wrong = [label for label in labels if label != page.expected[0]]
        return page.expected[0] if rng.random() < chance or not wrong else str(rng.choice(wrong))


def go_through(study: Study, code: str, raters: PlantedRaters, number: int) -> Iterator[tuple[str, Response]]:
    """Answer every page that is open with this code; yields each page and answer once it is stored.

    Args:
        study: on disk.
        code: an invitation.
        raters: who answer.
        number: of the rater that is imitated: the same one gives the same answers again after a break.
    """
    token = study.join(code).token
    page = study.next(token)
    while page.id:
        plan, arm = study.key(token, page.id)
        response = raters.respond(plan, number, arm, study.material.labels())
        following = study.answer(token, page.id, response)
        yield page.id, response
        page = following


def made_up_explanations(explainers: Sequence[str], count: int, seed: int = 0) -> dict[str, list[Explanation]]:
    """Explanations with random scores of synthetic reviews, half of them predicted to be positive."""
    rng = np.random.default_rng(seed)
    examples = generate(count, seed=seed)
    made: dict[str, list[Explanation]] = {name: [] for name in explainers}
    for number, example in enumerate(examples):
        text, spans, start = example.text, [], 0
        for word in text.split():
            start = text.index(word, start)
            spans.append(Span(start, start + len(word)))
            start += len(word)
        units = Units(example, "word", tuple(spans))
        outputs = (0.0, 1.0) if number % 2 else (1.0, 0.0)
        prediction = Prediction(("negative", "positive"), outputs, tuple(0.27 + 0.46 * each for each in outputs))
        target = Target(prediction.index, prediction.label)
        for name in explainers:
            scores = tuple(rng.normal(size=len(spans)).tolist())
            made[name].append(Explanation(name, units, scores, target, prediction))
    return made


def _chance(*names: object) -> np.random.Generator:
    """The same numbers for the same names, in every process."""
    digest = hashlib.sha256(repr(names).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


@lru_cache(maxsize=65_536)
def _deviation(*names: object) -> float:
    return float(_chance(*names).normal())
