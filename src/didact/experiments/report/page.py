"""The page of a report: one HTML file that needs no network, no fonts or scripts from elsewhere, and no JavaScript."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from didact.experiments.report.assets import SCRIPT, STYLE
from didact.experiments.report.charts import style as chart_style
from didact.experiments.report.table import ReportTable, as_html
from didact.render.markup import html_text, minus_signs
from didact.render.style import stylesheet

WARNING = "Warning: "
"""How a sentence begins that a reader should heed first."""


@dataclass(frozen=True)
class Section:
    """A part of a page that the navigation leads to.

    Attributes:
        key: its id.
        title: its heading.
        body: HTML; a section without any is left out.
    """

    key: str
    title: str
    body: str


@dataclass(frozen=True)
class Page:
    """What a page shows.

    Attributes:
        name: of the run.
        topic: what the report is about, for the window's title.
        lead: one sentence on what was measured.
        question: what the report answers.
        answers: sentences that answer it; those that begin with ``WARNING`` stand out.
        sections: the rest.
    """

    name: str
    topic: str
    lead: str
    question: str
    answers: Sequence[str]
    sections: Sequence[Section]

    def html(self) -> str:
        """The whole file."""
        shown = [section for section in self.sections if section.body]
        links = "".join(f'<a href="#{each.key}">{html_text(each.title)}</a>' for each in shown)
        title = html_text(f"{self.name}: {self.topic}")
        styles = f"{stylesheet()}\n{chart_style()}\n{STYLE.strip()}"
        body = [f'<section id="{each.key}"><h2>{html_text(each.title)}</h2>{each.body}</section>' for each in shown]
        script = f"<script>{SCRIPT.strip()}</script>\n" if any("sortable" in each for each in body) else ""
        return "\n".join(
            [
                '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                '<meta name="color-scheme" content="light dark">',
                f"<title>{title}</title>\n<style>\nbody{{margin:0}}\n{styles}\n</style>",
                f'</head>\n<body class="didact report">\n<main>\n<h1>{html_text(self.name)}</h1>',
                f'<p class="lead">{html_text(self.lead)}</p>',
                f'<section class="short" aria-labelledby="short"><h2 id="short">{html_text(self.question)}</h2>',
                f'{bullets(self.answers)}</section>\n<nav class="jump" aria-label="Sections">{links}</nav>',
                *body,
                f"</main>\n{script}</body>\n</html>\n",
            ]
        )


def bullets(lines: Iterable[str], kind: str = "") -> str:
    """Sentences as a list of class ``kind``, warnings marked; empty without any."""
    items = "".join(
        f"<li{_class('warning' * line.startswith(WARNING))}>{minus_signs(html_text(line))}</li>" for line in lines
    )
    return f"<ul{_class(kind)}>{items}</ul>" if items else ""


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{html_text(text)}</p>"


def heading(text: str) -> str:
    """A heading inside a section."""
    return f"<h3>{html_text(text)}</h3>"


def folded(summary: str, body: str, attributes: str = "") -> str:
    """A body that opens on a click; both are HTML."""
    return f"<details{attributes}><summary>{summary}</summary>{body}</details>"


def scrolling(table: ReportTable, label: str) -> str:
    """A table that scrolls sideways where the screen is narrow; ``label`` is read to those who cannot see it."""
    inner = as_html(table)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{html_text(label)}">{inner}</div>'


def facts_list(facts: Iterable[tuple[str, str]]) -> str:
    """Terms and what they are, as for where a run came from; facts that are empty are left out."""
    items = "".join(f"<div><dt>{html_text(term)}</dt><dd>{html_text(fact)}</dd></div>" for term, fact in facts if fact)
    return f'<dl class="facts">{items}</dl>' if items else ""


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
