"""What the owner of a study sees: progress and quality of raters, the analysis, and what it says in sentences."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from didact.errors import CapabilityError
from didact.study.design import CONTROL, NONE, StudyDesign
from didact.study.gains import GainResults, analyse_gains
from didact.study.rankings import RankResults, analyse_rankings
from didact.study.registration import Registration
from didact.study.rows import StudyAnswer, attention, median_seconds, read_answers
from didact.study.session import Study
from didact.study.skill import SkillRating, skill_ratings

WARNING = "Warning: "
HASTY = 2.0
"""Seconds: raters whose median page takes less are pointed out."""


@dataclass(frozen=True)
class RaterProgress:
    """How far a rater is, and how the rater works.

    Attributes:
        rater: pseudonym.
        arm: in *simulate*.
        done: pages answered.
        total: pages in all.
        passed: attention checks that were answered as requested.
        failed: those answered otherwise.
        kept: whether the rater is part of the analysis.
        seconds: median on a page; None before the first page that counts.
    """

    rater: str
    arm: str
    done: int
    total: int
    passed: int
    failed: int
    kept: bool
    seconds: float | None

    @property
    def finished(self) -> bool:
        """Whether all pages are answered."""
        return self.done == self.total


@dataclass(frozen=True)
class StudyResults:
    """The results of a study so far; of the two protocols' analyses one is there.

    Attributes:
        design: of the study.
        registration: whether it was fixed before the first answer, and still stands.
        raters: who has joined and agreed.
        invited: codes that are valid.
        rank: the analysis of *rank*; None before the first ranking that counts.
        gains: the analysis of *simulate*; None before a rater has answered an item in both tests.
        everyone: the same analysis with the raters who are left out; None where none are.
        skill: SMaT's ratings, which depend on the order of answers; empty without openskill, and in *simulate*.
    """

    design: StudyDesign
    registration: Registration
    raters: tuple[RaterProgress, ...]
    invited: int
    rank: RankResults | None = None
    gains: GainResults | None = None
    everyone: RankResults | GainResults | None = None
    skill: Mapping[str, SkillRating] = dataclasses.field(default_factory=dict)

    @property
    def sentences(self) -> list[str]:
        """What the results say, warnings first."""
        sentences = _rank_sentences(self.rank) if self.rank else _gain_sentences(self.gains) if self.gains else []
        return [*self.warnings, *(sentences or ["There are no answers yet that the analysis could use."])]

    @property
    def warnings(self) -> list[str]:
        """Reasons for caution: a changed preregistration, and raters who are inattentive, hasty or not done."""
        left_out = [each for each in self.raters if not each.kept]
        hasty = [each for each in self.raters if each.seconds is not None and each.seconds < HASTY]
        open_raters = [each for each in self.raters if not each.finished]
        fixed = self.registration.unchanged is not False
        notes = [
            "" if fixed else "the preregistration was changed after the first rater had joined; its first text is kept",
            _counted(left_out, "left out of the analysis: too many attention checks failed"),
            _counted(hasty, f"taking less than {HASTY:.0f} seconds for half of the pages"),
            _counted(open_raters, "not finished: looking at results before the end makes chance findings more likely"),
        ]
        return [WARNING + note for note in notes if note]

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values, null where there is no number."""
        plain = {name: _plain(getattr(self, name)) for name in ("registration", "raters", "rank", "gains", "everyone")}
        return {
            "sentences": self.sentences,
            "design": self.design.to_dict(),
            "invited": self.invited,
            **plain,
            "skill": {name: _plain(rating) for name, rating in self.skill.items()},
        }


def study_progress(study: Study) -> StudyResults:
    """Who has joined and how they work, without any analysis: whoever waits for raters need not look at results."""
    return _unanalysed(study, read_answers(study))


def study_results(study: Study, *, resamples: int = 1000) -> StudyResults:
    """Read and analyse a study, at any time.

    Args:
        study: on disk.
        resamples: of the bootstrap.
    """
    design, rows = study.design, read_answers(study)
    checks = attention(rows, design)
    kept = [row for row in rows if checks[row.rater].kept]
    rank = analyse_rankings(kept, design.explainers, resamples=resamples) if design.protocol == "rank" else None
    gains = analyse_gains(kept, design.arms, resamples=resamples) if design.protocol == "simulate" else None
    return dataclasses.replace(
        _unanalysed(study, rows),
        rank=rank,
        gains=gains,
        everyone=None if len(kept) == len(rows) else _analysed(rows, design, resamples),
        skill=_skill(kept, design) if rank else {},
    )


