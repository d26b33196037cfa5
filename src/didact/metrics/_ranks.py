"""Rank correlation of two explanations of one text."""

from __future__ import annotations

from typing import Literal

import numpy as np

from didact.types import Floats

Coefficient = Literal["spearman", "kendall"]


def rank_correlation(first: Floats, second: Floats, coefficient: Coefficient = "spearman") -> float:
    """Spearman's ρ or Kendall's τ-b, ties counted as ties; NaN without words.

    Where all scores of both are tied it is 1: a text of one word, or an explainer that scores every word the
    same, agrees with itself. Where only one of them is all ties it is 0: it has no order to compare with.
    """
    from didact.stats.correlation import kendall, spearman  # scipy, which a list of metrics does not need

    if not len(first):
        return float("nan")
    tied = [bool(np.ptp(scores) == 0) for scores in (first, second)]
    if any(tied):
        return float(all(tied))
    return kendall(first, second) if coefficient == "kendall" else spearman(first, second)
