"""The results of the playground as HTML: what changed, the explanations, the flip, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape
from urllib.parse import quote_plus

from didact.decisions.page import flip_html
from didact.render import answers, facts, jsonio
from didact.render.html import unstyled
from didact.render.markup import html_text, minus_signs
from didact.render.pieces import name
from didact.service.config import ServiceConfig
from didact.service.pages.computing import Seen
from didact.service.pages.query import SAVED, Query
from didact.types import Explanation

SPARE = 100
"""Bytes of a form beside the explanations."""
CHANGED = 6
"""Units whose scores changed most, shown after an edit."""


def results(seen: Seen, query: Query, config: ServiceConfig) -> tuple[str, str]:
    """What was computed, as HTML and the CSS of its images.

    Args:
        seen: what was computed.
        query: what it was computed from.
        config: of the service: whether reports can be saved, and how much a form may hold.
    """
    shown, styles = unstyled(seen.explanations)
    parts = [
        _edit(seen, query),
        f'<div id="explanations">{shown}</div>',
        '<p id="about" class="notice" role="status" hidden></p>',
        _flipped(seen, query),
        _skipped(seen),
        _exports(seen, query, config),
    ]
    return "".join(parts), styles


def _edit(seen: Seen, query: Query) -> str:
    """What an edit changed: the prediction, and the scores of each method word by word."""
    if not seen.earlier:
        return ""
    before, after = seen.earlier[0], seen.explanations[0]
    tables = "".join(_scores(old, new) for old, new in zip(seen.earlier, seen.explanations, strict=False))
    undo = html_text(query.address(text=query.before, before=""))
    return (
        '<section class="edit" aria-labelledby="edit"><h2 id="edit">What the edit changed</h2>'
        f"<p>Predicted before: <b>{_predicted(before)}</b>, now: <b>{_predicted(after)}</b>. "
        f'<a href="{undo}">Back to the text before</a></p>{tables}</section>'
    )


def _predicted(explanation: Explanation) -> str:
    return html_text(answers.predicted(explanation)) + " " + minus_signs(html_text(facts.certainty(explanation)))


def _scores(before: Explanation, after: Explanation) -> str:
    """The units whose scores changed most, and in a list that opens all of them in the order of the texts."""
    units = list(_aligned(before, after))
    most = sorted(units, key=lambda unit: -unit.change)[:CHANGED]
    method, label = html_text(after.method), html_text(answers.explained(after))
    title = f"<p>Largest changes of scores of {method} for {label}:</p>"
    every = f"<details><summary>All {len(units)} units</summary>{_table(units)}</details>"
    return title + _table(most) + (every if len(units) > len(most) else "")


@dataclass(frozen=True)
class _Unit:
    """A unit of either text, its scores as written with a dash where a text lacks it, and how much they differ."""

    text: str
    before: str
    after: str
    change: float


def _table(units: Sequence[_Unit]) -> str:
    rows = "".join(
        f'<tr><td dir="auto">{html_text(name(unit.text))}</td>'
        f'<td class="number">{minus_signs(html_text(unit.before))}</td>'
        f'<td class="number">{minus_signs(html_text(unit.after))}</td></tr>'
        for unit in units
    )
    heads = '<th scope="col">unit</th><th scope="col" class="number">before</th><th scope="col" class="number">now</th>'
    return f'<table class="scores"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'


def _aligned(before: Explanation, after: Explanation) -> Iterator[_Unit]:
    """The units of both texts in their order; those that stand in both are one."""
    old, new = (
        list(zip(each.units.texts, facts.estimates(each), each.scores, strict=True)) for each in (before, after)
    )
    matcher = SequenceMatcher(None, before.units.texts, after.units.texts, autojunk=False)
    for kind, i, end_i, j, end_j in matcher.get_opcodes():
        if kind == "equal":
            for (text, was, past), (_, now, present) in zip(old[i:end_i], new[j:end_j], strict=True):
                yield _Unit(text, was, now, abs(present - past))
        else:
            yield from (_Unit(text, was, "–", abs(past)) for text, was, past in old[i:end_i])
            yield from (_Unit(text, "–", now, abs(present)) for text, now, present in new[j:end_j])


def _flipped(seen: Seen, query: Query) -> str:
    if seen.flip is None:
        return ""
    after = seen.flip.after.texts
    link = query.address(text=after[0], second=after[1] if len(after) > 1 else "", before=query.text, flip=False)
    explain = f'<p><a href="{html_text(link)}">Explain the changed text</a></p>' if seen.flip.changes else ""
    return (
        '<section class="flip" aria-labelledby="flip"><h2 id="flip">What would change the prediction</h2>'
        f"{flip_html(seen.flip)}{explain}</section>"
    )


def _skipped(seen: Seen) -> str:
    items = "".join(
        f"<li><b>{html_text(method.removeprefix(SAVED))}</b>: {html_text(reason)}</li>"
        for method, reason in seen.skipped.items()
    )
    return f'<div class="problem" role="note"><p>Not computed:</p><ul>{items}</ul></div>' if items else ""


def _exports(seen: Seen, query: Query, config: ServiceConfig) -> str:
    """Buttons that send the explanations as they are, so that nothing is computed again."""
    plain = jsonio.dump(seen.explanations)
    if len(quote_plus(plain)) + SPARE > config.limits.body:
        return '<p class="hint">This is too large to be kept from here; didact.explain and its save have no limit.</p>'
    document = escape(plain)
    link = (
        "" if query.image else f'<a class="button" id="link" href="{html_text(query.address())}">Link to this view</a>'
    )
    save = '<button type="submit" formaction="/runs">Save under Runs</button>' if config.runs else ""
    return (
        '<section class="exports" aria-labelledby="exports"><h2 id="exports">Keep it</h2>'
        f'<form method="post" action="/export"><textarea name="document" hidden>\n{document}</textarea>'
        f'<div class="row">{link}{_formats(seen)}{_record(seen, query)}{save}</div></form></section>'
    )


def _formats(seen: Seen) -> str:
    """A button per format. A picture of a text is drawn by the browser from the SVG."""
    buttons = [_button(form, title) for form, title in (("html", "HTML"), ("json", "JSON"), ("svg", "SVG"))]
    if seen.explanations[0].example.is_textual:
        return "".join(buttons) + '<button type="button" id="png" hidden>PNG</button>'
    pictures = [
        _button(f"png-{number}", f"PNG of {each.method}, {answers.explained(each)}")
        for number, each in enumerate(seen.explanations)
    ]
    return "".join([*buttons[:2], *pictures])


def _button(form: str, title: str) -> str:
    return f'<button type="submit" name="form" value="{form}">{html_text(title)}</button>'


def _record(seen: Seen, query: Query) -> str:
    first = seen.explanations[0]
    if not first.example.is_textual or first.prediction.kind != "class" or len(first.prediction.labels) < 2:
        return ""
    return f'<a class="button" href="{html_text(query.address("/record", before="", flip=False))}">Decision record</a>'


def problem(message: str) -> str:
    """A refusal in words."""
    return f'<p class="problem" role="alert">{html_text(message)}</p>'


def nothing(labels: Sequence[str], model: str) -> str:
    """What stands where results will."""
    named = ", ".join(labels[:8]) + (f" and {len(labels) - 8} more" if len(labels) > 8 else "")
    return f'<p class="hint">{html_text(model)} predicts: {html_text(named)}.</p>' if labels else ""
