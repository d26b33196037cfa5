"""The bounded queue of one model: what is accepted, what is refused and for how long, what is computed together."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

from didact.service.config import ServiceLimits
from didact.service.problems import Refusal
from didact.service.rates import Rates
from didact.service.tickets import Tickets
from didact.service.work import Work

PAUSE = 0.005
"""Seconds without a new request after which a batch is taken as it is."""
GATHERING = 0.1
"""Share of the time of the last batch that may be spent on collecting the next."""


class Waiting:
    """Works in the order in which they will be computed.

    Args:
        limits: of the queue and of a batch.
        rates: measured so far; they turn cost into seconds.
    """

    def __init__(self, limits: ServiceLimits, rates: Rates) -> None:
        self.limits = limits
        self.rates = rates
        self._works: list[Work] = []
        self._running: list[Work] = []
        self._since = 0.0
        self._before = (1, 0.0)  # works of the last batch, and the seconds that it took
        self._tickets = Tickets()
        self._change = threading.Condition()
        self._closed = False

    def accept(self, works: Sequence[Work], ticket: str = "") -> None:
        """Take in the works of one request, all or none.

        Args:
            works: of the request.
            ticket: what an earlier refusal gave it; room is kept for it at its time.

        Raises:
            Refusal: 429 where the queue is full, with the time after which there will be room; 503 while it drains.
        """
        with self._change:
            if self._closed:
                raise Refusal(503, "the service is shutting down; send the request again later", "draining")
            for work in works:
                work.expected = self.rates.seconds(work.task.method, work.cost)
            if not works[0].background:
                self._check_room(works, ticket)
            self._works += works
            self._works.sort(key=lambda work: work.order)
            self._change.notify_all()

    def take(self) -> list[Work]:
        """Wait for the next works that can be computed in one call; none when the queue is closed and empty."""
        with self._change:
            self._gather()
            while True:
                self._works = [work for work in self._works if work.wanted]
                if self._works or self._closed:
                    break
                self._change.wait()
            self._running = self._batch()
            self._since = time.monotonic()
            taken = set(map(id, self._running))
            self._works = [work for work in self._works if id(work) not in taken]
            return list(self._running)

    def finished(self) -> None:
        """What was taken is done."""
        with self._change:
            self._before = (len(self._running), time.monotonic() - self._since)
            self._running = []
            self._change.notify_all()

    def forget(self, work: Work) -> None:
        """Drop a work that nobody waits for any more, so that it counts no longer."""
        work.abandon()
        with self._change:
            self._works = [other for other in self._works if other is not work]
            self._change.notify_all()

    def close(self, *, drop_background: bool = True) -> None:
        """Accept nothing more; what was accepted is still computed, but for work in the background."""
        with self._change:
            self._closed = True
            for work in [work for work in self._works if work.background and drop_background]:
                work.abandon()
                work.result.cancel()
            self._change.notify_all()

    def join(self, seconds: float) -> bool:
        """Wait until nothing is left; whether that happened in time."""
        with self._change:
            return self._change.wait_for(lambda: not self._works and not self._running, seconds)

    @property
    def idle(self) -> bool:
        """Whether nothing waits or is computed."""
        with self._change:
            return not self._works and not self._running

    @property
    def size(self) -> tuple[int, float]:
        """How many requests wait, and their cost."""
        with self._change:
            return len(self._works), sum(work.cost for work in self._works)

    @property
    def expected(self) -> float:
        """Seconds until all that was accepted is computed."""
        with self._change:
            return self._expected()

    def _gather(self) -> None:
        """Where requests came together before, wait a moment: clients that were just answered send their next ones."""
        most, seconds = self._before
        end = time.monotonic() + GATHERING * seconds
        while 1 < most > len(self._works) and not self._closed:
            before, rest = len(self._works), min(PAUSE, end - time.monotonic())
            self._change.wait(max(0.0, rest))
            if rest <= 0 or len(self._works) <= before:
                return

    def _expected(self) -> float:
        elapsed = time.monotonic() - self._since
        running = sum(work.expected for work in self._running if work.wanted)
        return max(0.0, running - elapsed) + sum(self._seconds(work) for work in self._works if not work.background)

    def _seconds(self, work: Work) -> float:
        return self.rates.seconds(work.task.method, work.cost)

    def _check_room(self, works: Sequence[Work], ticket: str) -> None:
        """Refuse what would wait too long; an empty queue takes any request, and one that comes back has its room."""
        waits = [work for work in self._works if not work.background]
        if not waits or (len(waits) + len(works) <= self.limits.queued and ticket and self._tickets.use(ticket)):
            return
        ahead, own, most = self._expected(), sum(work.expected for work in works), self.limits.queued_seconds
        over = ahead + own + self._tickets.promised(most) - most
        if over > 0 or len(waits) + len(works) > self.limits.queued:
            raise self._full(len(waits), ahead, max(ahead + own - most, ahead / 2), own)

    def _full(self, count: int, ahead: float, wait: float, own: float) -> Refusal:
        ticket = self._tickets.issue(wait, own)
        seconds = max(1, math.ceil(ticket.due - time.monotonic()))
        named = {"Retry-Ticket": ticket.name} if ticket.name else {}
        return Refusal(
            429,
            f"{count} requests wait, about {ahead:.1f} seconds of work; try again in {seconds} seconds",
            headers={"Retry-After": str(seconds), **named},
            more={"retry_after": seconds} | ({"ticket": ticket.name} if ticket.name else {}),
        )

    def _batch(self) -> list[Work]:
        """The first work, and as many of its kind as fit into a batch."""
        if not self._works:
            return []
        first = self._works[0]
        batch, cost, seconds = [first], first.cost, self._seconds(first)
        for work in self._works[1:]:
            own = self._seconds(work)
            fits = cost + work.cost <= self.limits.batch_cost and seconds + own <= self.limits.batch_seconds
            if fits and work.key == first.key:
                batch.append(work)
                cost, seconds = cost + work.cost, seconds + own
        return batch
