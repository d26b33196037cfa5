"""Whether students learn faster from an explainer's explanations, in one sentence.

Fresh students imitate the explained model: some see the explainer's explanations of their training texts, some those of
the mean of all attention heads, some none. They are tested on held-out texts while they learn. The area is the mean of
their metric over the learning curve, the end its last value; differences are between students with the same training
texts and first weights, with intervals over students and texts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from didact.trained.held_out_numbers import HeldOutNumbers, ends

TeachingVerdict = Literal["leads", "teaches", "chance", "unknown"]


@dataclass(frozen=True)
class HeldOutTeaching(HeldOutNumbers):
    """What an explainer's explanations do for fresh students, beside none and the mean of all heads.

    Attributes:
        n: held-out texts that the students were tested on.
        students: per explanation.
        examples: training texts of a student.
        area: with the explainer's explanations.
        area_of_mean: with those of the mean of all heads.
        area_of_none: without any.
        gain: in area over the mean of all heads.
        low: lower end of its 95 % interval; NaN where there is none.
        high: upper end.
        gain_over_none: in area over none.
        low_over_none: lower end of its interval.
        high_over_none: upper end.
        end: metric after the last epoch.
        end_of_mean: the same with the mean of all heads.
        end_of_none: the same without explanations.
        end_gain: over the mean of all heads.
        end_low: lower end of its interval.
        end_high: upper end.
    """

    title: ClassVar[str] = "a comparison of students"

    n: int
    students: int
    examples: int
    area: float
    area_of_mean: float
    area_of_none: float
    gain: float
    low: float
    high: float
    gain_over_none: float
    low_over_none: float
    high_over_none: float
    end: float
    end_of_mean: float
    end_of_none: float
    end_gain: float
    end_low: float
    end_high: float

    @classmethod
    def unknown(cls) -> HeldOutTeaching:
        """Nothing was measured."""
        return cls(0, 0, 0, *[math.nan] * 15)

    @property
    def verdict(self) -> TeachingVerdict:
        """Whether the area is above that of none ("teaches"), and above the mean of all heads too ("leads")."""
        if math.isnan(self.low_over_none):
            return "unknown"
        if self.low_over_none <= 0:
            return "chance"
        return "leads" if self.low > 0 else "teaches"

    @property
    def sentence(self) -> str:
        """The verdict with the numbers that it rests on."""
        if not self.n:
            return "No students on held-out texts: it is not known whether they learn from this explainer."
        return (
            f"{_VERDICTS[self.verdict]}: area under the learning curve {self.area:.3f} with its explanations, "
            f"{self.area_of_mean:.3f} with the mean of all heads (gain {self.gain:+.3f} "
            f"[{ends(self.low, self.high, 3)}]) and {self.area_of_none:.3f} with none (gain {self.gain_over_none:+.3f} "
            f"[{ends(self.low_over_none, self.high_over_none, 3)}]); at the end {self.end:.3f}, {self.end_of_mean:.3f} "
            f"and {self.end_of_none:.3f}. {self.students} students each, {self.examples:,} training texts, {self.n:,} "
            "held-out texts."
        )

    @property
    def caution(self) -> str:
        """What whoever uses the explainer has to know; empty where its explanations teach."""
        advice = "train it with more texts or students, or look at its heads one by one"
        return "" if self.verdict in ("leads", "teaches") else f"{self.sentence[:-1]}; {advice}."

    @property
    def scores(self) -> dict[str, float]:
        """Areas and ends by readable names."""
        return {
            "area with its explanations": self.area,
            "area with the mean of all heads": self.area_of_mean,
            "area without explanations": self.area_of_none,
            "end with its explanations": self.end,
            "end with the mean of all heads": self.end_of_mean,
            "end without explanations": self.end_of_none,
        }


_VERDICTS = {
    "leads": "Students learn faster with this explainer than without, and faster than with the mean of all heads",
    "teaches": "Students learn faster with this explainer than without, but not significantly faster than with the "
    "mean of all heads",
    "chance": "Students learn no faster with this explainer than without",
    "unknown": "There are too few students to tell whether they learn faster with this explainer",
}
