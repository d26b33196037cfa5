"""Parts of a report in Markdown that renders on GitHub."""

from __future__ import annotations

from collections.abc import Iterable


def document(parts: Iterable[str]) -> str:
    """Headings, paragraphs and tables with a blank line between them; empty parts are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"


def bullets(lines: Iterable[str]) -> str:
    """A list of lines, which are Markdown already."""
    return "\n".join(f"- {line}" for line in lines)


def folded(title: str, body: str) -> str:
    """A body that opens on a click, as GitHub shows it."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
