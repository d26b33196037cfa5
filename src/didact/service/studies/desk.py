"""A study and the two threads that work on it: one for raters and one for the owner, so that neither waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from didact.study.results import StudyResults, study_results
from didact.study.session import Study

Result = TypeVar("Result")


class StudyDesk:
    """Calls of a study from the event loop.

    Every call of raters runs in one thread: SQLite writes one answer at a time anyway, and each is on the disk before
    the next page is shown. What the owner computes takes seconds and runs beside it.

    Args:
        study: on disk.
        report: makes the owner's HTML page of results.
    """

    def __init__(self, study: Study, report: Callable[[StudyResults], str]) -> None:
        self.study = study
        self._report = report
        self._raters = ThreadPoolExecutor(1, "didact-raters")
        self._owner = ThreadPoolExecutor(1, "didact-owner")
        self._known: tuple[object, str] = (None, "")

    async def rating(self, call: Callable[..., Result], *given: object) -> Result:
        """What a call for a rater returns."""
        return await asyncio.get_running_loop().run_in_executor(self._raters, call, *given)

    async def owning(self, call: Callable[..., Result], *given: object) -> Result:
        """What a call for the owner returns."""
        return await asyncio.get_running_loop().run_in_executor(self._owner, call, *given)

    def report(self) -> str:
        """The page of results; computed again only after something happened."""
        state = (self.study.ledger.reading().newest(), self.study.registration())
        if self._known[0] != state:
            self._known = (state, self._report(study_results(self.study)))
        return self._known[1]

    def close(self) -> None:
        """Wait for what was accepted, and close the database."""
        for thread in (self._raters, self._owner):
            thread.submit(self.study.ledger.close)
            thread.shutdown(wait=True)
