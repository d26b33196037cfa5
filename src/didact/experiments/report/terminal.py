"""A report in the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from didact.experiments.report.page import WARNING
from didact.experiments.report.table import ReportTable, as_terminal

if TYPE_CHECKING:
    from rich.console import Console


def print_report(
    console: Console, sentences: Iterable[str], tables: Iterable[tuple[str, ReportTable]], notes: Iterable[str]
) -> None:
    """Print sentences (warnings in yellow), tables under their titles, and notes in small print."""
    from rich.text import Text

    console.print()
    for sentence in sentences:
        console.print(Text(sentence, style="bold yellow" if sentence.startswith(WARNING) else ""))
    for title, table in tables:
        console.print("", Text(title, style="bold"), as_terminal(table), sep="\n")
    console.print()
    for note in notes:
        console.print(Text(note, style="dim"))
    console.print()
