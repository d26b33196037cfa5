"""The owner's pages as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from didact.render.markup import html_text
from didact.service.studies.texts import alert
from didact.study.export import FORMATS
from didact.study.results import RaterProgress, StudyResults

MOST_CODES = 200
WRONG_KEY = "This is not the key. It was printed when the service was started, or is what DIDACT_TOKEN holds."


def sign_in_body(problem: str = "") -> str:
    """The form for the key."""
    return (
        f'<h1>Owner of the study</h1>{alert(problem)}<form method="post" action="/owner">'
        '<input type="text" name="user" value="owner" autocomplete="username" hidden>'
        '<label class="question" for="key">Key</label>'
        '<input type="password" class="short" id="key" name="key" maxlength="200" required '
        'autocomplete="current-password">'
        '<p class="buttons"><button type="submit" class="main">Sign in</button></p></form>'
        '<div class="foot"><a href="/">To the study</a></div>'
    )


def overview_body(progress: StudyResults) -> str:
    """Progress and quality of raters, and where results and answers are."""
    design = progress.design
    exports = " ".join(f'<a href="/owner/export/answers.{form}" download>{form}</a>' for form in FORMATS)
    return (
        f"<h1>{html_text(design.title)}</h1>{_facts(_numbers(progress))}"
        f"{''.join(alert(warning) for warning in progress.warnings)}"
        f"<h2>Raters</h2>{_raters(progress.raters)}"
        "<h2>Results and answers</h2>"
        '<p><a href="/owner/results">Results so far</a>. Whoever stops a study when a difference happens to be '
        "significant finds differences that are not there: wait for the planned raters.</p>"
        f'<p class="exports">Answers: {exports}</p>'
        "<h2>Further raters</h2>"
        '<form method="post" action="/owner/invite"><label class="question" for="raters">Number of codes</label>'
        f'<input type="number" class="short" id="raters" name="raters" min="1" max="{MOST_CODES}" value="1" required>'
        '<p class="buttons"><button type="submit" class="main">Make codes</button></p></form>'
        '<div class="foot"><form method="post" action="/owner/out"><button type="submit">Sign out</button></form>'
        '<a href="/delete">Delete the data of a rater</a></div>'
    )


def codes_body(codes: Sequence[str]) -> str:
    """New invitation codes."""
    items = "".join(f"<li>{html_text(code)}</li>" for code in codes)
    return (
        f'<h1>New codes</h1><p>Give each rater one; they are in codes.txt too.</p><ul class="codes">{items}</ul>'
        '<p><a href="/owner">Back</a></p>'
    )


def _numbers(progress: StudyResults) -> list[tuple[str, str]]:
    design, raters = progress.design, progress.raters
    pages = sum(each.total for each in raters)
    return [
        ("Protocol", design.protocol),
        ("Explainers", ", ".join(design.explainers)),
        ("Items", str(design.items)),
        ("Planned raters", str(design.raters)),
        ("Valid codes", str(progress.invited)),
        ("Agreed", str(len(raters))),
        ("Finished", str(sum(each.finished for each in raters))),
        ("Pages answered", f"{sum(each.done for each in raters):,} of {pages:,}"),
        ("Preregistration", _registered(progress)),
    ]


def _registered(progress: StudyResults) -> str:
    if progress.registration.unchanged is None:
        return "not fixed yet: nobody has joined"
    return "fixed, unchanged" if progress.registration.unchanged else "changed after the first rater joined"


def _facts(entries: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<div><dt>{term}</dt><dd>{html_text(fact)}</dd></div>" for term, fact in entries)
    return f'<dl class="facts">{items}</dl>'


def _raters(raters: Sequence[RaterProgress]) -> str:
    if not raters:
        return "<p>Nobody has agreed to take part yet.</p>"
    titles = ("Rater", "Arm", "Pages", "Checks passed", "Seconds a page", "Counts")
    heads = "".join(f'<th scope="col">{title}</th>' for title in titles)
    rows = "".join(f"<tr>{_cells(each)}</tr>" for each in raters)
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Raters">'
        f'<table class="raters"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _cells(each: RaterProgress) -> str:
    values = (
        each.arm or "–",
        f"{each.done} of {each.total}",
        f"{each.passed} of {each.passed + each.failed}",
        "–" if each.seconds is None else f"{each.seconds:.1f}",
        "yes" if each.kept else "no",
    )
    cells = "".join(f"<td>{html_text(value)}</td>" for value in values)
    return f'<th scope="row">{html_text(each.rater)}</th>{cells}'
