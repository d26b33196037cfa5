"""What every metric shares: settings, the check of what it needs, and its place in the registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from didact.errors import InputError
from didact.protocols import Evidence
from didact.registry import Registry
from didact.settings import Configured
from didact.types import Explanation, Grade, MetricCard

_MISSING = {
    "model": "the explained model",
    "explainer": "the explainer, to explain further texts",
    "repeats": "explanations with at least one other seed",
    "others": "explanations of the same texts by at least one other explainer",
    "surrogate": "a surrogate fine-tuned on masked texts (didact.models.surrogate)",
}


@dataclass(frozen=True, kw_only=True)
class BaseMetric(Configured, ABC):
    """Base of metrics; a subclass's dataclass fields are its settings.

    ``measure`` checks the evidence once and leaves the grading to ``grade``.
    """

    card: ClassVar[MetricCard]

    @abstractmethod
    def grade(self, evidence: Evidence) -> list[Grade]:
        """One grade per explanation; the evidence has what the card needs."""

    def measure(self, evidence: Evidence) -> list[Grade]:
        """One grade per explanation, in order."""
        self._check(evidence)
        return self.grade(evidence) if evidence.explanations else []

    def _check(self, evidence: Evidence) -> None:
        for need in sorted(self.card.needs & set(_MISSING)):
            if not getattr(evidence, need):
                raise InputError(f"{self.card.name} needs {_MISSING[need]}")
        for need, check in _CHECKS.items():
            if need in self.card.needs:
                for explanation in evidence.explanations:
                    check(self.card.name, explanation)


METRICS: Registry[BaseMetric, MetricCard] = Registry(
    "metric", "didact.metrics", [str(Path(__file__).parent)], "didact.metrics"
)
register = METRICS.register


def _need_rationale(name: str, explanation: Explanation) -> None:
    if explanation.example.rationale is None:
        raise InputError(
            f"{name} compares with human rationales, and the example {explanation.example.preview} has none; "
            "give data with rationales, or leave the metric out"
        )


def _need_text(name: str, explanation: Explanation) -> None:
    if not explanation.example.is_textual:
        raise InputError(f"{name} compares words, and {explanation.example.preview} has none; leave the metric out")


def _need_classes(name: str, explanation: Explanation) -> None:
    kind = explanation.prediction.kind
    if kind != "class":
        predicted = "a regression" if kind == "number" else f"one that predicts a {kind}"
        raise InputError(
            f"{name} is about probabilities of classes, and the model of {explanation.example.preview} is {predicted}; "
            "use comprehensiveness, sufficiency, deletion_area or insertion_area"
        )


_CHECKS = {"rationale": _need_rationale, "text": _need_text, "classes": _need_classes}
"""What is checked explanation by explanation."""
