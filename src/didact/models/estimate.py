"""What explaining will take, before it is done: exact counts, timed passes, and a rough guess of memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from didact.meter import metered
from didact.models.eval_mode import parameters
from didact.models.functions.blackbox import BlackBox
from didact.models.network import NetworkModel
from didact.models.outputs import resolve_target
from didact.protocols import Explainer, Model
from didact.types import Cost, Estimate, Units

BACKWARD = 2.0
"""A backward pass takes about two forward passes: one for the inputs, one for the weights."""

ROWS = 64
"""Variants timed together at most; more would take long and measure little better."""


@dataclass(frozen=True)
class Pace:
    """How fast a model is: seconds for a row of so many tokens; other rows are taken to cost in proportion."""

    seconds: float
    tokens: int

    def of(self, tokens: int) -> float:
        """Seconds per row of this many tokens."""
        return self.seconds * tokens / self.tokens


@dataclass(frozen=True)
class NetworkSize:
    """The size of a network and of the text it reads.

    Attributes:
        tokens: length of the text.
        width: dimensions of a hidden vector.
        inner: dimensions inside the feed-forward block.
        heads: attention heads of a layer.
        layers: how many.
    """

    tokens: int
    width: int
    inner: int
    heads: int
    layers: int

    @property
    def multiplications(self) -> int:
        """What one forward pass takes."""
        per_token = 4 * self.width**2 + 2 * self.width * self.inner + 2 * self.tokens * self.width
        return self.layers * self.tokens * per_token

    @property
    def traced(self) -> int:
        """Bytes of what a trace of all layers keeps: attention maps, and what each layer computed for every token."""
        return 4 * self.layers * self.tokens * (self.heads * self.tokens + 5 * self.width + self.inner)


@dataclass(frozen=True)
class Own:
    """What explaining one text takes besides passes through the model.

    Attributes:
        multiplications: arithmetic; a number that is only moved or added counts for as many as its time is worth.
        memory: bytes.
    """

    multiplications: float
    memory: float


@runtime_checkable
class Demanding(Protocol):
    """An explainer with much arithmetic or large arrays of its own."""

    def own(self, shape: NetworkSize) -> Own:
        """What they take for a text and a model of this size."""
        ...


@runtime_checkable
class Fitting(Protocol):
    """An explainer that fits a surrogate to the values of many variants, whatever the model."""

    def fitting(self, units: Units) -> float:
        """Multiplications of double precision that drawing the variants and fitting take."""
        ...


@runtime_checkable
class Choosing(Protocol):
    """An explainer that compares several maps of a text by passes of the model which its ``cost`` does not know."""

    def choosing(self, model: Model, units: Units) -> int:
        """Evaluations of the model that the choice takes for a text, counted by grading maps of one."""
        ...


TOUCHED = 150.0
"""Multiplications of large matrices in the time of sending one number a few times through memory."""


def estimate(model: Model, units: Sequence[Units], explainer: Explainer, pace: Pace) -> Estimate:
    """Counts from the method's own declaration, seconds from the pace, memory from the model's configuration."""
    costs = [explainer.cost(unit) for unit in units]
    if isinstance(explainer, Choosing):
        chosen = explainer.choosing(model, max(units, key=_length))
        costs = [replace(cost, forwards=cost.forwards + chosen) for cost in costs]
    own = [_own(model, explainer, unit) for unit in units]
    work = [(unit, cost, passes) for unit, cost, (passes, _) in zip(units, costs, own, strict=True)]
    made = priced(explainer.card.name, model, work, pace)
    memory = None if made.memory is None else made.memory + max(taken for _, taken in own)
    fitting = 0.0
    if isinstance(explainer, Fitting):
        fitting = sum(explainer.fitting(unit) for unit in units) * _seconds_per_multiplication()
    return replace(made, seconds=made.seconds + fitting, memory=memory)


def priced(name: str, model: Model, work: Sequence[tuple[Units, Cost, float]], pace: Pace) -> Estimate:
    """The sum of work on texts: what of the model each takes, and further arithmetic in passes over that text."""
    seconds = sum(
        (cost.forwards + BACKWARD * cost.backwards + passes) * pace.of(_length(unit)) for unit, cost, passes in work
    )
    differentiates = any(cost.backwards for _, cost, _ in work)
    return Estimate(
        method=name,
        examples=len(work),
        units=sum(len(unit) for unit, _, _ in work),
        forwards=sum(cost.forwards for _, cost, _ in work),
        backwards=sum(cost.backwards for _, cost, _ in work),
        seconds=seconds,
        memory=_memory(model, max(_length(unit) for unit, _, _ in work), differentiates),
    )


def pace_of(model: Model, units: Sequence[Units]) -> Pace:
    """How fast a model is on the longest of some texts."""
    return measure(model, max(units, key=_length))


def measure(model: Model, units: Units) -> Pace:
    """Time passes of one text: twice a batch of random variants as the planner would pack it, the faster one counts.

    A black box may be slow or cost money, so it is called for its plain prediction alone, three times; what writing a
    variant takes comes on top.
    """
    if not isinstance(model, NetworkModel):
        return Pace(min(_plain(model, units) for _ in range(3)) + _writing(model, units), _length(units))
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


def _writing(model: Model, units: Units) -> float:
    """Seconds that making a variant takes, of which half is left."""
    if not isinstance(model, BlackBox):
        return 0.0
    keep = np.random.default_rng(0).random((8, len(units))) < 0.5
    with metered() as meter:
        for variant in model.view.variants(units, model.view.absence(model.default_absence), keep):
            model.view.made(variant)
    return meter.seconds / len(keep)


@functools.cache
def _seconds_per_multiplication() -> float:
    """Of large matrices in double precision; timed once."""
    size = 384
    matrix = np.random.default_rng(0).random((size, size))
    best = float("inf")
    for _ in range(3):
        with metered() as meter:
            matrix @ matrix
        best = min(best, meter.seconds)
    return best / size**3


def _length(units: Units) -> int:
    """Tokens of a row, special ones apart; a black box shows none, and its rows all count the same."""
    return max((max(positions, default=0) for positions in units.positions), default=0) + 1


def _own(model: Model, explainer: Explainer, units: Units) -> tuple[float, int]:
    """A method's own arithmetic in passes over this text, and its own memory in bytes."""
    if not isinstance(model, NetworkModel) or not isinstance(explainer, Demanding):
        return 0.0, 0
    shape = _shape(model, _length(units))
    taken = explainer.own(shape)
    return taken.multiplications / shape.multiplications, round(taken.memory)


def _shape(model: NetworkModel, tokens: int) -> NetworkSize:
    config = model.network.config.get_text_config()
    width = int(config.hidden_size)
    inner = int(getattr(config, "intermediate_size", None) or 4 * width)
    return NetworkSize(tokens, width, inner, int(config.num_attention_heads), int(config.num_hidden_layers))


def _memory(model: Model, tokens: int, differentiates: bool) -> int | None:
    """Bytes of the weights and of what one batch keeps alive.

    Forward alone, a layer's inputs, projections and feed-forward activations live at a time; with gradients those of
    all layers do, in batches of half the tokens. Attention matrices count where they are formed. The true peak depends
    on kernels and allocator; expect it within a factor of two or three.
    """
    if not isinstance(model, NetworkModel):
        return None
    shape = _shape(model, tokens)
    each = {id(parameter): parameter for parameter in parameters(model.network)}.values()
    weights = sum(parameter.numel() * parameter.element_size() for parameter in each)
    batch = max(tokens, model.budget.tokens // 2 if differentiates else model.budget.tokens)
    per_token = 8 * shape.width + 2 * shape.inner + shape.heads * tokens
    held = shape.layers if differentiates else 1
    return weights + batch * per_token * held * model.dtype.itemsize
