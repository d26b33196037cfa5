"""The feature prior: features that hints emphasise may count for more, before any answer is seen."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from didact.errors import ParameterError
from didact.settings import at_least
from didact.students.base import CHANNELS, Channel, ChannelCard


@CHANNELS.register(
    ChannelCard(
        name="prior",
        family="closed form",
        summary="Gives words that hints dwell on a larger prior variance; for closed-form students.",
        reference="generalised ridge regression (Hoerl and Kennard 1970) with variances from hints",
        needs=frozenset({"feature_prior"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class PriorChannel(Channel):
    """Prior variance of a word's weight = (its share of the hints / its share of the text) ^ weight of the run.

    A hint gives each occurrence of a word a share; multiplied by the number of words of its text, that share is 1 on
    average. A word's ratio is the mean over its occurrences in the training texts, with ``doubt`` further occurrences
    at 1: a rare word that one hint marks by chance changes little, a word that hints mark again and again has nearly
    its full ratio, and a word that is common and never marked has a variance near zero. Weight 0 makes all variances
    1, an ordinary ridge; random hints make them nearly so. Hints show where to look and not what to conclude, so signs
    are left to the answers.

    Frozen features have no words to weigh. There, a linear gate learns from the training texts to predict an
    occurrence's ratio from its hidden state, and all texts, the test texts too, are pooled in these proportions.

    Args:
        doubt: occurrences at ratio 1 that every word has beforehand.
        gate: penalty of the gate's regression, in mean variances of the hidden states.
        floor: smallest ratio that the gate may give.

    It reaches students that offer "feature_prior". Networks have channels of their own, such as ``attention``.
    """

    doubt: float = 10.0
    gate: float = 0.3
    floor: float = 0.1

    def __post_init__(self) -> None:
        at_least(self, doubt=0, gate=0, floor=0)
        for name in ("doubt", "gate", "floor"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} of prior must be above 0, got {getattr(self, name)!r}")

    def variances(self, given: Tensor, occurrences: Tensor, weight: float) -> Tensor:
        """Prior variances of words (V,).

        Args:
            given: what hints gave to each word, 1 per occurrence on average (V,).
            occurrences: of the word in training texts with a hint (V,).
            weight: of the run.
        """
        return ((given + self.doubt) / (occurrences + self.doubt)) ** weight

    def proportions(self, ratios: Tensor, weight: float) -> Tensor:
        """How much occurrences count in a text, from the gate's ratios."""
        return ratios.clamp(min=self.floor) ** weight
