"""Saved reports under ``/runs``: a list of the HTML files in a folder, shown so that nothing in them can run."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from didact import disk
from didact.render import jsonio
from didact.render.html import page
from didact.render.markup import html_text
from didact.service.answering import service_of
from didact.service.forms import read_form
from didact.service.pages.playground import LINKS
from didact.service.pages.shell import REPORT_POLICY, WebPage, respond
from didact.service.problems import Refusal

LISTED = 500
"""Reports that are listed, the newest first."""
DEPTH = 4
"""Folders below the folder of reports that are looked into."""

router = APIRouter(include_in_schema=False)


@router.get("/runs")
async def listed(request: Request) -> Response:
    """The reports, the newest first."""
    folder = service_of(request).config.runs
    links = (LINKS[1], LINKS[0])
    if folder is None:
        hint = (
            '<p class="hint">Start the service with <code>--runs DIR</code> to save reports and to see them here.</p>'
        )
        return respond(WebPage("Runs", f"<h1>Runs</h1>{hint}", sheets=("playground.css",), links=links))
    known = await run_in_threadpool(reports, folder)
    newest = sorted(known.items(), key=lambda item: -item[1].stat().st_mtime)[:LISTED]
    rows = "".join(_row(name, file) for name, file in newest)
    empty = "" if rows else '<p class="hint">There are no reports yet.</p>'
    return respond(
        WebPage("Runs", f'<h1>Runs</h1><ul class="runs">{rows}</ul>{empty}', sheets=("playground.css",), links=links)
    )


@router.get("/runs/{name:path}")
async def shown(request: Request, name: str) -> Response:
    """One report. Only names that the list has are opened."""
    known = await run_in_threadpool(reports, _folder(request))
    if name not in known:
        raise Refusal(404, f"there is no report {name!r:.80}; /runs lists them")
    content = await run_in_threadpool(known[name].read_bytes)
    return Response(content, 200, {"Content-Security-Policy": REPORT_POLICY}, "text/html; charset=utf-8")


@router.post("/runs")
async def saved(request: Request) -> Response:
    """Save explanations that were shown as a report."""
    folder = _folder(request)
    fields = await read_form(request)
    explanations = await run_in_threadpool(jsonio.load, fields.get("document", ""))
    made = datetime.now(UTC)
    title = f"Playground, {made:%Y-%m-%d %H:%M} UTC"
    name = f"playground-{made:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}.html"
    content = await run_in_threadpool(page, explanations, title=title)
    await run_in_threadpool(disk.write_bytes, folder / name, content.encode("utf-8", "backslashreplace"))
    return Response(status_code=303, headers={"Location": f"/runs/{name}"})


def reports(folder: Path) -> dict[str, Path]:
    """The HTML files in a folder by their paths below it; links that lead out of it are left out."""
    root = folder.resolve()
    known = {}
    for depth in range(DEPTH + 1):
        for file in root.glob("*/" * depth + "*.html"):
            if file.is_file() and file.resolve().is_relative_to(root):
                known[file.relative_to(root).as_posix()] = file
    return known


def _folder(request: Request) -> Path:
    folder = service_of(request).config.runs
    if folder is None:
        raise Refusal(404, "this service has no folder of reports; start it with --runs DIR", "no_runs")
    return folder


def _row(name: str, file: Path) -> str:
    when = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    address = html_text(f"/runs/{quote(name)}")
    return f'<li><a href="{address}">{html_text(name)}</a> <span class="quiet">{when:%Y-%m-%d %H:%M} UTC</span></li>'
