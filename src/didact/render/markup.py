"""Text put into HTML and Markdown so that it is shown as it is, and tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from didact.render.pieces import printable


def html_text(text: str) -> str:
    """Escaped for elements and attributes; control characters are made visible."""
    return escape(printable(text)).replace("\r", "&#13;")


def minus_signs(text: str) -> str:
    """The text with a real minus sign before negative numbers."""
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def markdown_text(text: str) -> str:
    """The text as Markdown shows it literally, in one line."""
    flat = " ".join(printable(text).split())
    return re.sub(r"([\\`*_{}\[\]<>|#~$&!@])", r"\\\1", flat)


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], align: str = "l") -> str:
    """A table in Markdown.

    Args:
        heads: of the columns, in Markdown.
        rows: their cells, in Markdown.
        align: "l" or "r" per column; the last letter also holds for all further columns.
    """
    rules = ["---:" if letter == "r" else "---" for letter in align.ljust(len(heads), align[-1])]
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|" + "|".join(rules[: len(heads)]) + "|", *lines[1:]])
