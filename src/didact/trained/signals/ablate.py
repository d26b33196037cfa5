"""Ablate: learn Shapley values from what few coalitions of units do to the model, without another explainer."""

from __future__ import annotations

from dataclasses import dataclass

from didact.trained.signals._ablation import Ablation
from didact.trained.signals.base import SignalCard, register


@register(
    SignalCard(
        name="ablate",
        family="ablation",
        summary="Learn Shapley values from a few random coalitions of units per text, which the model is evaluated on.",
        reference="Jethani et al. 2022, FastSHAP; Covert et al. 2024, Stochastic amortization",
        outputs="1",
    )
)
@dataclass(frozen=True, kw_only=True)
class Ablate(Ablation):
    """Give the units Shapley values, without ever computing those of a text.

    The loss and its settings are those of ``Ablation``. ``erasure`` goes on from there to the order of the units.
    """
