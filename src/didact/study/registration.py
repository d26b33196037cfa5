"""What is fixed before the first answer: a file that the owner completes, hashed when the first rater joins."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from didact import disk
from didact.stats.power import raters_needed, raters_per_arm
from didact.study.design import StudyDesign
from didact.study.ledger import Events

FILE = "preregistration.md"
KEY = "first"
SHARES = (0.55, 0.6, 0.7)
"""Preferences that the advice on the number of raters is given for."""
GAINS = (0.05, 0.1, 0.2)
"""Gains that it is given for in *simulate*."""


@dataclass(frozen=True)
class Registration:
    """What was fixed, and whether it still stands.

    Attributes:
        digest: SHA-256 of the file when the first rater joined; "" before that.
        time: of that, in seconds since 1970.
        unchanged: whether the file is still the same; None before that.
    """

    digest: str = ""
    time: float = 0.0
    unchanged: bool | None = None


def write(folder: Path, design: StudyDesign) -> None:
    """Write the file that the owner completes."""
    disk.write_text(folder / FILE, text(design))


def register(folder: Path, events: Events, facts: dict[str, Any]) -> None:
    """Keep the file's text and hash as an event, unless there is one."""
    if events.get("registered", KEY) is None:
        content = (folder / FILE).read_bytes() if (folder / FILE).is_file() else b""
        body = {"sha256": _digest(content), "text": content.decode("utf-8", "replace"), **facts}
        events.append("registered", KEY, body=body)


def status(folder: Path, events: Events) -> Registration:
    """Whether the file is still what was registered."""
    event = events.get("registered", KEY)
    if event is None:
        return Registration()
    content = (folder / FILE).read_bytes() if (folder / FILE).is_file() else b""
    return Registration(event.body["sha256"], event.time, _digest(content) == event.body["sha256"])


def advice(design: StudyDesign) -> list[str]:
    """How many raters would find which preference, or which gain."""
    if design.protocol == "simulate":
        return [
            f"{raters_per_arm(gain, design.items)} raters in each of {len(design.arms)} arms with {design.items} items "
            f"find with probability 0.8 that an explainer adds {100 * gain:.0f} points to the gain without one"
            for gain in GAINS
        ]
    pairs = len(design.explainers) * (len(design.explainers) - 1) // 2
    return [
        f"{raters_needed(share, design.items, alpha=0.05 / pairs)} raters with {design.items} items each find with "
        f"probability 0.8 that one of two explainers is preferred in {share:.0%} of the comparisons, at 0.05 for all "
        f"{pairs} pairs together"
        for share in SHARES
    ]


def text(design: StudyDesign) -> str:
    """The file as it is before the owner completes it."""
    return _TEXT.format(
        title=design.title,
        protocol=design.protocol,
        explainers=", ".join(design.explainers),
        items=design.items,
        raters=design.raters,
        failed=f"{design.failed:.0%}",
        analysis=_ANALYSIS[design.protocol],
        advice="\n".join(f"- {line}" for line in advice(design)),
        seed=design.seed,
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


_ANALYSIS = {
    "rank": """Plackett-Luce with ties, all rankings of the main items together, no repeated items, practice or checks.
95 % intervals over raters and items. Two explainers differ where the p-value of the difference of their log-worths,
Holm-adjusted over all pairs, is below 0.05.""",
    "simulate": """Gain of a rater: accuracy after learning less accuracy before, on the same items. Primary: mean gain
of each explainer's raters less that of raters without explanations, 95 % intervals over raters and items, p-values
Holm-adjusted over explainers, 0.05.""",
}

_TEXT = """# {title}: preregistration

Complete this file before the first rater joins. Its SHA-256 is stored then; results say whether it changed later.

## Question and hypotheses
(yours)

## Protocol
{protocol}; explainers: {explainers}; {items} items; order of items and explanations drawn per rater, seed {seed}.

## Sample
{raters} raters. Stop when all have finished, or on (date); results are not looked at before.

{advice}

## Left out
Raters who fail more than {failed} of the attention checks. Pages that a rater did not reach.

## Primary analysis
{analysis}
"""
