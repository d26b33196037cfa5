"""Which pages a rater goes through, in which order, and in which order explanations stand on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from didact.study.design import NONE, StudyDesign
from didact.study.material import StudyMaterial
from didact.study.orders import balanced_orders
from didact.study.wording import PRACTICE
from didact.validation import list_value, object_value, text_value

Kind = Literal["consent", "instructions", "rank", "predict", "learn", "survey"]
"""What a page asks for."""
Phase = Literal["consent", "instructions", "practice", "main", "repeat", "attention", "pre", "learn", "post", "survey"]
"""What a page is for."""

LETTERS = "ABCDEFGH"
"""What explanations are called on a page."""


@dataclass(frozen=True)
class PlannedPage:
    """A page of one rater, with what raters are not shown.

    Attributes:
        id: names it among the rater's pages.
        kind: what it asks for.
        phase: what it is for.
        item: what it is about; "" where it is about none.
        order: explainers of its explanations from A on.
        expected: the right answer, where there is one: labels from the best to the worst, or a class.
    """

    id: str
    kind: Kind
    phase: Phase
    item: str = ""
    order: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, data: object) -> PlannedPage:
        """Inverse of ``to_dict``."""
        plain = object_value(data, "a planned page", [field.name for field in dataclasses.fields(cls)], ())
        texts = {name: text_value(plain[name], name) for name in ("id", "kind", "phase", "item")}
        lists = {
            name: tuple(text_value(each, name) for each in list_value(plain[name], name))
            for name in ("order", "expected")
        }
        return cls(**texts, **lists)  # type: ignore[arg-type] # texts that plan itself wrote


def planned(design: StudyDesign, material: StudyMaterial, number: int, arm: str) -> list[PlannedPage]:
    """All pages of the rater with this number, who belongs to an arm of the design."""
    rng = np.random.default_rng([design.seed, 2, number])
    make = _rank_pages if design.protocol == "rank" else _simulate_pages
    pages = [
        PlannedPage("", "consent", "consent"),
        PlannedPage("", "instructions", "instructions"),
        *make(design, material, rng, arm),
        PlannedPage("", "survey", "survey"),
    ]
    return [dataclasses.replace(page, id=f"p{at:03d}") for at, page in enumerate(pages)]


def _rank_pages(design: StudyDesign, material: StudyMaterial, rng: np.random.Generator, arm: str) -> list[PlannedPage]:
    items = [list(material.items)[at] for at in rng.permutation(len(material.items))]
    sequence: list[tuple[str, Phase]] = [(item, "main") for item in items]
    half = len(items) // 2
    for item in rng.permutation(items[:half])[: design.repeats].tolist():
        sequence.insert(int(rng.integers(half + 1, len(sequence) + 1)), (item, "repeat"))
    orders = balanced_orders(design.explainers, len(sequence), rng)
    pages = [PlannedPage("", "rank", phase, item, order) for (item, phase), order in zip(sequence, orders, strict=True)]
    practice = [_practice_rank(number, rng) for number in range(min(design.practice, len(PRACTICE)))]
    return [*practice, *_with_checks(pages, design, material, rng)]


def _simulate_pages(
    design: StudyDesign, material: StudyMaterial, rng: np.random.Generator, arm: str
) -> list[PlannedPage]:
    items = list(material.items)
    tested, learned = items[: design.items], items[design.items : design.items + design.learning]
    practised = items[design.items + design.learning :]

    def test_pages(names: Sequence[str], phase: Phase) -> list[PlannedPage]:
        drawn = [names[at] for at in rng.permutation(len(names))]
        return [PlannedPage("", "predict", phase, item, (), (material.predicted(item),)) for item in drawn]

    order = () if arm == NONE else (arm,)
    learning_pages = [PlannedPage("", "learn", "learn", learned[at], order) for at in rng.permutation(len(learned))]
    return [
        *test_pages(practised, "practice"),
        *_with_checks(test_pages(tested, "pre"), design, material, rng),
        *learning_pages,
        *_with_checks(test_pages(tested, "post"), design, material, rng),
    ]


def _practice_rank(number: int, rng: np.random.Generator) -> PlannedPage:
    """A made-up item; its explanations are named by their place in the list of marks, 0 being the best."""
    order = tuple(str(place) for place in rng.permutation(len(PRACTICE[number].marks)))
    best_first = sorted(range(len(order)), key=lambda place: int(order[place]))
    return PlannedPage("", "rank", "practice", str(number), order, tuple(LETTERS[place] for place in best_first))


def _with_checks(
    pages: Sequence[PlannedPage], design: StudyDesign, material: StudyMaterial, rng: np.random.Generator
) -> list[PlannedPage]:
    """An attention check after every so many pages, which looks like the page before it."""
    result: list[PlannedPage] = []
    for at, page in enumerate(pages, start=1):
        result.append(page)
        if design.check_every and at % design.check_every == 0:
            options = LETTERS[: len(page.order)] if page.kind == "rank" else material.labels()
            drawn = [options[place] for place in rng.permutation(len(options))]
            expected = tuple(drawn if page.kind == "rank" else drawn[:1])
            result.append(dataclasses.replace(page, phase="attention", expected=expected))
    return result
