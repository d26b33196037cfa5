"""Explanations as HTML: a fragment for notebooks, and a page that needs nothing but itself and can be read back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser

from didact.errors import FormatError
from didact.render import answers, facts, jsonio
from didact.render.colour import strengths
from didact.render.markup import html_text, minus_signs
from didact.render.photo import explained_photo, photo, photo_rules, photo_styles
from didact.render.pieces import Piece, name, pieces, ranked
from didact.render.style import isolated, level, stylesheet
from didact.types import Example, Explanation, Image

DATA_ID = "didact-explanations"
"""Id of the script element that holds the explanations of a page as JSON."""


NAMED = 6
"""How many methods the head of a page names; more are counted."""


def fragment(explanations: Sequence[Explanation], *, foreign: bool = True) -> str:
    """HTML to put into another document, with its own style that touches nothing else.

    Args:
        explanations: at least one.
        foreign: whether the document has styles of its own, as notebooks do, which are kept out.

    Raises:
        InputError: there is no explanation.
    """
    groups = facts.grouped(explanations)
    styles = isolated(_styles(groups)) if foreign else _styles(groups)
    return f'<div class="didact"><style>{styles}</style>{_examples(groups)}</div>'


def unstyled(explanations: Sequence[Explanation]) -> tuple[str, str]:
    """HTML for a document that has the style sheets of explanations and photos, and the CSS of these images alone.

    The HTML has no style of its own, so that a document may forbid any.

    Raises:
        InputError: there is no explanation.
    """
    groups = facts.grouped(explanations)
    return _examples(groups), photo_rules(group.example for group in groups)


def page(
    explanations: Sequence[Explanation],
    *,
    title: str = "Explanations",
    sentences: Sequence[str] = (),
    below: str = "",
) -> str:
    """A whole page: no network, no fonts or scripts from elsewhere, readable without JavaScript.

    Args:
        explanations: at least one.
        title: its heading.
        sentences: they stand before everything else: what is to be concluded from the explanations.
        below: HTML to put below the examples.

    Raises:
        InputError: there is no explanation.
    """
    groups = facts.grouped(explanations)
    total = len(groups)
    sections = (_example(group, number, total, anchor=True) for number, group in enumerate(groups, start=1))
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{html_text(title)}</title>\n<style>\nbody{{margin:0}}\n{_styles(groups)}\n</style>\n</head>",
            f'<body class="didact">\n<main>\n<h1>{html_text(title)}</h1>\n<p class="lead">{_lead(groups)}</p>',
            _answers(sentences),
            _page_legend(groups) if total > 1 else "",
            _index(groups) if total > 1 else "",
            _TOOL.strip(),
            *sections,
            below,
            "</main>",
            f'<script type="application/json" id="{DATA_ID}">{_data(explanations)}</script>',
            f"<script>{_SCRIPT.strip()}</script>\n</body>\n</html>\n",
        ]
    )


def coloured(explanation: Explanation) -> str:
    """The fields of an example with their units in colour, to put into an element of class "didact"."""
    return _source(explanation)


def read_page(html: str) -> list[Explanation]:
    """The explanations of a page that ``page`` made.

    Raises:
        FormatError: it is not such a page, or its data are damaged.
    """
    reader = _DataReader()
    reader.feed(html)
    reader.close()
    if reader.data is None:
        raise FormatError(f'not a page of explanations: it has no script element with id "{DATA_ID}"')
    return jsonio.load(reader.data)


class _DataReader(HTMLParser):
    """Collects the text of the data element."""

    data: str | None = None
    _inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script" and ("id", DATA_ID) in attrs:
            self._inside, self.data = True, ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.data = (self.data or "") + data


def _data(explanations: Sequence[Explanation]) -> str:
    """JSON in which no character can end the script element or begin a comment in it."""
    text = jsonio.dump(explanations)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _lead(groups: Sequence[facts.Group]) -> str:
    methods = {each.method: None for group in groups for each in group.explanations}
    examples = "1 example" if len(groups) == 1 else f"{len(groups)} examples"
    named = html_text(", ".join(methods)) if len(methods) <= NAMED else f"{len(methods)} methods"
    return f"{examples}, explained by {named}"


def _index(groups: Iterable[facts.Group]) -> str:
    items = "".join(_link(group, number) for number, group in enumerate(groups, start=1))
    return f'<nav aria-label="Examples"><ol>{items}</ol></nav>'


def _link(group: facts.Group, number: int) -> str:
    predicted = f"{html_text(answers.predicted(group.first))} {minus_signs(facts.certainty(group.first))}"
    return (
        f'<li><a href="#example-{number}">'
        f'<span class="snippet" dir="auto">{html_text(facts.snippet(group.example))}</span>'
        f'<span class="predicted">{predicted}</span></a></li>'
    )


def _examples(groups: Sequence[facts.Group]) -> str:
    return "".join(_example(group, number, len(groups)) for number, group in enumerate(groups, start=1))


def _example(group: facts.Group, number: int, total: int, *, anchor: bool = False) -> str:
    place = f' id="example-{number}"' if anchor else ""
    count = f'<span class="count">{number} of {total}</span>' if total > 1 else ""
    return (
        f'<section class="example"{place} aria-label="Example {number}">'
        f'<h2 class="prediction"><b>{html_text(answers.predicted(group.first))}</b> '
        f'<span class="certainty">{minus_signs(facts.certainty(group.first))}</span>{count}</h2>'
        f"{_answer(group)}{_warnings(group.warnings)}{_tabs(group)}{_facts(group)}"
        "</section>\n"
    )


def _tabs(group: facts.Group) -> str:
    """The methods; where several classes are explained, a tab for each, which needs no script."""
    parts = group.by_label
    if len(parts) == 1:
        return _methods(group)
    panels = []
    for number, part in enumerate(parts):
        title = html_text(answers.explained(part.first))
        share = f'<span class="quiet">{minus_signs(facts.explained_share(part.first))}</span>'
        checked = "" if number else " checked"
        panels.append(
            f'<label><input type="radio" name="tab"{checked}>{title} {share}</label>'
            f'<div class="panel"><h3>{title} {share}</h3>{_explained(part)}{_methods(part)}</div>'
        )
    return f'<form class="tabs" aria-label="Explained class">{"".join(panels)}</form>'


def _explained(group: facts.Group) -> str:
    return "" if group.target is None else _quiet(f"target {facts.target(group.first)}")


def _methods(group: facts.Group) -> str:
    originals = _originals(group.example)
    rows = originals + "".join(_row(group, each) for each in group.explanations)
    return f'{_legend(group)}<table class="methods{" tiles" if originals else ""}"><tbody>{rows}</tbody></table>'


def _styles(groups: Sequence[facts.Group]) -> str:
    """The style sheet, and with it the images where there are any."""
    photos = photo_rules(group.example for group in groups)
    return "\n".join([stylesheet(), *([photo_styles(), photos] if photos else [])])


def _originals(example: Example) -> str:
    """The images of an example as they are, before what was made of them."""
    head = '<th scope="row"><span class="method">the image as it is</span></th>'
    images = [field for field in example.fields if isinstance(field, Image)]
    return "".join(f"<tr>{head}<td>{photo(image, 'the image as it is')}</td></tr>" for image in images)


def _answer(group: facts.Group) -> str:
    """What belongs to the prediction: the other classes and the gold label."""
    entries: list[tuple[str, str]] = []
    others = facts.other_classes(group.first.prediction)
    if others:
        entries.append(("Other classes", others))
    if group.example.label is not None:
        entries.append(("Gold label", answers.gold(group.example)))
    return _listed(entries)


def _facts(group: facts.Group) -> str:
    """How the explanations were made."""
    entries: list[tuple[str, str]] = []
    if group.target is not None:
        entries.append(("Target", facts.target(group.first)))
    if group.first.model:
        entries.append(("Model", "  ".join(facts.origin(group.first))))
    if group.example.id is not None:
        entries.append(("Id", group.example.id))
    return _listed(entries)


def _listed(entries: Sequence[tuple[str, str]]) -> str:
    items = (f"<div><dt>{term}</dt><dd>{minus_signs(html_text(fact))}</dd></div>" for term, fact in entries)
    return f'<dl class="facts">{"".join(items)}</dl>' if entries else ""


def _row(group: facts.Group, explanation: Explanation) -> str:
    target = _quiet(f"target {facts.target(explanation)}") if group.target is None else ""
    warning = _warnings(group.own_warnings(explanation))
    settings = "".join(_setting(setting) for setting in facts.settings(explanation))
    return (
        f'<tr><th scope="row"><span class="method">{html_text(explanation.method)}</span>{target}'
        f'<ul class="settings">{settings}</ul>'
        f"{_quiet(facts.cost(explanation))}{_quiet('  '.join(facts.details(explanation)))}</th>"
        f"<td>{_source(explanation)}{warning}{_scores(explanation)}</td></tr>"
    )


def _setting(setting: str) -> str:
    key, _, value = setting.partition("=")
    return f'<li><span class="key">{html_text(key)}=</span>{html_text(value)}</li>'


def _source(explanation: Explanation) -> str:
    fields = explanation.example.fields
    titles = _titles(explanation)
    shown = []
    for field in range(len(fields)):
        called = facts.field_name(explanation, field)
        if len(fields) > 1:
            shown.append(f'<p class="field">{called}</p>')
        label = html_text(f"{called}, coloured by {explanation.method}")
        if not isinstance(fields[field], str):
            shown.append(explained_photo(explanation, field, label, titles))
            continue
        inner = "".join(_piece(piece, explanation.signed, titles) for piece in pieces(explanation, field))
        shown.append(f'<div class="text" lang="" dir="auto" role="group" aria-label="{label}">{inner}</div>')
    return "".join(shown)


def _titles(explanation: Explanation) -> list[str]:
    form = "+.6g" if explanation.signed else ".6g"
    errors = [f" ± {error:.2g}" for error in explanation.errors] or [""] * len(explanation.scores)
    named = zip(explanation.units.texts, explanation.scores, errors, strict=True)
    return [html_text(f"{name(text)}: {score:{form}}{error}") for text, score, error in named]


def _piece(piece: Piece, signed: bool, titles: Sequence[str]) -> str:
    written = html_text(piece.text)
    if piece.marked:
        written = f'<b class="answer">{written}</b>'
    if piece.cut:
        return f'<span class="cut" title="cut off by the model\'s length limit">{written}</span>'
    if not piece.units:
        return written
    title = "\n".join(titles[unit] for unit in piece.units)
    step = level(piece.strength, signed)
    classes = f' class="u {_side(piece.strength, signed)}{step}"' if step else ""
    return f'<span{classes} title="{title}">{written}</span>'


def _side(strength: float, signed: bool) -> str:
    return "" if not signed else "pos " if strength > 0 else "neg "


def _scores(explanation: Explanation) -> str:
    """All scores, strongest first, for those who cannot see colours or want the numbers."""
    power, written, texts = strengths(explanation), facts.estimates(explanation), explanation.units.texts
    two_sided = any(strength < 0 for strength in power)
    rows = "".join(
        f'<tr><td class="number">{unit + 1}</td><td dir="auto">{html_text(name(texts[unit]))}</td>'
        f'<td class="number">{minus_signs(written[unit])}</td>'
        f'<td class="wide">{_bar(power[unit], explanation.signed, two_sided)}</td></tr>'
        for unit in ranked(explanation)
    )
    kind = facts.plural(explanation.units.level, len(texts))
    heads = "".join(
        f'<th scope="col"{kind_of}>{head}</th>'
        for head, kind_of in (
            ("#", ' class="number"'),
            ("unit", ""),
            ("score", ' class="number"'),
            ("", ' class="wide"'),
        )
    )
    return (
        f"<details><summary>Scores of {len(texts)} {kind}</summary>"
        f'<table class="scores"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
        f"{_quiet('  '.join(facts.versions(explanation)))}</details>"
    )


def _bar(strength: float, signed: bool, two_sided: bool) -> str:
    width = abs(strength) * (50 if two_sided else 100)
    left = (50 - width if strength < 0 else 50) if two_sided else 0
    step = level(math.copysign(strength != 0, strength), signed)
    bar = f'<rect class="{step}" x="{left:.1f}%" width="{width:.1f}%" height="100%"/>' if step else ""
    return f'<svg class="track{" two" if two_sided else ""}" aria-hidden="true">{bar}</svg>'


def _legend(group: facts.Group) -> str:
    """What the colours of one example mean."""
    items = _marks(facts.meanings(group))
    items.append(f"<span>{minus_signs(facts.scaling(group))}</span>")
    return f'<div class="legend" role="note" aria-label="What the colours mean">{"".join(items)}</div>'


def _page_legend(groups: Sequence[facts.Group]) -> str:
    """What the colours of a whole page mean."""
    signs = {each.signed for group in groups for each in group.explanations}
    words = {True: ("supports the explained answer", "opposes it"), False: ("counts, without a sign",)}
    items = "".join(_marks([(signed, words[signed]) for signed in (True, False) if signed in signs]))
    return f'<div class="legend" role="note" aria-label="What the colours of this page mean">{items}</div>'


def _marks(meanings: Iterable[tuple[bool, Sequence[str]]]) -> list[str]:
    """A coloured mark with its meaning for each side that scores can have."""
    items = []
    for signed, words in meanings:
        for strength, meaning in zip((1.0, -1.0), words, strict=False):
            mark = "−" if strength < 0 else "+" if signed else "•"
            classes = f"u {_side(strength, signed)}{level(strength, signed)}"
            items.append(f'<span><span class="{classes}">{mark}</span> {html_text(meaning)}</span>')
    return items


def _answers(sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{minus_signs(html_text(sentence))}</li>" for sentence in sentences)
    return f'<ul class="answers" aria-label="In short">{items}</ul>' if items else ""


def _warnings(lines: Sequence[str]) -> str:
    return "".join(f'<p class="warning" role="note"><b>Warning:</b> {html_text(line)}</p>' for line in lines)


def _quiet(line: str) -> str:
    return f'<p class="quiet">{minus_signs(html_text(line))}</p>' if line else ""


_TOOL = """
<label class="tool" hidden>hide scores below <input type="range" min="0" max="10" value="0">
<output>0 %</output> of the largest</label>
"""

_SCRIPT = """
(function () {
  var tool = document.querySelector(".tool");
  var input = tool.querySelector("input"), output = tool.querySelector("output");
  var units = Array.prototype.slice.call(document.querySelectorAll(".text .u, .picture .u"));
  tool.hidden = false;
  input.addEventListener("input", function () {
    output.textContent = input.value * 10 + " %";
    units.forEach(function (unit) {
      unit.classList.toggle("off", Number(unit.getAttribute("class").match(/[pnu](\\d+)/)[1]) < Number(input.value));
    });
  });
})();
"""
