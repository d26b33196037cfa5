"""Computing the works of several requests in one call, and handing each its own results."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from didact.attribution._partial import watching
from didact.progress import listening
from didact.protocols import Model
from didact.service.tasks import Computed
from didact.service.work import Work, WorkProgress
from didact.types import Explanation


class AbandonedError(Exception):
    """Nobody waits for any result of the batch; no error of didact, so nothing on the way catches it."""


def compute(model: Model, works: Sequence[Work]) -> None:
    """Fill in the results of works with one key.

    Where the works cannot be computed together, each is computed alone, so that the fault of one request is not
    another's.
    """
    try:
        results = _together(model, works)
    except AbandonedError:
        for work in works:
            work.result.cancel()
    except Exception as problem:
        if len(works) > 1:
            for work in works:
                compute(model, [work])
        else:
            _fail(works[0], problem)
    else:
        for work, own in zip(works, _shares(works, results), strict=True):
            if work.result.set_running_or_notify_cancel():
                work.result.set_result(own)


def _together(model: Model, works: Sequence[Work]) -> Sequence[Computed]:
    examples = [example for work in works for example in work.examples]
    targets = [target for work in works for target in work.targets]
    with contextlib.ExitStack() as stack:
        stack.enter_context(listening(_Listener(works)))
        if any(work.wants_partial for work in works):
            stack.enter_context(watching(lambda explanations: _report(works, explanations)))
        return works[0].task.run(model, examples, targets)


def _shares(works: Sequence[Work], results: Sequence[Computed]) -> list[list[Computed]]:
    shares, start = [], 0
    for work in works:
        shares.append(list(results[start : start + len(work.examples)]))
        start += len(work.examples)
    return shares


def _report(works: Sequence[Work], explanations: list[Explanation]) -> None:
    """Estimates before the last; where a call is made in parts, only those of a single work are known to be its own."""
    if sum(len(work.examples) for work in works) == len(explanations):
        for work, own in zip(works, _shares(works, explanations), strict=True):
            work.report([each for each in own if isinstance(each, Explanation)])


def _fail(work: Work, problem: Exception) -> None:
    if work.result.set_running_or_notify_cancel():
        work.result.set_exception(problem)


class _Listener:
    """Passes progress on, and stops the computation once nobody waits for it."""

    def __init__(self, works: Sequence[Work]) -> None:
        self.works = works
        self.what, self.done, self.total = "", 0, 0

    def start(self, what: str, total: int) -> None:
        """A piece of work begins."""
        self.what, self.done, self.total = what, 0, total
        self._tell()

    def advance(self, steps: int) -> None:
        """Some steps of it are done."""
        self.done += steps
        self._tell()

    def stop(self) -> None:
        """It ended."""

    def _tell(self) -> None:
        if not any(work.wanted for work in self.works):
            raise AbandonedError
        for work in self.works:
            work.report(WorkProgress(self.what, self.done, self.total))
