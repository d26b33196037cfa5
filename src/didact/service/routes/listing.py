"""What there is: models, methods, health and figures."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from didact.api import default_method, list_methods
from didact.service.answering import service_of
from didact.service.problems import Json
from didact.service.workers import ModelWorker

router = APIRouter()


@router.get("/v1/models", tags=["listing"])
async def models(request: Request) -> Json:
    """Served models, the first of which is used where a request names none."""
    return Json({"models": [_model(worker) for worker in service_of(request).workers.values()]})


@router.get("/v1/methods", tags=["listing"])
async def methods(request: Request, model: str | None = None) -> Json:
    """Cards of the methods that work with a model."""
    worker = service_of(request).worker(model)
    cards = await run_in_threadpool(list_methods, worker.model)
    return Json(
        {
            "model": worker.served.name,
            "default": default_method(worker.model),
            "methods": [card.to_dict() for card in cards if not card.needs_rationale],
            "explainers": sorted(worker.explainers),
        }
    )


@router.get("/livez", tags=["health"])
async def livez() -> Json:
    """Whether the process answers."""
    return Json({"status": "alive"})


@router.get("/readyz", tags=["health"])
async def readyz(request: Request) -> Json:
    """Whether requests would be computed: 200, or 503 while a model is loaded or the service shuts down."""
    service = service_of(request)
    states = {name: worker.state for name, worker in service.workers.items()}
    status = "draining" if service.draining else "ready" if service.ready else "loading"
    return Json({"status": status, "models": states}, 200 if service.ready else 503)


@router.get("/metrics", tags=["health"])
async def metrics(request: Request) -> Response:
    """Counters and gauges in Prometheus's format."""
    service = service_of(request)
    queues = {name: (worker.waiting.size[0], worker.waiting.expected) for name, worker in service.workers.items()}
    return Response(service.monitor.text(queues), media_type="text/plain; version=0.0.4; charset=utf-8")


def _model(worker: ModelWorker) -> dict[str, object]:
    plain: dict[str, object] = {"name": worker.served.name, "state": worker.state}
    if worker.state != "ready":
        return plain | ({"failure": worker.failure} if worker.failure else {})
    model = worker.model
    return plain | {
        "labels": list(model.labels),
        "scales": list(model.scales),
        "levels": list(model.levels),
        "offers": sorted(model.capabilities),
        "explainers": sorted(worker.explainers),
        "default_method": default_method(model),
    }
