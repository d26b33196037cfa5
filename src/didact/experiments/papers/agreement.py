"""Averages of Kendall's τ between the rankings of a simulation's settings, as the text of Pruthi et al. has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.experiments.simulability.findings import SimulabilityFindings, setting_label
from didact.simulation.gains import SettingAgreement

ATTENTION, LABELLING = "attention", "labelling"
"""Kinds of channels that the paper's students learn by."""


@dataclass(frozen=True)
class AverageAgreement:
    """Mean τ over pairs of settings.

    Attributes:
        title: which pairs.
        published: the paper's.
        mean: measured here; NaN where there is no such pair.
        pairs: how many were averaged here.
    """

    title: str
    published: float
    mean: float
    pairs: int


def averages(run: SimulabilityFindings) -> list[AverageAgreement]:
    """The five means that the paper's text gives, over students of its two strategies and texts of one number."""
    kinds = {label: given.get("channel") for label, given in run.manifest.get("channels", {}).items()}

    def learns(*channels: str) -> list[SettingAgreement]:
        return [
            pair
            for pair in run.verdict.agreements
            if pair.first.size == pair.second.size
            and all(kinds.get(one.channel, one.channel) in channels for one in (pair.first, pair.second))
        ]

    both = learns(ATTENTION, LABELLING)
    own = [pair for pair in both if pair.first.student == pair.second.student]
    settings = {setting_label(setting) for pair in both for setting in (pair.first, pair.second)}
    return [
        _mean("attention against labelling, one student", 0.64, [pair.tau for pair in own]),
        *(
            _mean(f"between students, {channel}", published, [pair.tau for pair in learns(channel)])
            for channel, published in ((ATTENTION, 0.65), (LABELLING, 0.47))
        ),
        _mean("between all students and channels", 0.52, [pair.tau for pair in both]),
        _mean(
            "with sufficiency and comprehensiveness", 0.39, [row.tau for row in run.metrics if row.setting in settings]
        ),
    ]


def _mean(title: str, published: float, values: Sequence[float]) -> AverageAgreement:
    known = [value for value in values if math.isfinite(value)]
    return AverageAgreement(title, published, float(np.mean(known)) if known else math.nan, len(known))
