"""``create_app``: a configuration becomes a web application."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import Scope

from didact.errors import DidactError
from didact.service.config import ServiceConfig
from didact.service.core import Service
from didact.service.guard import Guard
from didact.service.job_runner import JobRunner
from didact.service.jobs import JobStore
from didact.service.pages import playground, runs, shell, signing
from didact.service.pages.signing import SignIn
from didact.service.problems import answer
from didact.service.routes import explaining, jobs, listing, streaming
from didact.service.strict import as_refusal

LOG = logging.getLogger("didact.service")
LAST_SECONDS = 30.0
"""How long the end of the app waits for what is still computed."""


def create_app(config: ServiceConfig) -> FastAPI:
    """A web application that explains with the configured models.

    Nothing is loaded before the app starts; then models are loaded in threads of their own, while ``/livez`` answers
    already and ``/readyz`` reports when they are there.
    """
    service = Service(config)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        runner = app.state.jobs = None if config.jobs is None else JobRunner(service, JobStore(config.jobs))
        if runner is not None:
            runner.start()
        yield
        await run_in_threadpool(service.stop, LAST_SECONDS)
        if runner is not None:
            await run_in_threadpool(runner.stop, LAST_SECONDS)

    app = FastAPI(
        title="didact",
        version=version("didact"),
        summary="Explains the predictions of transformer models.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    app.state.jobs = None
    app.state.sign_in = None if config.token is None else SignIn(config.token)
    for part in (explaining, streaming, jobs, listing, shell, signing, playground, runs):
        app.include_router(part.router)
    for kind in (HTTPException, RequestValidationError, DidactError):
        app.add_exception_handler(kind, _refused)
    app.add_middleware(Guard, config=config, observe=_observer(service), sign_in=app.state.sign_in)
    return app


def _observer(service: Service):  # type: ignore[no-untyped-def] # the type is Guard's
    def observe(scope: Scope, status: int, seconds: float) -> None:
        path = getattr(scope.get("route"), "path", "other")
        service.monitor.answered(path, status, seconds)

    return observe


async def _refused(request: Request, problem: Exception) -> Response:
    """Any error as the one shape; the text of an unexpected one stays in the log."""
    return answer(as_refusal(problem))
