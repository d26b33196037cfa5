"""The feature prior: what hints dwell on may count for more, before any answer is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from didact.errors import CapabilityError, ParameterError
from didact.settings import at_least
from didact.students.base import CHANNELS, Batch, Channel, CohortOutput, StudentCard


@CHANNELS.register(
    StudentCard(
        name="prior",
        family="closed form",
        summary="Gives words that hints dwell on a larger prior variance; for closed-form students.",
        reference="generalised ridge regression (Hoerl and Kennard 1970) with variances from hints",
    )
)
@dataclass(frozen=True, kw_only=True)
class PriorChannel(Channel):
    """Prior variance of a word's weight = (its share of the hints / its share of the text) ^ weight of the course.

    A hint gives each occurrence of a word a share; taken times the words of its text, that share is 1 on average. A
    word's ratio is the mean over its occurrences in the lessons, with ``doubt`` further occurrences at 1: a rare word
    that one hint names by chance is believed little, a word that hints name again and again nearly in full, and one
    that is common and never named has a variance near zero. Weight 0 makes all variances 1, an ordinary ridge; random
    hints make them nearly so. Hints say where to look and not what to conclude, so signs are left to the answers.

    Frozen features have no words to weigh. There, a linear gate learns from the lessons to tell an occurrence's ratio
    from its hidden state, and all texts, those of the exam too, are pooled in these proportions.

    Args:
        doubt: occurrences at ratio 1 that every word has beforehand.
        gate: penalty of the gate's regression, in mean variances of the hidden states.
        floor: smallest ratio that the gate may give.

    It reaches the student ``ridge``. Networks have channels of their own, such as ``attention``.
    """

    doubt: float = 10.0
    gate: float = 0.3
    floor: float = 0.1

    def __post_init__(self) -> None:
        at_least(self, doubt=0, gate=0, floor=0)
        for name in ("doubt", "gate", "floor"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} of prior must be above 0, got {getattr(self, name)!r}")

    def variances(self, told: Tensor, seen: Tensor, weight: float) -> Tensor:
        """Prior variances of words (V,).

        Args:
            told: what hints gave to each word, 1 per occurrence on average (V,).
            seen: its occurrences in lessons with a hint (V,).
            weight: of the course.
        """
        return ((told + self.doubt) / (seen + self.doubt)) ** weight

    def proportions(self, ratios: Tensor, weight: float) -> Tensor:
        """How occurrences count in a text, from the gate's ratios."""
        return ratios.clamp(min=self.floor) ** weight

    def loss(self, reading: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        """Networks have no prior to change."""
        raise CapabilityError("channel 'prior' has no loss: it reaches closed-form students (ridge), not networks")
