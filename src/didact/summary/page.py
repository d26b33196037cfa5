"""The table of words as an HTML page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from didact.render.markup import html_text, minus_signs
from didact.render.style import stylesheet
from didact.summary.rows import WordExample, WordRow

LISTED = 60
"""Words of each class on the page; the JSON file has all."""


def page(rows: Sequence[WordRow], title: str, notes: Sequence[str]) -> str:
    """A whole page: no network, no scripts, a section per class."""
    labels = dict.fromkeys(row.label for row in rows)
    sections = "".join(_section(label, [row for row in rows if row.label == label]) for label in labels)
    quiet = "".join(f'<p class="quiet">{html_text(note)}</p>' for note in notes)
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>Important words</title>\n<style>\nbody{{margin:0}}\n{stylesheet()}\n{_RULES}</style>\n</head>",
            f'<body class="didact"><main><h1>Important words</h1><p class="lead">{html_text(title)}</p>',
            f"{sections}{quiet}</main></body>\n</html>\n",
        ]
    )


def interval(row: WordRow) -> str:
    """The interval of a word's mean, or that there are too few texts for one."""
    return "too few texts" if math.isnan(row.low) else f"[{row.low:+.3f}, {row.high:+.3f}]"


def _section(label: str, rows: Sequence[WordRow]) -> str:
    largest = max(abs(row.mean) for row in rows) or 1.0
    body = "".join(_row(row, largest) for row in rows[:LISTED])
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("word", "texts", "mean", "95 % interval", "", "examples")
    )
    rest = f'<p class="quiet">and {len(rows) - LISTED} more</p>' if len(rows) > LISTED else ""
    return (
        f'<section class="example"><h2 class="prediction">Explained class: <b>{html_text(label)}</b></h2>'
        f'<table class="scores words"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{rest}</section>'
    )


def _row(row: WordRow, largest: float) -> str:
    shown = "".join(_example(example) for example in row.examples)
    examples = f"<details><summary>{len(row.examples)}</summary><ul>{shown}</ul></details>" if shown else ""
    return (
        f'<tr><th scope="row" dir="auto">{html_text(row.word)}</th><td>{row.texts}</td>'
        f"<td>{minus_signs(f'{row.mean:+.3f}')}</td><td>{minus_signs(interval(row))}</td>"
        f"<td>{_bar(row.mean / largest)}</td><td>{examples}</td></tr>"
    )


def _bar(share: float) -> str:
    width = 50 * abs(share)
    left = 50 - width if share < 0 else 50
    side = "n10" if share < 0 else "p10"
    return f'<span class="track two"><i class="{side}" style="left:{left:.1f}%;width:{width:.1f}%"></i></span>'


def _example(example: WordExample) -> str:
    return (
        f'<li>{minus_signs(f"{example.score:+.3f}")} <span dir="auto">…{html_text(example.before)}'
        f"<b>{html_text(example.word)}</b>{html_text(example.after)}…</span></li>"
    )


_RULES = """
.didact .words{max-width:none}
.didact .words td:nth-child(5){width:20%;min-width:6rem}
.didact .words td:nth-child(6){width:45%;white-space:normal}
.didact .words details{margin:0}
.didact .words ul{margin:.2rem 0;padding-left:1rem}
"""
