"""What the owner of a study does: follow progress and quality, see results, export answers, invite raters."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from didact.service.forms import read_form
from didact.service.pages.shell import REPORT_POLICY, respond
from didact.service.problems import Refusal
from didact.service.studies import dashboard
from didact.service.studies.site import site_of
from didact.service.studies.texts import study_page
from didact.study.export import FORMATS, export
from didact.study.results import study_progress
from didact.study.session import Study

TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}

router = APIRouter(prefix="/owner", include_in_schema=False)


@router.get("")
async def overview(request: Request) -> Response:
    """Progress and quality; the form to sign in for anybody else."""
    site = site_of(request)
    if not site.door.is_owner(request):
        return respond(study_page("Owner", dashboard.sign_in_body()))
    progress = await site.desk.owning(study_progress, site.study)
    return respond(study_page(f"Owner: {progress.design.title}", dashboard.overview_body(progress)))


@router.post("")
async def sign_in(request: Request) -> Response:
    """The key becomes a session."""
    site, form = site_of(request), await read_form(request)
    if not site.door.opens(form.get("key", "")):
        return respond(study_page("Owner", dashboard.sign_in_body(dashboard.WRONG_KEY)), 403)
    return site.door.let_in(RedirectResponse("/owner", 303))


@router.post("/out")
async def sign_out(request: Request) -> Response:
    """End the owner's session."""
    return site_of(request).door.let_out(request, RedirectResponse("/owner", 303))


@router.get("/results")
async def results(request: Request) -> Response:
    """The report, as ``didact study results`` writes it."""
    site = site_of(request)
    site.door.check(request)
    html = await site.desk.owning(site.desk.report)
    return Response(html, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})


@router.get("/export/answers.{form}")
async def exported(request: Request, form: str) -> Response:
    """All answers as a file."""
    site = site_of(request)
    site.door.check(request)
    if form not in FORMATS:
        raise Refusal(404, f"answers are exported as {', '.join(FORMATS)}, not as {form!r:.60}")
    content = await site.desk.owning(_exported, site.study, form)
    named = {"Content-Disposition": f'attachment; filename="answers.{form}"'}
    return Response(content, media_type=TYPES[form], headers=named)


@router.post("/invite")
async def invite(request: Request) -> Response:
    """Make further codes; they are also added to the file of codes."""
    site, form = site_of(request), await read_form(request)
    site.door.check(request)
    count = form.get("raters", "")
    if not (count.isascii() and count.isdigit() and 1 <= int(count[:6]) <= dashboard.MOST_CODES):
        raise Refusal(422, f"codes are made 1 to {dashboard.MOST_CODES} at a time here, got {count!r:.20}")
    codes = await site.desk.owning(site.study.invite, int(count))
    return respond(study_page("New codes", dashboard.codes_body(codes)))


def _exported(study: Study, form: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        (path,) = export(study, Path(folder), [form])
        return path.read_bytes()
