"""What explaining will take, before it is done: exact counts, timed passes, and a rough guess of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.meter import metered
from didact.models.outputs import resolve_target
from didact.models.text import TextModel
from didact.protocols import Explainer, Model
from didact.types import Estimate, Units

BACKWARD = 2.0
"""A backward pass takes about two forward passes: one for the inputs, one for the weights."""

ROWS = 64
"""Variants timed together at most; more would take long and tell little more."""


@dataclass(frozen=True)
class Pace:
    """How fast a model answers: seconds for a row of so many tokens; other rows are taken to cost in proportion."""

    seconds: float
    tokens: int

    def of(self, tokens: int) -> float:
        """Seconds per row of this many tokens."""
        return self.seconds * tokens / self.tokens


def estimate(model: Model, units: Sequence[Units], explainer: Explainer, pace: Pace) -> Estimate:
    """Counts from the method's own declaration, seconds from the pace, memory from the model's configuration."""
    costs = [explainer.cost(unit) for unit in units]
    seconds = sum(
        (cost.forwards + BACKWARD * cost.backwards) * pace.of(_length(unit))
        for cost, unit in zip(costs, units, strict=True)
    )
    differentiates = any(cost.backwards for cost in costs)
    return Estimate(
        method=explainer.card.name,
        examples=len(units),
        units=sum(len(unit) for unit in units),
        forwards=sum(cost.forwards for cost in costs),
        backwards=sum(cost.backwards for cost in costs),
        seconds=seconds,
        memory=_memory(model, max(_length(unit) for unit in units), differentiates),
    )


def measure(model: Model, units: Units) -> Pace:
    """Time passes of one text: twice a batch of random variants as the planner would pack it, the faster one counts.

    A black box may be slow or cost money, so it is asked for its plain answer alone, three times.
    """
    if not isinstance(model, TextModel):
        return Pace(min(_plain(model, units) for _ in range(3)), _length(units))
    rows = max(1, min(ROWS, model.budget.rows, model.budget.tokens // _length(units)))
    (prediction,) = model.predict([units.example])  # also warms up what the first pass allocates
    target = resolve_target(model, None, prediction)
    keep = np.random.default_rng(0).random((rows, len(units))) < 0.5
    best = float("inf")
    for _ in range(2):
        with metered() as meter:
            model.score([units], [target], [keep])
        best = min(best, meter.seconds / max(1, meter.evaluated))
    return Pace(best, _length(units))


def _plain(model: Model, units: Units) -> float:
    with metered() as meter:
        model.predict([units.example])
    return meter.seconds


def _length(units: Units) -> int:
    """Tokens of a row, special ones apart; a black box shows none, and its rows all count the same."""
    return max((max(positions, default=0) for positions in units.positions), default=0) + 1


def _memory(model: Model, tokens: int, differentiates: bool) -> int | None:
    """Bytes of the weights and of what one batch keeps alive.

    Forward alone, a layer's inputs, projections and feed-forward activations live at a time; with gradients those of
    all layers do, in batches of half the tokens. Attention matrices count where they are formed. The true peak depends
    on kernels and allocator; expect it within a factor of two or three.
    """
    if not isinstance(model, TextModel):
        return None
    config = model.hf.config.get_text_config()
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.hf.parameters())
    hidden, layers = int(config.hidden_size), int(config.num_hidden_layers)
    inner = int(getattr(config, "intermediate_size", None) or 4 * hidden)
    heads = int(config.num_attention_heads)
    batch = max(tokens, model.budget.tokens // 2 if differentiates else model.budget.tokens)
    per_token = 8 * hidden + 2 * inner + heads * tokens
    held = layers if differentiates else 1
    return weights + batch * per_token * held * model.hf.dtype.itemsize
