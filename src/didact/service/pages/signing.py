"""Signing in with the service's token, for browsers, which cannot send it as a header."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.types import Scope

from didact.render.markup import html_text
from didact.service.forms import read_form
from didact.service.pages.shell import WebPage, respond
from didact.service.problems import Refusal, answer
from didact.service.studies.access import Cookies, OwnerDoor

PATH = "/login"

router = APIRouter(include_in_schema=False)


class SignIn:
    """Lets in whoever carries the token, or a cookie that was given for it.

    Args:
        token: of the service.
    """

    def __init__(self, token: str) -> None:
        self.door = OwnerDoor(token, Cookies("service", secure=False))

    def admits(self, scope: Scope) -> bool:
        """Whether a request needs no token: it is to sign in, or somebody has."""
        path: str = scope["path"]
        return path == PATH or path.startswith("/assets/") or self.door.is_owner(Request(scope))

    def refuse(self, scope: Scope, refusal: Refusal) -> Response:
        """A refusal as an answer; who opens a page without the token is sent to sign in."""
        request = Request(scope)
        wants_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
        if refusal.status_code != 401 or not wants_page:
            return answer(refusal)
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return Response(status_code=303, headers={"Location": f"{PATH}?next={quote(wanted, safe='')}"})


@router.get(PATH)
async def ask(request: Request) -> Response:
    """The form that takes the token."""
    return _form(request.query_params.get("next", "/"))


@router.post(PATH)
async def enter(request: Request) -> Response:
    """Check the token, and give a cookie for it."""
    sign_in: SignIn | None = request.app.state.sign_in
    fields = await read_form(request)
    wanted = _local(fields.get("next", "/"))
    if sign_in is not None and not sign_in.door.opens(fields.get("token", "")):
        return _form(wanted, "This is not the service's token.", 401)
    response = Response(status_code=303, headers={"Location": wanted})
    return response if sign_in is None else sign_in.door.let_in(response)


def _form(wanted: str, problem: str = "", status: int = 200) -> Response:
    message = f'<p class="problem" role="alert">{problem}</p>' if problem else ""
    body = (
        f'<h1>Sign in</h1>{message}<form method="post" action="{PATH}"><div class="fields">'
        '<div><label class="label" for="token">Token of this service</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required></div>'
        f'<input type="hidden" name="next" value="{html_text(_local(wanted))}">'
        '<div><button class="main" type="submit">Sign in</button></div></div></form>'
    )
    return respond(WebPage("Sign in", body), status)


def _local(wanted: str) -> str:
    """A path of this service; ``/`` for any other address."""
    plain = wanted.isascii() and wanted.isprintable() and "\\" not in wanted
    return wanted if plain and wanted.startswith("/") and not wanted.startswith("//") else "/"
