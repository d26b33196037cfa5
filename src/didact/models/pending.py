"""Targets that wait for the pass that is differentiated: it predicts too, so that the model runs once.

A method that differentiates the pass of the whole text needs the predicted label when that pass has run and not
before. It gets ``PendingTargets``; the model settles them from the outputs of the pass, before it differentiates.
That the observed pass predicts what a plain one does is checked on the first batch of a network by each method, and
on every ``GUARD_EVERY``-th after that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, overload, runtime_checkable
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from didact.models.batch import EncodedBatch, Ints, Read
from didact.models.heads.base import Head
from didact.models.outputs import check_defined, resolve_target
from didact.protocols import Model, TargetLike
from didact.types import Example, Prediction, Scale, Span, Target

GUARD_EVERY = 32
"""A plain pass checks the first batch of a network that a method explains, and one of so many after that."""

STRICTER = 10
"""The predictions of both passes may differ by so many times less than a model's ``precision`` allows."""


@dataclass
class PassGuard:
    """What is known about a method's pass through a network.

    Attributes:
        batches: how many were explained in one pass.
        failed: whether the pass predicted something else than a plain one; then there is a plain pass each time.
    """

    batches: int = 0
    failed: bool = False

    def is_due(self) -> bool:
        """Whether a plain pass is to check the batch that was just explained, which is counted."""
        self.batches += 1
        return self.batches % GUARD_EVERY == 1


@dataclass
class _Slot:
    """One example's target, and what it comes from."""

    example: Example
    settle: Callable[[Prediction], Target]
    prediction: Prediction | None = None
    target: Target | None = None


class PendingTargets(Sequence[Target]):
    """One target per example, known once a pass has predicted; the slice of it shares its targets.

    Args:
        slots: per example, what becomes of its prediction.
        guard: of the method and the network.
    """

    def __init__(self, slots: Sequence[_Slot], guard: PassGuard) -> None:
        self.slots = slots
        self.guard = guard

    @classmethod
    def of(
        cls,
        model: Model,
        examples: Sequence[Example],
        wanted: Sequence[TargetLike],
        scale: Scale | None,
        guard: PassGuard,
    ) -> PendingTargets | None:
        """Targets of a model; None where one is about a given place, for which there is a prediction of its own."""
        if any(isinstance(own.answer if isinstance(own, Target) else own, Span) for own in wanted):
            return None

        def settling(given: TargetLike) -> Callable[[Prediction], Target]:
            return lambda prediction: resolve_target(model, given, prediction, scale)

        return cls([_Slot(*pair) for pair in zip(examples, map(settling, wanted), strict=True)], guard)

    def __len__(self) -> int:
        return len(self.slots)

    @overload
    def __getitem__(self, index: int) -> Target: ...

    @overload
    def __getitem__(self, index: slice) -> PendingTargets: ...

    def __getitem__(self, index: int | slice) -> Target | PendingTargets:
        if isinstance(index, slice):
            return PendingTargets(self.slots[index], self.guard)
        target = self.slots[index].target
        if target is None:
            raise LookupError("this target is known only after the pass of its example")
        return target

    @property
    def predictions(self) -> list[Prediction]:
        """Those that settled the targets."""
        return [slot.prediction for slot in self.slots if slot.prediction is not None]

    def settle(self, owners: Sequence[int], predict: Callable[[Sequence[Example]], Sequence[Prediction]]) -> None:
        """Settle what is not yet: an example's first row shows all of it, and ``predict`` gives one for each row."""
        slots = [self.slots[owner] for owner in owners]
        if all(slot.target is not None for slot in slots):
            return
        for slot, prediction in zip(slots, predict([slot.example for slot in slots]), strict=True):
            if slot.target is None:
                slot.prediction, slot.target = prediction, slot.settle(prediction)


@runtime_checkable
class SettlesTargets(Model, Protocol):
    """A model that takes ``PendingTargets`` wherever it takes targets and differentiates."""

    def pending(
        self, examples: Sequence[Example], wanted: Sequence[TargetLike], scale: Scale | None, method: str
    ) -> PendingTargets | None:
        """Targets for a method, by its name; None where a plain pass is needed first."""
        ...


def reading(head: Head, name: str, targets: Sequence[Target]) -> Read:
    """The explained number of outputs; targets that are pending are settled first."""

    def read(outputs: Tensor, owners: Ints, batch: EncodedBatch) -> Tensor:
        if isinstance(targets, PendingTargets):
            targets.settle(owners.tolist(), lambda examples: _predictions(head, name, outputs, batch, examples))
        return head.explained(outputs, [targets[i] for i in owners], batch)

    return read


def _predictions(
    head: Head, name: str, outputs: Tensor, batch: EncodedBatch, examples: Sequence[Example]
) -> list[Prediction]:
    plain = outputs.detach().float().cpu()
    check_defined(plain, examples, name)
    return head.predictions(plain, batch)


def alone(targets: Sequence[Target], number: int) -> Target | PendingTargets:
    """One of the targets, to be settled where it is pending."""
    return targets[number : number + 1] if isinstance(targets, PendingTargets) else targets[number]


def guard_of(network: nn.Module, method: str) -> PassGuard:
    """What is known about a method's pass through a network, whatever is wrapped round it."""
    return _GUARDS.setdefault(network, _Known()).methods.setdefault(method, PassGuard())


def alike(made: Prediction, plain: Prediction, precision: float) -> bool:
    """Whether a pass predicted what the plain one does: the same answer, and outputs that differ by rounding."""
    if (made.index, made.extract) != (plain.index, plain.extract):
        return False
    pairs = zip(made.outputs, plain.outputs, strict=True)
    return all(abs(own - other) <= precision / STRICTER * (1 + abs(other)) for own, other in pairs)


@dataclass
class _Known:
    methods: dict[str, PassGuard] = field(default_factory=dict)


_GUARDS: WeakKeyDictionary[nn.Module, _Known] = WeakKeyDictionary()
