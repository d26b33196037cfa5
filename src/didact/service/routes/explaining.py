"""Predictions and explanations."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from didact.service.answering import computed, computed_single, service_of
from didact.service.problems import Json, Refusal, refusal_of
from didact.service.schemas import Answered, CompareBody, ErrorBody, ExplainBody, PredictBody
from didact.service.strict import JsonRoute
from didact.service.work import Work

REFUSED: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": about}
    for status, about in {
        400: "Not JSON.",
        401: "The bearer token is missing or wrong.",
        413: "More than a limit allows; costly work goes to /v1/jobs.",
        422: "The request cannot be carried out as it is; the message gives the reason.",
        429: "The queue is full; Retry-After has the seconds after which there is room.",
        503: "The model is being loaded, or the service shuts down.",
        504: "The time is up; with estimates in 'partial' where the method has any.",
    }.items()
}

router = APIRouter(prefix="/v1", route_class=JsonRoute, tags=["explain"], responses=REFUSED)


@router.post("/predict", response_model=Answered)
async def predict(request: Request, body: PredictBody) -> Json:
    """Plain predictions of the inputs."""
    worker, (work,) = await run_in_threadpool(service_of(request).predicting, body)
    results = await computed_single(request, worker, work, body.seconds)
    return Json({"model": worker.served.name, "predictions": work.plain(results)})


@router.post("/explain", response_model=Answered)
async def explain(request: Request, body: ExplainBody) -> Json:
    """Explanations of the inputs by one method or saved explainer."""
    worker, (work,) = await run_in_threadpool(service_of(request).explaining, body)
    results = await computed_single(request, worker, work, body.seconds)
    return Json({"model": worker.served.name, "explanations": work.plain(results)})


@router.post("/compare", response_model=Answered)
async def compare(request: Request, body: CompareBody) -> Json:
    """Explanations of one input by several methods; those that cannot explain it are in ``skipped``."""
    worker, made = await run_in_threadpool(service_of(request).comparing, body)
    works = {name: work for name, work in made.items() if isinstance(work, Work)}
    failed = {name: refusal for name, refusal in made.items() if isinstance(refusal, Refusal)}
    explanations = []
    if works:
        outcomes = await computed(request, worker, list(works.values()), body.seconds)
        for name, outcome in zip(works, outcomes, strict=True):
            if isinstance(outcome, list):
                explanations += works[name].plain(outcome)
            else:
                failed[name] = refusal_of(outcome if isinstance(outcome, Exception) else Refusal(503, "stopped"))
    skipped = [{"method": name, **_error(refusal)} for name, refusal in failed.items()]
    return Json({"model": worker.served.name, "explanations": explanations, "skipped": skipped})


@router.post("/cost")
async def cost(request: Request, body: ExplainBody) -> Json:
    """What the same request to /v1/explain would take, without computing it."""
    service = service_of(request)
    worker, made, seconds = await run_in_threadpool(service.estimating, body)
    counts = {name: value for name, value in made.to_dict().items() if name != "seconds"}
    limits = service.config.limits
    return Json(
        {
            "model": worker.served.name,
            **counts,
            "cost": made.seconds,
            "seconds": seconds,
            "waiting_seconds": worker.waiting.expected,
            "request_limit": limits.request_cost,
            "is_job": made.seconds > limits.request_cost,
        }
    )


def _error(refusal: Refusal) -> dict[str, object]:
    return {"code": refusal.code, "message": str(refusal.detail)}
