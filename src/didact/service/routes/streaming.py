"""Explanations as server-sent events: progress, estimates before the last, the result."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from didact.service.answering import late, service_of, ticket_of
from didact.service.problems import Refusal, refusal_of
from didact.service.routes.explaining import REFUSED
from didact.service.schemas import ExplainBody
from didact.service.strict import JsonRoute
from didact.service.work import Work, WorkProgress
from didact.service.workers import ModelWorker
from didact.types import Explanation
from didact.validation import dump_json

EVERY = 0.1
"""Seconds between reports of progress at least."""

News = WorkProgress | list[Explanation] | None
"""What a worker reports; nothing stands for the end."""

router = APIRouter(prefix="/v1", route_class=JsonRoute, tags=["explain"], responses=REFUSED)


@router.post("/explain/stream", response_class=StreamingResponse)
async def stream(request: Request, body: ExplainBody) -> StreamingResponse:
    """As /v1/explain, as events ``queued``, ``progress``, ``partial``, then ``result`` or ``error``."""
    service = service_of(request)
    worker, (work,) = await run_in_threadpool(service.explaining, body)
    loop, news = asyncio.get_running_loop(), asyncio.Queue[News]()

    def post(item: News) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(news.put_nowait, item)

    work.watch = post
    work.result.add_done_callback(lambda _: post(None))
    worker.waiting.accept([work], ticket_of(request))
    limit = service.config.limits.seconds
    seconds = limit if body.seconds is None else min(body.seconds, limit)
    return StreamingResponse(_events(worker, work, news, seconds), media_type="text/event-stream")


async def _events(worker: ModelWorker, work: Work, news: asyncio.Queue[News], seconds: float) -> AsyncIterator[bytes]:
    try:
        yield _event("queued", {"waiting_seconds": worker.waiting.expected, "cost": work.cost})
        end, shown = time.monotonic() + seconds, 0.0
        while (item := await asyncio.wait_for(news.get(), max(0.0, end - time.monotonic()))) is not None:
            if isinstance(item, list):
                yield _event("partial", {"explanations": work.plain(item)})
            elif time.monotonic() - shown > EVERY:
                shown = time.monotonic()
                yield _event("progress", {"what": item.what, "done": item.done, "total": item.total})
        yield _ending(worker, work)
    except TimeoutError:
        yield _event("error", late([work], seconds).body()["error"])
    finally:
        worker.waiting.forget(work)


def _ending(worker: ModelWorker, work: Work) -> bytes:
    try:
        results = work.result.result(0)
    except CancelledError:
        return _event("error", Refusal(503, "the service stopped before this was computed").body()["error"])
    except Exception as problem:
        return _event("error", refusal_of(problem).body()["error"])
    return _event("result", {"model": worker.served.name, "explanations": work.plain(results)})


def _event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {dump_json(data)}\n\n".encode()
