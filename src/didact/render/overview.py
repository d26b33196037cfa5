"""Models and methods as tables: HTML for notebooks, plain lines for a prompt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from didact.protocols import Model
from didact.render.markup import html_text
from didact.render.style import isolated, stylesheet
from didact.types import Card

LABELS = 12
"""How many labels of a model are shown."""

_METHOD_COLUMNS = ("method", "family", "needs", "signed", "cost", "summary")


class MethodList(list[Card]):
    """Cards of methods; a prompt prints a line for each, a notebook draws a table."""

    def __repr__(self) -> str:
        width = max((len(card.name) for card in self), default=0)
        return "\n".join(f"{card.name:{width}}  {card.family}: {card.summary}" for card in self) or "no methods"

    def _repr_html_(self) -> str:
        rows = [
            (
                f"<b>{html_text(card.name)}</b>",
                html_text(card.family),
                html_text(", ".join(sorted(card.needs)) or "–"),
                "yes" if card.signed else "no",
                html_text(card.cost),
                html_text(card.summary),
            )
            for card in self
        ]
        return _framed(f'<h2 class="prediction"><b>{_counted(len(self))}</b></h2>{_table(_METHOD_COLUMNS, rows)}')


def model_fragment(model: Model, methods: Sequence[Card]) -> str:
    """What a model predicts and offers, and the methods that explain it, as HTML to put into another document."""
    labels = ", ".join(model.labels[:LABELS])
    more = len(model.labels) - LABELS
    facts = (
        ("Predicts", f"{labels} and {more} more" if more > 0 else labels),
        ("Units", ", ".join(model.levels)),
        ("Scales", ", ".join(model.scales)),
        ("Offers methods", ", ".join(sorted(model.capabilities)) or "its predictions, nothing else"),
        (f"Explained by {_counted(len(methods))}", ", ".join(card.name for card in methods)),
    )
    items = "".join(f"<div><dt>{html_text(term)}</dt><dd>{html_text(fact)}</dd></div>" for term, fact in facts)
    return _framed(f'<h2 class="prediction"><b>{html_text(model.name)}</b></h2><dl class="facts">{items}</dl>')


def _framed(inner: str) -> str:
    return (
        f'<div class="didact"><style>{isolated(stylesheet())}</style><section class="example">{inner}</section></div>'
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML; it scrolls sideways where there is no room."""
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="wide-table"><table class="list"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _counted(methods: int) -> str:
    return f"{methods} method{'' if methods == 1 else 's'}"
