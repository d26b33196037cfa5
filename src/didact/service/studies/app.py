"""``create_study_app``: a study becomes a web application that raters and the owner open in a browser."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import Scope

from didact.errors import DidactError, FormatError, ParameterError, StorageError
from didact.render.markup import html_text
from didact.service.config import ServiceConfig
from didact.service.guard import Guard
from didact.service.pages import shell
from didact.service.pages.shell import respond
from didact.service.problems import Json, Refusal, answer
from didact.service.strict import as_refusal
from didact.service.studies import owning, rating
from didact.service.studies.access import Cookies, OwnerDoor
from didact.service.studies.desk import StudyDesk
from didact.service.studies.site import StudySite
from didact.service.studies.texts import NOT_WRITTEN, link, study_page
from didact.study.results import StudyResults
from didact.study.session import Study

LOG = logging.getLogger("didact.service")


def create_study_app(
    study: Study, config: ServiceConfig, report: Callable[[StudyResults], str], *, secure: bool = False
) -> FastAPI:
    """The pages of one study.

    Raters need an invitation code and nothing else. The owner needs the token of the configuration.

    Args:
        study: on disk.
        config: where it is reached; its models are not loaded.
        report: makes the HTML page of results.
        secure: whether it is reached by HTTPS.
    """
    if config.token is None:
        raise ParameterError("the pages of a study need a token: it is the key of the owner")
    desk = StudyDesk(study, report)
    cookies = Cookies(study.salt, secure)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(desk.close)

    app = FastAPI(title="didact study", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.site = StudySite(desk, cookies, OwnerDoor(config.token, cookies))
    app.add_api_route("/livez", _alive, include_in_schema=False)
    for router in (rating.router, owning.router, shell.router):
        app.include_router(router)
    for kind in (HTTPException, RequestValidationError, DidactError):
        app.add_exception_handler(kind, _refused)
    app.add_middleware(Guard, config=config, observe=_unobserved, is_open=lambda path: True)
    return app


async def _alive() -> Json:
    """Whether the process answers."""
    return Json({"status": "alive"})


def _unobserved(scope: Scope, status: int, seconds: float) -> None:
    """Nothing is counted about raters."""


async def _refused(request: Request, problem: Exception) -> Response:
    """A page for people, the one error shape for programs; neither gives away what is on the disk."""
    refusal = _refusal(problem)
    if "text/html" not in request.headers.get("accept", ""):
        return answer(refusal)
    body = f'<h1>This did not work</h1><p role="alert">{html_text(refusal.message)}</p>{link("/", "To the study")}'
    return respond(study_page("This did not work", body), refusal.status_code, refusal.headers)


def _refusal(problem: Exception) -> Refusal:
    if isinstance(problem, StorageError):
        return Refusal(503, NOT_WRITTEN, "not_written", {"Retry-After": "2"})
    if isinstance(problem, FormatError):
        LOG.error("the study cannot be read: %s", problem)
        return Refusal(500, "the files of the study cannot be read; tell the person who gave you your code")
    return as_refusal(problem)
