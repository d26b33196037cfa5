"""The playground: explanations for people, at ``/``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from didact.errors import DidactError, FormatError
from didact.render import jsonio
from didact.render.formats import FORMATS, PICTURE, encoded
from didact.service.answering import service_of
from didact.service.forms import read_form
from didact.service.pages import results as shown
from didact.service.pages.computing import Seen, computed_record, computed_view
from didact.service.pages.form import choices, form
from didact.service.pages.query import Query, read_query
from didact.service.pages.shell import WebPage, respond
from didact.service.problems import Refusal, refusal_of

LINKS = (("/", "Playground"), ("/runs", "Runs"))
TYPES = {"html": "text/html", "json": "application/json", "svg": "image/svg+xml", "png": "image/png"}

router = APIRouter(include_in_schema=False)


@router.get("/")
@router.post("/")
async def playground(request: Request) -> Response:
    """The form, and the results of what it holds."""
    query, seen, refusal = Query(), None, None
    try:
        _check_site(request)
        query = await read_query(request)
        if not query.empty:
            seen = await computed_view(request, query)
    except (Refusal, DidactError) as problem:
        refusal = refusal_of(problem)
    return await run_in_threadpool(_page, request, query, seen, refusal)


@router.get("/record")
async def record(request: Request) -> Response:
    """The decision record of a view, as a file."""
    _check_site(request)
    made = await computed_record(request, await read_query(request))
    return _file(made.to_html().encode("utf-8", "backslashreplace"), "decision-record.html", TYPES["html"])


@router.post("/export")
async def export(request: Request) -> Response:
    """Explanations that were shown, as a file of another format."""
    fields = await read_form(request)
    name, _, number = fields.get("form", "").partition("-")
    explanations = await run_in_threadpool(jsonio.load, fields.get("document", ""))
    if name == PICTURE and number.isascii() and number.isdigit():
        explanations = explanations[int(number[:9]) :][:1]
    if name not in TYPES or name not in (*FORMATS, PICTURE) or not explanations:
        raise FormatError(f"no file can be made as {name!r:.40}; allowed are {', '.join(TYPES)}")
    content = await run_in_threadpool(encoded, explanations, name)
    return _file(content, f"explanations.{name}", TYPES[name])


def _page(request: Request, query: Query, seen: Seen | None, refusal: Refusal | None) -> Response:
    service = service_of(request)
    worker = service.workers.get(query.model) or service.worker(None)
    offered = choices(worker)
    inner, styles, status, headers = shown.nothing(offered.labels, offered.model), "", 200, {}
    if not offered.ready and refusal is None:
        refusal = Refusal(503, f"the model {offered.model} is {worker.state}", headers={"Retry-After": "2"})
    if refusal is not None:
        inner, status = shown.problem(str(refusal.detail)), refusal.status_code
        headers = dict(refusal.headers or {})
        if status == 503 and worker.state == "loading" and request.method == "GET":
            headers["Refresh"] = "2"
    if seen is not None:
        inner, styles = shown.results(seen, query, service.config)
    body = f'<h1>Why this prediction?</h1>{form(service, query, offered)}<div id="results">{inner}</div>'
    page = WebPage("didact playground", body, styles, ("playground.js",), LINKS, ("playground.css",))
    return respond(page, status, headers)


def _check_site(request: Request) -> None:
    """Refuse a page elsewhere that has things computed by loading them as its parts; links to views may stand there."""
    site = request.headers.get("sec-fetch-site", "none")
    if site not in ("none", "same-origin") and request.headers.get("sec-fetch-mode") != "navigate":
        raise Refusal(403, "a page of another site may link to this service, and may not load from it")


def _file(content: bytes, name: str, kind: str) -> Response:
    """A file to keep; opened in the browser it would run nothing and load nothing."""
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return Response(content, 200, headers, kind)