def _unanalysed(study: Study, rows: Sequence[StudyAnswer]) -> StudyResults:
    invited = len(study.ledger.reading().all("invited"))
    return StudyResults(study.design, study.registration(), _progress(study, rows), invited)


def _progress(study: Study, rows: Sequence[StudyAnswer]) -> tuple[RaterProgress, ...]:
    checks, seconds = attention(rows, study.design), median_seconds(rows)
    done = {rater: sum(row.rater == rater for row in rows) for rater in checks}
    return tuple(
        RaterProgress(
            rater,
            joined.body["arm"],
            done[rater],
            len(pages),
            checks[rater].passed,
            checks[rater].failed,
            checks[rater].kept,
            seconds.get(rater),
        )
        for rater, (joined, pages) in study.raters().items()
        if rater in checks
    )


def _analysed(rows: Sequence[StudyAnswer], design: StudyDesign, resamples: int) -> RankResults | GainResults | None:
    if design.protocol == "rank":
        return analyse_rankings(rows, design.explainers, resamples=resamples)
    return analyse_gains(rows, design.arms, resamples=resamples)


def _skill(rows: Sequence[StudyAnswer], design: StudyDesign) -> dict[str, SkillRating]:
    try:
        return skill_ratings(rows, design.explainers, design.seed)
    except CapabilityError:  # a column less
        return {}


def _rank_sentences(results: RankResults) -> list[str]:
    names = [each.name for each in results.explainers]
    first = names[0]
    beaten = results.beats(first)
    rivals = [name for name in names[1:] if name not in beaten]
    if not rivals:
        lead = f"Raters prefer {first} to every other explainer."
    else:
        lead = f"No explainer is significantly first: {_listed([first, *rivals])} are not significantly different."
    sentences = [lead]
    sentences += [
        f"{first} stands before {pair.second} in {pair.share:.0%} of the rankings (ties count as half)."
        for pair in results.pairs
        if pair.first == first and pair.significant
    ]
    if CONTROL in names:
        better = [name for name in names if CONTROL in results.beats(name)]
        same = [name for name in names if name not in better and name != CONTROL]
        if same:
            sentences.append(f"{WARNING}raters do not significantly prefer {_listed(same)} to random scores.")
    sentences.append(
        f"Agreement between raters is {_number(results.between.value)} (Kendall's tau-b, 0 for chance), with "
        f"themselves {_number(results.within.mean)}."
    )
    return sentences


def _gain_sentences(results: GainResults) -> list[str]:
    helping = [arm.arm for arm in results.arms if arm.helps]
    sentences = []
    for arm in results.arms:
        if arm.helps and arm.over_none is not None:
            over = arm.over_none
            sentences.append(
                f"Explanations by {arm.arm} help: raters gain {100 * over.value:.1f} points of accuracy more than "
                f"without any [{100 * over.low:.1f}, {100 * over.high:.1f}]."
            )
    if not helping:
        sentences.append(
            "No explainer significantly helps raters to predict the model: no gain differs from that without any."
        )
    if CONTROL in helping:
        sentences.append(f"{WARNING}random scores help too, so gains do not come from what is marked.")
    few = [arm.arm for arm in results.arms if arm.raters < 3]
    if few:
        sentences.append(f"{WARNING}fewer than three raters in {_listed(few)}: no interval, no test.")
    if not any(arm.arm == NONE for arm in results.arms):
        sentences.append(f"{WARNING}nobody has learned without explanations yet, so there is nothing to compare with.")
    return sentences


def _counted(raters: Sequence[RaterProgress], what: str) -> str:
    return f"{len(raters)} {'rater is' if len(raters) == 1 else 'raters are'} {what}" if raters else ""


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "not known"


def _plain(value: object) -> object:
    """Dataclasses as plain values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
