"""Jobs: work above the cost limit of a request."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from didact.service.job_runner import JobRunner
from didact.service.jobs import JobStatus
from didact.service.problems import Json, Refusal
from didact.service.routes.explaining import REFUSED
from didact.service.schemas import ExplainBody
from didact.service.strict import JsonRoute

router = APIRouter(prefix="/v1", route_class=JsonRoute, tags=["jobs"], responses=REFUSED)


@router.post("/jobs", status_code=202)
async def submit(request: Request, body: ExplainBody) -> Json:
    """Keep a request for explanations as a job; the answer has its id."""
    runner = _runner(request)
    name = await run_in_threadpool(runner.submit, body)
    return Json(_plain(await _status(runner, name)), 202, {"Location": f"/v1/jobs/{name}"})


@router.get("/jobs/{job}")
async def status(request: Request, job: str, results: bool = False) -> Json:
    """How far a job is; with ``?results=true`` what there is of each input: an explanation, an error, or null."""
    runner = _runner(request)
    made = await _status(runner, job)
    plain = _plain(made)
    if results:
        known = await run_in_threadpool(runner.store.results, job)
        plain["results"] = [json.loads(known[number]) if number in known else None for number in range(made.total)]
    return Json(plain)


@router.delete("/jobs/{job}")
async def delete(request: Request, job: str) -> Json:
    """Stop a job and remove its texts and results."""
    if not await run_in_threadpool(_runner(request).store.delete, job):
        raise _unknown(job)
    return Json({"deleted": job})


def _runner(request: Request) -> JobRunner:
    runner: JobRunner | None = request.app.state.jobs
    if runner is None:
        raise Refusal(404, "this service keeps no jobs; start it with --jobs FILE", "no_jobs")
    return runner


async def _status(runner: JobRunner, job: str) -> JobStatus:
    found = await run_in_threadpool(runner.store.status, job)
    if found is None:
        raise _unknown(job)
    return found


def _unknown(job: str) -> Refusal:
    return Refusal(404, f"there is no job {job!r:.60}; it was deleted, or ended long ago", "unknown_job")


def _plain(made: JobStatus) -> dict[str, Any]:
    return dict(vars(made))
