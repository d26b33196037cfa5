"""Simulations in the terminal: carried out, shown and reported; for the commands that do so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from didact.experiments.simulability.recipe import Recipe


def carry_out(recipe: Recipe, out: Path | None, store: Path | None, device: str | None, command: str) -> None:
    """Run a recipe, write its report, show the summary and print the page's path last."""
    from rich.console import Console

    from didact.experiments.simulability.prepare import prepare
    from didact.experiments.simulability.runner import RunOptions
    from didact.experiments.simulability.runner import run as simulate
    from didact.progress import listening
    from didact.render.progress import ProgressBar

    folder = out or Path("runs") / recipe.name
    with listening(ProgressBar()):
        simulate(prepare(recipe), RunOptions(folder, store, device, command=command))
    report(folder, None, Console())


def report(folder: Path, formats: Sequence[str] | None, console: Console) -> None:
    """Show a finished run and write its report."""
    from didact.experiments.simulability.findings import find
    from didact.experiments.simulability.report import write
    from didact.experiments.simulability.terminal import show

    findings = find(folder)
    show(findings, console)
    for path in write(findings) if formats is None else write(findings, formats):
        print(path)
