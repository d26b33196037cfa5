"""Waiting for results: until they are there, the time is up, or the client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import Request

from didact.service.core import Service
from didact.service.problems import Refusal, refusal_of
from didact.service.tasks import Computed
from didact.service.work import Work
from didact.service.workers import ModelWorker

Outcomes = list[list[Computed] | BaseException]


def service_of(request: Request) -> Service:
    """The service that an app was made for."""
    service: Service = request.app.state.service
    return service


def ticket_of(request: Request) -> str:
    """The ticket that an earlier refusal gave the request; empty where it has none."""
    return request.headers.get("retry-ticket", "")


async def computed(request: Request, worker: ModelWorker, works: Sequence[Work], seconds: float | None) -> Outcomes:
    """What became of each work of one request, once all are done.

    Raises:
        Refusal: 429 or 503 where they are not accepted, 504 when the time is up, with estimates where there are any.
    """
    limit = service_of(request).config.limits.seconds
    allowed = limit if seconds is None else min(seconds, limit)
    worker.waiting.accept(works, ticket_of(request))
    results = asyncio.gather(*(asyncio.wrap_future(work.result) for work in works), return_exceptions=True)
    gone = asyncio.ensure_future(_gone(request))
    ends: set[asyncio.Future[Any]] = {results, gone}
    try:
        await asyncio.wait(ends, timeout=allowed, return_when=asyncio.FIRST_COMPLETED)
        if results.done():
            return list(results.result())
        raise late(works, allowed) if not gone.done() else Refusal(499, "the client has gone", "client_gone")
    finally:
        gone.cancel()
        for work in works:
            worker.waiting.forget(work)
        results.cancel()


async def computed_single(request: Request, worker: ModelWorker, work: Work, seconds: float | None) -> list[Computed]:
    """The results of a request that is one work."""
    (outcome,) = await computed(request, worker, [work], seconds)
    if isinstance(outcome, Exception):
        raise outcome if not isinstance(outcome, Refusal) else refusal_of(outcome)
    if isinstance(outcome, BaseException):
        raise Refusal(503, "the service stopped before this was computed; send it again", "draining")
    return outcome


def late(works: Sequence[Work], seconds: float) -> Refusal:
    """The refusal when the time is up, with estimates where all works have some."""
    known = [work.partial for work in works]
    partial = [plain for work in works if work.partial is not None for plain in work.plain(work.partial)]
    begun = "was being computed" if any(work.started for work in works) else "was waiting"
    return Refusal(
        504,
        f"the request {begun} when its {seconds:g} seconds were over"
        + ("; the estimates so far are in 'partial'" if partial else ""),
        more={"partial": partial} if partial and None not in known else {},
    )


async def _gone(request: Request) -> None:
    """Returns when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
