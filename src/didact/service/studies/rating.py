"""What raters do: join with a code, answer pages, pause, and have their data deleted."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from didact.errors import AccessError, InputError, StorageError
from didact.render.photo import photo_rules
from didact.service.forms import read_form
from didact.service.pages.shell import respond
from didact.service.studies import texts
from didact.service.studies.drawing import page_body, read_answer
from didact.service.studies.site import StudySite, site_of
from didact.service.studies.texts import study_page
from didact.study.pages import StudyPage

router = APIRouter(include_in_schema=False)


@router.get("/")
async def begin(request: Request, code: str = "") -> Response:
    """Ask for the code, unless the rater is here already."""
    site = site_of(request)
    if not code and await _current(request, site) is not None:
        return RedirectResponse("/page", 303)
    return _join_page(site, code=code[:40])


@router.post("/join")
async def join(request: Request) -> Response:
    """A code becomes a session."""
    site, form = site_of(request), await read_form(request)
    try:
        session = await site.desk.rating(site.study.join, form.get("code", ""))
    except AccessError as problem:
        return _join_page(site, str(problem), form.get("code", "")[:40], 403)
    return site.cookies.keep(RedirectResponse("/page", 303), site.cookies.rater, session.token)


@router.get("/page")
async def show(request: Request, again: bool = False) -> Response:
    """The current page of the rater."""
    site = site_of(request)
    page = await _current(request, site)
    if page is None:
        return RedirectResponse("/", 303)
    return await _shown(request, site, page, problem=texts.ANSWERED_BEFORE if again else "")


@router.post("/page")
async def answer(request: Request) -> Response:
    """Store an answer, once; the next page comes by another request, so that going back sends nothing twice."""
    site, form = site_of(request), await read_form(request)
    page = await _current(request, site)
    if page is None:
        return _join_page(site, texts.NO_SESSION, status=401)
    token = request.cookies[site.cookies.rater]
    if form.get("stamp") != await site.desk.rating(site.study.stamp, token):
        return await _shown(request, site, page, problem=texts.OTHER_RATER, status=409)
    try:
        await site.desk.rating(site.study.answer, token, form.get("page", ""), read_answer(form))
    except StorageError:
        raise
    except InputError as problem:
        return await _shown(request, site, page, form, f"{texts.NOT_STORED} {problem}", 422)
    return RedirectResponse("/page" if form.get("page") == page.id else "/page?again=1", 303)


@router.post("/pause")
async def pause(request: Request) -> Response:
    """End the session on this device; the code goes on with it."""
    site = site_of(request)
    body = f"<h1>Paused</h1><p>{texts.PAUSED}</p>{texts.link('/', 'Go on')}"
    return site.cookies.drop(respond(study_page("Paused", body)), site.cookies.rater)


@router.get("/delete")
async def before_deleting(request: Request) -> Response:
    """What deleting means, and the form for it."""
    return _delete_page(site_of(request))


@router.post("/delete")
async def delete(request: Request) -> Response:
    """Delete everything of a rater who gives the code."""
    site, form = site_of(request), await read_form(request)
    if form.get("sure") != "yes":
        return _delete_page(site, "Tick the box as well; nothing was deleted.", 422)
    try:
        deleted = await site.desk.rating(site.study.forget, form.get("code", ""))
    except AccessError as problem:
        return _delete_page(site, str(problem), 403)
    body = f"<h1>Deleted</h1><p>{texts.DELETED.format(count=deleted)}</p>"
    return site.cookies.drop(respond(study_page("Deleted", body)), site.cookies.rater)


async def _current(request: Request, site: StudySite) -> StudyPage | None:
    """The rater's page; None without a session that is known."""
    token = request.cookies.get(site.cookies.rater, "")
    try:
        return await site.desk.rating(site.study.next, token) if token else None
    except AccessError:
        return None


async def _shown(
    request: Request,
    site: StudySite,
    page: StudyPage,
    sent: Mapping[str, str] | None = None,
    problem: str = "",
    status: int = 200,
) -> Response:
    stamp = await site.desk.rating(site.study.stamp, request.cookies[site.cookies.rater])
    styles = photo_rules([page.example] if page.example is not None else [])
    body = page_body(page, stamp, site.study.design.show, sent or {}, problem)
    return respond(study_page(page.title, body + texts.FOOT, styles), status)


def _join_page(site: StudySite, problem: str = "", code: str = "", status: int = 200) -> Response:
    title = site.study.design.title
    return respond(study_page(title, texts.join_body(title, problem, code)), status)


def _delete_page(site: StudySite, problem: str = "", status: int = 200) -> Response:
    return respond(study_page("Delete my data", texts.delete_body(problem)), status)
