"""What a study is: its protocol, explainers, sizes, texts and seed, fixed before anybody answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from didact.errors import FormatError, ParameterError
from didact.study import wording
from didact.validation import check_unicode, finite_number, list_value, object_value, text_value, whole_number

Protocol = Literal["rank", "simulate"]
PROTOCOLS: tuple[Protocol, ...] = ("rank", "simulate")
Shown = Literal["support", "signed", "top"]
SHOWN: tuple[Shown, ...] = ("support", "signed", "top")

NONE = "none"
"""The arm of *simulate* whose raters learn without explanations."""
CONTROL = "random"
"""The explainer that knows nothing: what raters prefer no explanation to is not understood."""
MOST = 8
"""Explanations on one page: more can hardly be ranked."""
LONGEST = 20_000
"""Characters of a text that raters read."""


@dataclass(frozen=True, kw_only=True)
class StudyDesign:
    """The plan of a study.

    Attributes:
        protocol: "rank" (explanations side by side) or "simulate" (predict the model, learn, predict again).
        explainers: whose explanations are shown, the planted control among them.
        items: ranked items; in *simulate*, items of the test before and after.
        learning: items that raters of *simulate* learn from.
        practice: pages with feedback before it counts.
        check_every: an attention check after so many pages; 0 for none.
        repeats: items that are ranked twice, for agreement of raters with themselves.
        failed: share of failed attention checks above which a rater is left out of the analysis.
        show: "support" (evidence for the prediction, all in one colour), "signed" (also evidence against), or "top"
            (the highest tenth of the units, marked alike).
        raters: how many are planned.
        seed: decides items and orders.
        title: of the study.
        question: of *rank*.
        consent: what raters agree to.
        instructions: what they do.
    """

    protocol: Protocol
    explainers: tuple[str, ...]
    items: int = 60
    learning: int = 20
    practice: int = 2
    check_every: int = 15
    repeats: int = 6
    failed: float = 0.5
    show: Shown = "support"
    raters: int = 20
    seed: int = 0
    title: str = ""
    question: str = wording.QUESTION
    consent: str = wording.CONSENT
    instructions: str = ""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ParameterError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {self.protocol!r:.60}")
        if self.show not in SHOWN:
            raise ParameterError(f"show must be one of {', '.join(SHOWN)}, got {self.show!r:.60}")
        self._check_explainers()
        lowest = {"items": 2, "learning": 1, "practice": 0, "check_every": 0, "repeats": 0, "raters": 1, "seed": 0}
        for name, low in lowest.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= 100_000:
                raise ParameterError(f"{name} must be a whole number from {low} to 100,000, got {value!r:.60}")
        if self.protocol == "rank" and self.repeats > self.items // 2:
            raise ParameterError(f"repeats must be at most half of the {self.items} items, got {self.repeats}")
        if not 0 <= self.failed <= 1:
            raise ParameterError(f"failed must be a share from 0 to 1, got {self.failed!r:.60}")
        for name in ("title", "question", "consent", "instructions"):
            check_unicode(getattr(self, name), name)
            if len(getattr(self, name)) > LONGEST:
                raise ParameterError(f"{name} may have {LONGEST:,} characters, got {len(getattr(self, name)):,}")
        for name, usual in (("title", wording.TITLES), ("instructions", wording.INSTRUCTIONS)):
            if not getattr(self, name):
                object.__setattr__(self, name, usual[self.protocol])

    @property
    def arms(self) -> tuple[str, ...]:
        """What raters are divided into: in *simulate* one explainer each, or none; in *rank* nothing."""
        return (NONE, *self.explainers) if self.protocol == "simulate" else ("",)

    @property
    def needed(self) -> int:
        """Items that the material must have."""
        return self.items if self.protocol == "rank" else self.items + self.learning + self.practice

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return {**dataclasses.asdict(self), "explainers": list(self.explainers)}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> StudyDesign:
        """Inverse of ``to_dict``."""
        names = [field.name for field in dataclasses.fields(cls)]
        plain = dict(object_value(data, "design", names, ()))
        for name in ("items", "learning", "practice", "check_every", "repeats", "raters", "seed"):
            whole_number(plain[name], name)
        for name in ("protocol", "show", "title", "question", "consent", "instructions"):
            text_value(plain[name], name)
        plain["failed"] = finite_number(plain["failed"], "failed", 0, 1)
        plain["explainers"] = tuple(
            text_value(each, "an explainer") for each in list_value(plain["explainers"], "them")
        )
        try:
            return cls(**plain)  # type: ignore[arg-type] # checked above
        except ParameterError as problem:
            raise FormatError(f"not the design of a study: {problem}") from None

    def _check_explainers(self) -> None:
        fewest = 2 if self.protocol == "rank" else 1
        if not fewest <= len(self.explainers) <= MOST or len(set(self.explainers)) < len(self.explainers):
            raise ParameterError(
                f"a study to {self.protocol} takes {fewest} to {MOST} different explainers with the control; got "
                f"{', '.join(self.explainers) or 'none'}"
            )
        if NONE in self.explainers:
            raise ParameterError(f"{NONE!r} names the raters without explanations; give that explainer another label")
