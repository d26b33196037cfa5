"""A decision record as one HTML page, ready to print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from didact.counterfactuals.flip import Flip
from didact.decisions.trust import Trust
from didact.provenance import display_name
from didact.render import answers, facts
from didact.render.html import coloured
from didact.render.markup import html_text, minus_signs
from didact.render.pieces import name
from didact.render.style import stylesheet
from didact.types import Explanation, Prediction

LISTED = 6
"""Words listed on each side."""
NAMED = 8
"""Changed words that the sentence about a flip names; all of them stand in the text below it."""
EXCERPTED, AROUND = 80, 10
"""Of a text with more units than the first, so many units before and after each change are shown again."""
LONG, LONGER = 150, 280
"""Texts with so many units are printed smaller, so that the record stays on one page."""


def page(explanation: Explanation, flip: Flip, trust: Trust, made: str, command: str) -> str:
    """The whole page: no network, no scripts, readable in black and white."""
    sections = [
        ("Prediction", _prediction(explanation.prediction)),
        ("Why", f'<div class="words">{coloured(explanation)}</div>{_sides(explanation)}'),
        ("What would change it", flip_html(flip)),
        ("How far to trust this explanation", _paragraph(f"{trust.verdict}.")),
        ("What the model did not see", _unseen(explanation)),
        ("Where this comes from", _origin(explanation, flip, made, command)),
    ]
    body = "".join(f"<section><h2>{title}</h2>{inner}</section>" for title, inner in sections)
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>Decision record</title>\n<style>\nbody{{margin:0}}\n{stylesheet()}\n{_RULES}</style>\n</head>",
            f'<body class="didact"><main class="{_classes(explanation)}"><h1>Decision record</h1>{_lead(explanation)}',
            f"{body}</main>",
            "</body>\n</html>\n",
        ]
    )


def flip_sentence(flip: Flip) -> str:
    """What flips the prediction, or that nothing did within the budget."""
    before, after = (_named(made) for made in (flip.prediction, flip.prediction_after))
    if not flip.flipped:
        nearest = f"the nearest, {_changes(flip)}, gives {after}" if flip.changes else "there is nothing to change"
        return (
            f"No change that was tried flips the prediction {before}: {flip.evaluations} of at most "
            f"{flip.budget} variants were evaluated; {nearest}. Other changes may still flip it."
        )
    proof = "smaller changes may exist"
    if flip.smallest:
        proof = "one word is enough" if flip.size == 1 else "no smaller set of words flips it"
    return (
        f"With {_changes(flip)} the model predicts {after} instead of {before}. Verified by a plain pass of the "
        f"model; {flip.evaluations} variants were evaluated, {proof}."
    )


def _named(prediction: Prediction) -> str:
    return f"{prediction.label} ({facts.percent(prediction.probabilities[prediction.index])})"


def _changes(flip: Flip) -> str:
    """The changed words: replacements one by one, deletions together; of many the first."""
    parts = [f"“{name(each.before)}” replaced by “{name(each.after)}”" for each in flip.changes if each.after]
    deleted = [f"“{name(each.before)}”" for each in flip.changes if not each.after]
    if len(deleted) > NAMED:
        deleted = [*deleted[: NAMED - 1], f"{len(deleted) - NAMED + 1} more words"]
    if deleted:
        *first, last = deleted
        parts.append(f"{', '.join(first)} and {last} deleted" if first else f"{last} deleted")
    return ", ".join(parts)


def _classes(explanation: Explanation) -> str:
    """Classes of the page: long texts are printed smaller."""
    count = len(explanation.units)
    return "record" + (" long" if count > LONG else "") + (" longer" if count > LONGER else "")


def _lead(explanation: Explanation) -> str:
    model = html_text(display_name(explanation.model.get("name", "the model")))
    return f'<p class="lead">{model} predicts <b>{html_text(answers.predicted(explanation))}</b></p>'


def _prediction(prediction: Prediction) -> str:
    own = (prediction.label, prediction.probabilities[prediction.index])
    rows = "".join(
        f'<tr><th scope="row">{html_text(label)}</th><td class="number">{facts.percent(share)}</td>'
        f'<td class="wide"><span class="track"><i class="u10" style="width:{100 * share:.1f}%"></i></span></td></tr>'
        for label, share in [own, *facts.alternatives(prediction)]
    )
    return f'<table class="scores"><tbody>{rows}</tbody></table>'


def _sides(explanation: Explanation) -> str:
    """The words that support and oppose the prediction, strongest first."""
    written = facts.estimates(explanation)
    order = sorted(range(len(explanation.scores)), key=lambda unit: -abs(explanation.scores[unit]))
    label = html_text(answers.explained(explanation))
    if not explanation.signed:
        return _side(f"Most important for {label} (this method has no sign)", explanation, order, written)
    supports = [unit for unit in order if explanation.scores[unit] > 0]
    opposes = [unit for unit in order if explanation.scores[unit] < 0]
    sides = (f"Supports {label}", supports), (f"Opposes {label}", opposes)
    return f'<div class="sides">{"".join(_side(title, explanation, units, written) for title, units in sides)}</div>'


def _side(title: str, explanation: Explanation, units: Sequence[int], written: Sequence[str]) -> str:
    texts = explanation.units.texts
    rows = "".join(
        f'<tr><td dir="auto">{html_text(name(texts[unit]))}</td>'
        f'<td class="number">{minus_signs(written[unit])}</td></tr>'
        for unit in units[:LISTED]
    )
    empty = "" if units else _paragraph("none")
    return f'<div><h3>{title}</h3><table class="scores"><tbody>{rows}</tbody></table>{empty}</div>'


def flip_html(flip: Flip) -> str:
    """What flips the prediction, in words and in the text, to put into an element of class "didact"."""
    shown = "".join(f'<p class="text" dir="auto">{_edited(flip, field)}</p>' for field in range(len(flip.after.fields)))
    return _paragraph(flip_sentence(flip)) + (shown if flip.changes else "")


def _edited(flip: Flip, field: int) -> str:
    """A text with what is deleted struck out and what is put in underlined; of a long one what is near changes."""
    text = flip.units.example.texts[field]
    parts, end = [], 0
    for start, stop in _shown(flip, field):
        parts.append("… " if start > end else "")
        end = start
        for change in flip.changes:
            if change.place.field == field and start <= change.place.start < stop:
                added = f" <ins>{html_text(change.after)}</ins>" if change.after else ""
                parts.append(f"{html_text(text[end : change.place.start])}<del>{html_text(change.before)}</del>{added}")
                end = change.place.end
        parts.append(html_text(text[end:stop]))
        end = stop
    return "".join(parts) + (" …" if end < len(text) else "")


def _shown(flip: Flip, field: int) -> list[tuple[int, int]]:
    """The parts of a text that are shown with its changes, by their first and last characters."""
    text, spans = flip.units.example.texts[field], [span for span in flip.units.spans if span.field == field]
    if len(flip.units) <= EXCERPTED:
        return [(0, len(text))]
    starts = {change.place.start for change in flip.changes}
    parts: list[tuple[int, int]] = []
    for number in (number for number, span in enumerate(spans) if span.start in starts):
        start = spans[max(0, number - AROUND)].start
        stop = spans[min(len(spans) - 1, number + AROUND)].end
        if parts and start <= parts[-1][1]:
            start = parts.pop()[0]
        parts.append((start, stop))
    return parts


def _unseen(explanation: Explanation) -> str:
    lines = facts.warnings(explanation) or ["Nothing was cut off, and the tokenizer knows every token of the text."]
    return f"<ul>{''.join(f'<li>{html_text(line)}</li>' for line in lines)}</ul>"


def _origin(explanation: Explanation, flip: Flip, made: str, command: str) -> str:
    entries = [
        ("Model", "  ".join(facts.origin(explanation))),
        ("Target", facts.target(explanation)),
        ("Method", "  ".join([explanation.method, *facts.settings(explanation)])),
        ("Cost", f"{facts.cost(explanation)}; flip search: {flip.evaluations} forwards"),
        ("Versions", "  ".join(facts.versions(explanation))),
        ("Date", made),
        ("Command", command or "made in Python"),
    ]
    return _listed(entries)


def _listed(entries: Iterable[tuple[str, str]]) -> str:
    items = (f"<div><dt>{term}</dt><dd>{minus_signs(html_text(fact))}</dd></div>" for term, fact in entries)
    return f'<dl class="facts">{"".join(items)}</dl>'


def _paragraph(text: str) -> str:
    return f"<p>{minus_signs(html_text(text))}</p>"


_RULES = """
.didact main.record{max-width:52rem;padding:2.5rem 2rem}
.record .lead{font-size:1.1rem;color:var(--text)}
.record section{margin:1.5rem 0 0;break-inside:avoid}
.record h2{font-size:1rem;font-weight:650;margin:0 0 .4rem;padding:0 0 .2rem;border-bottom:1px solid var(--line)}
.record h3{font-size:.9rem;font-weight:650;margin:.6rem 0 .2rem}
.record p,.record ul{margin:.3rem 0;padding:0}
.record ul{padding-left:1.1rem}
.didact .record .text{line-height:1.6}
.record .sides{display:grid;grid-template-columns:1fr 1fr;gap:0 2rem}
.didact .record .scores{margin:0;font-size:.85rem}
.record del{text-decoration:line-through;opacity:.65}
.record ins{text-decoration:underline}
.didact .record .facts{display:block}
.record .facts div{display:grid;grid-template-columns:6rem 1fr;gap:.5rem}
@media (max-width: 34rem){.record .sides{grid-template-columns:1fr}}
@page{margin:12mm 14mm}
@media print{
 html{font-size:12px}
 .didact{font-size:12px;line-height:1.4;print-color-adjust:exact;-webkit-print-color-adjust:exact}
 .didact main.record{max-width:none;padding:0}
 .record section{margin:.7rem 0 0}
 .didact .record .text{max-width:none}
 .didact .record .scores,.record .sides{line-height:1.3}
 .didact .record .scores td,.didact .record .scores th{padding-top:.05rem;padding-bottom:.05rem}
 .didact .long .text{font-size:10.5px;line-height:1.45}
 .didact .longer .text{font-size:9px;line-height:1.4}
}
"""
