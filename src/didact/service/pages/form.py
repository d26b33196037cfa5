"""The form of the playground: what is explained, by which model and methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from didact.api import default_method, list_methods
from didact.render.markup import html_text
from didact.service.core import Service
from didact.service.pages.computing import CLASSES, takes_images, takes_questions
from didact.service.pages.query import SAVED, Query
from didact.service.workers import ModelWorker
from didact.types import Card

EXAMPLE = "A warm, funny and truly wonderful film with one dull scene."
LABELS = 200
"""Labels that can be chosen; others are given by their address."""


@dataclass(frozen=True)
class Choices:
    """What the form offers for one model.

    Attributes:
        model: its name.
        ready: whether it is loaded; until then only models can be chosen.
        images: whether it takes images in place of texts.
        questions: whether it answers questions about passages.
        labels: its classes.
        cards: of the methods that work with it.
        saved: names of its saved explainers.
        default: the method that is used where none is chosen.
    """

    model: str
    ready: bool = False
    images: bool = False
    questions: bool = False
    labels: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    saved: tuple[str, ...] = ()
    default: str = ""


def choices(worker: ModelWorker) -> Choices:
    """What can be chosen for a worker's model."""
    if worker.state != "ready":
        return Choices(worker.served.name)
    model = worker.model
    images = takes_images(model)
    cards = [card for card in list_methods(model) if not card.needs_rationale]
    return Choices(
        worker.served.name,
        ready=True,
        images=images,
        questions=takes_questions(model),
        labels=tuple(model.labels),
        cards=tuple(card for card in cards if not images or "image" in card.inputs),
        saved=tuple(sorted(worker.explainers)),
        default=default_method(model),
    )


def form(service: Service, query: Query, offered: Choices) -> str:
    """The form, filled in with a query. It works without JavaScript: a text by its address, an image by upload."""
    kind = 'method="post" enctype="multipart/form-data"' if offered.images else 'method="get"'
    fields = _image() if offered.images else _texts(query, offered)
    flip = "" if offered.images or len(offered.labels) < 2 else _flip(query)
    return (
        f'<form id="ask" action="/" {kind}><div class="fields">{fields}'
        f'<div class="row">{_models(service, offered)}{_targets(query, offered)}</div>'
        f"{_methods(query, offered)}"
        f'<div class="row"><button class="main" type="submit">Explain</button>{flip}'
        '<span id="working" role="status"></span></div></div></form>'
    )


def _texts(query: Query, offered: Choices) -> str:
    first, second = ("Question", "Passage") if offered.questions else ("Text", "Second text, for models of pairs")
    text = query.text or ("" if offered.questions else EXAMPLE)
    further = _area("second", second, query.second)
    if not offered.questions:
        opened = " open" if query.second else ""
        further = f"<details{opened}><summary>Second text</summary>{further}</details>"
    return _area("text", first, text) + further


def _area(name: str, title: str, text: str) -> str:
    # The parser drops the first line break of a textarea.
    return (
        f'<div><label class="label" for="{name}">{title}</label>'
        f'<textarea id="{name}" name="{name}" rows="3" dir="auto" spellcheck="false">\n{escape(text)}</textarea></div>'
    )


def _image() -> str:
    return (
        '<div><label class="label" for="image">Image (PNG or JPEG)</label>'
        '<input id="image" name="image" type="file" accept="image/png,image/jpeg" required></div>'
    )


def _models(service: Service, offered: Choices) -> str:
    names = list(service.workers)
    if len(names) == 1:
        return f'<input type="hidden" name="model" value="{html_text(names[0])}">'
    return _select("model", "Model", ((name, name) for name in names), offered.model)


def _targets(query: Query, offered: Choices) -> str:
    if len(offered.labels) < 2 or offered.questions:
        return ""
    every = [("all", "every class")] if len(offered.labels) <= CLASSES else []
    named = [(label, label) for label in offered.labels[:LABELS]]
    chosen = _select("target", "Explained class", [("", "what is predicted"), *every, *named], query.target)
    return chosen + _select("rather", "Rather than", [("", "(none)"), *named], query.rather)


def _select(name: str, title: str, options: Iterable[tuple[str, str]], chosen: str) -> str:
    items = "".join(
        f'<option value="{html_text(value)}"{" selected" if value == chosen else ""}>{html_text(shown)}</option>'
        for value, shown in options
    )
    label = f'<label class="label" for="{name}">{title}</label>'
    return f'<div>{label}<select id="{name}" name="{name}">{items}</select></div>'


def _methods(query: Query, offered: Choices) -> str:
    """Methods by family, in a list that opens; its title names those that are chosen."""
    chosen = query.methods or (offered.default,)
    families: dict[str, list[str]] = {}
    for name in offered.saved:
        families.setdefault("saved explainers", []).append(_check(SAVED + name, name, "", chosen))
    for card in offered.cards:
        families.setdefault(card.family, []).append(_check(card.name, card.name, card.summary, chosen))
    groups = "".join(
        f'<fieldset><legend>{html_text(family)}</legend><div class="choices">{"".join(checks)}</div></fieldset>'
        for family, checks in families.items()
    )
    named = html_text(", ".join(name.removeprefix(SAVED) for name in chosen))
    title = f"<summary>Methods: <b>{named}</b></summary>"
    return f'<details class="chosen">{title}<div class="fields">{groups}</div></details>'


def _check(value: str, name: str, about: str, chosen: Sequence[str]) -> str:
    checked = " checked" if value in chosen else ""
    return (
        f'<label title="{html_text(about)}"><input type="checkbox" name="method" value="{html_text(value)}"{checked}>'
        f"{html_text(name)}</label>"
    )


def _flip(query: Query) -> str:
    checked = " checked" if query.flip else ""
    return (
        f'<div class="choices"><label><input type="checkbox" name="flip" value="1"{checked}>'
        "search for the smallest change that flips the prediction</label></div>"
    )
