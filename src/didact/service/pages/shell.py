"""The frame of every page: head, navigation, style sheets, and the policy that lets nothing else run or load."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePath

from fastapi import APIRouter, Response

from didact.render.markup import html_text
from didact.render.photo import photo_styles
from didact.render.style import stylesheet
from didact.service.problems import Refusal

TYPES = {".css": "text/css", ".js": "text/javascript"}
"""Endings of the files in ``assets`` that pages may load, and their types."""

REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""Of a report, which is one page with its own styles, readable without scripts, of which none is run."""

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class WebPage:
    """A page without its frame.

    Attributes:
        title: of the window; not yet escaped.
        body: HTML inside ``<main>``; every text from elsewhere in it went through ``html_text``.
        styles: CSS of this page alone, such as its images.
        modules: files in ``assets`` to run.
        links: of the navigation, address and title, the current page's first.
        sheets: files in ``assets`` with further styles.
    """

    title: str
    body: str
    styles: str = ""
    modules: Sequence[str] = ()
    links: Sequence[tuple[str, str]] = ()
    sheets: Sequence[str] = ()


def respond(page: WebPage, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A page as a response with its policy."""
    nonce = secrets.token_urlsafe(16)
    policy = {"Content-Security-Policy": content_policy(nonce)}
    return Response(framed(page, nonce), status, {**(headers or {}), **policy}, "text/html; charset=utf-8")


def content_policy(nonce: str) -> str:
    """Scripts and style sheets come from this service alone, images from it or the page; nothing else is loaded."""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def framed(page: WebPage, nonce: str) -> str:
    """The whole document."""
    sheets = "".join(
        f'<link rel="stylesheet" href="/assets/{name}">\n' for name in ("didact.css", "pages.css", *page.sheets)
    )
    modules = "".join(f'<script type="module" src="/assets/{name}"></script>\n' for name in page.modules)
    styles = f'<style nonce="{nonce}">{page.styles}</style>\n' if page.styles else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html_text(page.title)}</title>\n"
        f'<link rel="icon" href="data:,">\n{sheets}'
        f'{styles}{modules}</head>\n<body class="didact">\n<a class="skip" href="#main">Skip to the content</a>\n'
        f'{_header(page.links)}<main id="main" tabindex="-1">\n{page.body}\n</main>\n</body>\n</html>\n'
    )


@router.get("/assets/{name}")
async def asset(name: str) -> Response:
    """A style sheet or a module of the pages."""
    known = assets()
    if name not in known:
        raise Refusal(404, f"there is no file {name!r:.60}; known: {', '.join(known)}")
    kind, content = known[name]
    return Response(content, media_type=kind)


@cache
def assets() -> dict[str, tuple[str, bytes]]:
    """Type and content of every file that pages load; ``didact.css`` is the style sheet of all HTML outputs."""
    sheet = f"{stylesheet()}\n{photo_styles()}\n"
    known = {"didact.css": (TYPES[".css"], sheet.encode())}
    for file in files("didact.service.pages").joinpath("assets").iterdir():
        kind = TYPES.get(PurePath(file.name).suffix)
        if kind:
            known[file.name] = kind, file.read_bytes()
    return known


def _header(links: Sequence[tuple[str, str]]) -> str:
    """The navigation; its first entry is the page itself."""
    if not links:
        return ""
    items = "".join(
        f'<a href="{html_text(address)}"{"" if number else " aria-current=page"}>{html_text(title)}</a>'
        for number, (address, title) in enumerate(links)
    )
    return f'<header class="top"><nav class="pages" aria-label="Pages">{items}</nav></header>\n'
