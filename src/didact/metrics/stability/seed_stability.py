"""Seed stability: whether another seed ranks the words in the same way."""

from __future__ import annotations

from dataclasses import dataclass

from didact.errors import InputError
from didact.metrics._ranks import Coefficient, rank_correlation
from didact.metrics._words import mean_defined, shared_scores
from didact.metrics.base import BaseMetric, register
from didact.protocols import Evidence
from didact.types import Grade, MetricCard


@register(
    MetricCard(
        name="seed_stability",
        family="stability",
        summary="Rank correlation of the scores with those of other seeds.",
        reference="Yang et al. 2023 (rank correlation between runs)",
        low=-1.0,
        high=1.0,
        needs=frozenset({"repeats"}),
        default=True,
    )
)
@dataclass(frozen=True, kw_only=True)
class SeedStability(BaseMetric):
    """Mean over the other seeds of the rank correlation between the words' scores.

    Explainers without chance get 1, also where all scores are tied. Parts: one per other seed, in the order given.

    Args:
        coefficient: "spearman" or "kendall".

    Example:
        >>> SeedStability().measure(Evidence(explanations, repeats=[with_another_seed]))  # doctest: +SKIP
    """

    coefficient: Coefficient = "spearman"

    def grade(self, evidence: Evidence) -> list[Grade]:
        """Compare text by text."""
        size = len(evidence.explanations)
        for repeat in evidence.repeats:
            if len(repeat) != size:
                raise InputError(f"{self.card.name}: {size} explanations, but {len(repeat)} with another seed")
        grades = []
        for number, explanation in enumerate(evidence.explanations):
            parts = {
                f"repeat {i}": rank_correlation(*shared_scores(explanation, repeat[number]), self.coefficient)
                for i, repeat in enumerate(evidence.repeats, start=1)
            }
            grades.append(Grade(mean_defined(parts.values()), parts))
        return grades
