"""What the study's pages say around the items: joining, pausing, deleting, and what went wrong."""

from __future__ import annotations

from didact.render.markup import html_text
from didact.service.pages.shell import WebPage

NO_SESSION = "This window had no session any more, and the answer was not stored; give your code to go on."
OTHER_RATER = (
    "This window belonged to another code than the one that was used last in this browser. The answer was not stored; "
    "this is the current page of the code used last."
)
ANSWERED_BEFORE = "The page that was sent had been answered before; the first answer counts. This is the next one."
NOT_STORED = "Nothing was stored yet:"
PAUSED = "Your answers are stored. You can close this window and go on with the same code, on any device."
DELETED = "{count} entries were deleted for good, and the code is not valid any more. You can close this window."
NOT_WRITTEN = "the answer could not be written just now; nothing was stored, send it again"

FOOT = (
    '<div class="foot"><form method="post" action="/pause"><button type="submit">Pause and go on later</button></form>'
    '<a href="/delete">Delete my data</a></div>'
)


def study_page(title: str, body: str, styles: str = "") -> WebPage:
    """A page in the styles of studies."""
    return WebPage(title, body, styles, sheets=("study.css",))


def link(address: str, title: str) -> str:
    """A link to one of our own pages."""
    return f'<p><a href="{html_text(address)}">{html_text(title)}</a></p>'


def alert(problem: str) -> str:
    """What went wrong, read aloud by screen readers; empty where nothing did."""
    return f'<p class="problem" role="alert">{html_text(problem)}</p>' if problem else ""


def join_body(title: str, problem: str, code: str) -> str:
    """The form for the invitation code."""
    return (
        f'<h1>{html_text(title)}</h1>{alert(problem)}<form method="post" action="/join">'
        "<p>Enter the code that you were given. With the same code you go on where you stopped.</p>"
        f"{_code_field(code)}"
        '<p class="buttons"><button type="submit" class="main">Begin or go on</button></p></form>'
        '<div class="foot"><a href="/delete">Delete my data</a></div>'
    )


def delete_body(problem: str) -> str:
    """What deleting means, and the form for it."""
    return (
        f'<h1>Delete my data</h1>{alert(problem)}<form method="post" action="/delete">'
        "<p>Everything that was answered with your code is deleted for good, also from the results that are computed "
        "from now on. The code is not valid any more. This cannot be undone.</p>"
        f"{_code_field()}"
        '<p><label class="confirm"><input type="checkbox" name="sure" value="yes" required> '
        "Yes, delete everything that I answered</label></p>"
        '<p class="buttons"><button type="submit" class="main">Delete</button></p></form>'
        '<div class="foot"><a href="/">Back</a></div>'
    )


def _code_field(code: str = "") -> str:
    return (
        '<label class="question" for="code">Your code</label>'
        f'<input type="text" class="short" id="code" name="code" value="{html_text(code)}" maxlength="40" required '
        'autocomplete="off" autocapitalize="characters" spellcheck="false">'
    )
