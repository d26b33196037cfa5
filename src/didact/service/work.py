"""One request's share of the queue: what is computed, for whom, until when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from didact.attribution._classes import by_probability
from didact.protocols import TargetLike
from didact.service.tasks import Computed, Task
from didact.types import Example, Explanation


@dataclass(frozen=True)
class WorkProgress:
    """How far a piece of work is."""

    what: str
    done: int
    total: int


@dataclass(eq=False)
class Work:
    """Examples of one request, to be computed by one task.

    Attributes:
        task: what is computed.
        examples: for each of which there is a result.
        targets: one per example.
        cost: model evaluations x tokens.
        classes: results per input: 1, or the classes of the model where every class is explained.
        expected: seconds, by the rate measured so far.
        timed: whether its sender named a time, so that estimates before the last are worth having.
        background: whether it waits until no other work does.
        watch: called, from the worker's thread, with progress and with estimates before the last; None where nobody
            listens.
        result: the results, or why there are none.
        partial: the newest estimates of a method that can stop at any time.
    """

    task: Task
    examples: Sequence[Example]
    targets: Sequence[TargetLike]
    cost: float
    classes: int = 1
    expected: float = 0.0
    timed: bool = False
    background: bool = False
    watch: Callable[[WorkProgress | list[Explanation]], None] | None = None
    result: Future[list[Computed]] = field(default_factory=Future)
    partial: list[Explanation] | None = None
    started: bool = False
    accepted: float = field(default_factory=time.monotonic)
    _gone: threading.Event = field(default_factory=threading.Event)

    @property
    def key(self) -> str:
        """Works with equal keys are computed together."""
        return f"{self.background}:{self.wants_partial}:{self.task.key}"

    @property
    def wants_partial(self) -> bool:
        """Whether estimates before the last are of use."""
        return self.timed or self.watch is not None

    @property
    def order(self) -> tuple[bool, float, int]:
        """Sorts what waits: by arrival, quick work before slow work that arrived a little earlier."""
        return self.background, self.accepted + self.expected, id(self)

    @property
    def wanted(self) -> bool:
        """Whether somebody still waits for the results."""
        return not self._gone.is_set()

    def by_input(self, results: Sequence[Computed]) -> list[list[Computed]]:
        """Results by input, the most probable class first where every class was explained."""
        parts = [list(results[at : at + self.classes]) for at in range(0, len(results), self.classes)]
        if self.classes == 1:
            return parts
        return [list(by_probability(each for each in own if isinstance(each, Explanation))) for own in parts]

    def plain(self, results: Sequence[Computed]) -> list[dict[str, Any]]:
        """Results as plain values, in the order of ``by_input``."""
        return [each.to_dict() for own in self.by_input(results) for each in own]

    def abandon(self) -> None:
        """Nobody waits any more."""
        self._gone.set()

    def report(self, news: WorkProgress | list[Explanation]) -> None:
        """Pass on what is known before the end."""
        if isinstance(news, list):
            self.partial = news
        if self.watch is not None and self.wanted:
            self.watch(news)
