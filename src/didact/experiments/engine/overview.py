"""Records in the terminal, for kinds of experiments that have no report of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from didact.store import records as record_store


def show_means(path: Path, console: Console) -> None:
    """A table with the mean of every explainer and metric over examples and seeds."""
    table = record_store.read(path)
    values: dict[tuple[str, str], list[float]] = {}
    names = ("explainer", "metric", "part", "value")
    for explainer, metric, part, value in zip(*(table.column(name).to_pylist() for name in names), strict=True):
        if not part:
            values.setdefault((explainer, metric), []).append(value)
    shown = Table("explainer", "metric", "mean", "n", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for (explainer, metric), numbers in values.items():
        known = np.array(numbers)[~np.isnan(numbers)]
        shown.add_row(explainer, metric, f"{known.mean():.4g}" if len(known) else "–", str(len(known)))
    console.print(shown)
