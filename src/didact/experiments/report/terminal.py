"""A report in the terminal: its sentences and what stands beside its tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from didact.experiments.report.page import WARNING

if TYPE_CHECKING:
    from rich.console import Console


def print_sentences(sentences: Iterable[str], console: Console) -> None:
    """Print a blank line and sentences, warnings in yellow."""
    console.print()
    for sentence in sentences:
        print_lines([sentence], console, "bold yellow" if sentence.startswith(WARNING) else "")


def print_lines(lines: Iterable[str], console: Console, style: str, *, before: bool = False) -> None:
    """Print plain lines in a style; ``before`` puts a blank line above them."""
    from rich.text import Text

    if before:
        console.print()
    for line in lines:
        console.print(Text(line, style=style))
