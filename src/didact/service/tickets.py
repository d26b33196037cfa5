"""Room that is kept for refused requests: each is given a time to come back, and a ticket that lets it in then."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

EARLY = 0.5
"""Seconds before its time from which a ticket is taken: clocks differ a little."""
GRACE = 3.0
"""Seconds after its time at which a ticket that did not come back keeps no room any more."""
SPACING = 1.25
"""Promised work is expected to take so much longer than measured, so that those who come back find a queue that is
not full."""
MOST = 4096
"""Tickets that are kept; further refusals get a time without one."""


@dataclass(frozen=True)
class Ticket:
    """A time at which a refused request will find room.

    Attributes:
        name: what the request sends when it comes back; empty where none is kept.
        due: when, by the monotonic clock.
        seconds: expected time of its work.
    """

    name: str
    due: float
    seconds: float


class Tickets:
    """Times given to refused requests, one after the other as fast as their work can be done. Used under a lock."""

    def __init__(self) -> None:
        self._open: dict[str, Ticket] = {}

    def issue(self, wait: float, seconds: float) -> Ticket:
        """A time for a refused request: not before ``wait`` seconds, nor before the work promised earlier is done."""
        now = time.monotonic()
        self._expire(now)
        latest = max((ticket.due + SPACING * ticket.seconds for ticket in self._open.values()), default=0.0)
        kept = len(self._open) < MOST
        made = Ticket(secrets.token_urlsafe(9) if kept else "", max(now + wait, latest), seconds)
        if kept:
            self._open[made.name] = made
        return made

    def use(self, name: str) -> bool:
        """Whether a request that comes back is in time; its ticket is then used up."""
        self._expire(time.monotonic())
        ticket = self._open.get(name)
        if ticket is None or time.monotonic() < ticket.due - EARLY:
            return False
        del self._open[name]
        return True

    def promised(self, seconds: float) -> float:
        """Expected time of the work that comes back within so many seconds."""
        now = time.monotonic()
        self._expire(now)
        return sum(ticket.seconds for ticket in self._open.values() if ticket.due <= now + seconds)

    def _expire(self, now: float) -> None:
        self._open = {name: ticket for name, ticket in self._open.items() if ticket.due + GRACE > now}
