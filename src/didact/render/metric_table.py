"""Methods by metrics for one text, as a table for the terminal, a page or a notebook."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from didact.errors import InputError
from didact.render.markup import html_text, minus_signs
from didact.render.pieces import printable
from didact.types import MetricCard

if TYPE_CHECKING:
    from rich.table import Table

NOTE = (
    "One text: differences between methods are not tested. Chance is the mean of {draws} random explanations; "
    "`didact evaluate` compares methods over a dataset."
)


@dataclass(frozen=True)
class MetricTable:
    """How explanations of one text score on metrics.

    Attributes:
        metrics: label -> card of each column.
        rows: the explanation's name -> its values, one per metric; NaN where a metric is not defined.
        chance: what random explanations get on average; NaN where chance says nothing.
        draws: how many random explanations those are.
    """

    metrics: Mapping[str, MetricCard]
    rows: Mapping[str, tuple[float, ...]]
    chance: tuple[float, ...]
    draws: int

    @property
    def note(self) -> str:
        """What the numbers do not say."""
        return NOTE.format(draws=self.draws)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: a row per method, and what chance gets; undefined values are None."""
        rows = [{"method": name, **self._plain(values)} for name, values in self.rows.items()]
        return {"rows": rows, "chance": self._plain(self.chance), "draws": self.draws}

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with methods as rows and metrics as columns; the last row is chance."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise InputError("a DataFrame needs pandas, which is not installed: pip install pandas") from None
        rows = {**self.rows, "chance": self.chance}
        return pandas.DataFrame.from_dict(rows, orient="index", columns=list(self.metrics))

    def terminal(self, width: int) -> list[Table]:
        """For ``rich``: as many metrics side by side as fit; the best of each column bold, chance dim below."""
        names = max(map(len, (*self.rows, "method", "chance")))
        tables: list[list[int]] = [[]]
        for column, label in enumerate(self.metrics):
            used = names + sum(len(self._head(list(self.metrics)[each])) + 2 for each in tables[-1]) + 2
            if tables[-1] and used + len(self._head(label)) > width:
                tables.append([])
            tables[-1].append(column)
        return [self._table(columns) for columns in tables]

    def _table(self, columns: Sequence[int]) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column("method", no_wrap=True)
        labels = list(self.metrics)
        for column in columns:
            table.add_column(Text(printable(self._head(labels[column]))), justify="right", no_wrap=True)
        for name, values in self.rows.items():
            cells = self._cells(values)
            table.add_row(
                Text(printable(name)), *(Text(cells[at][0], "bold" if cells[at][1] else "") for at in columns)
            )
        table.add_row(Text("chance", "dim"), *(Text(_number(self.chance[at]), "dim") for at in columns))
        return table

    def html(self) -> str:
        """A table element with the note below it."""
        heads = "".join(f'<th scope="col" class="number">{html_text(self._head(label))}</th>' for label in self.metrics)
        rows = "".join(_html_row(name, self._cells(values)) for name, values in self.rows.items())
        chance = _html_row("chance", [(_number(value), False) for value in self.chance])
        return (
            f'<section class="example" aria-label="Metrics"><h2>Metrics</h2><table class="scores"><thead><tr>'
            f'<th scope="col">method</th>{heads}</tr></thead><tbody>{rows}{chance}</tbody></table>'
            f'<p class="quiet">{html_text(self.note)}</p></section>'
        )

    def _repr_html_(self) -> str:
        return self.html()

    def __str__(self) -> str:
        heads = ["method", *map(self._head, self.metrics)]
        rows = [[name, *map(_number, values)] for name, values in {**self.rows, "chance": self.chance}.items()]
        widths = [max(len(line[column]) for line in (heads, *rows)) for column in range(len(heads))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in (heads, *rows)
        ]
        return "\n".join(line.rstrip() for line in lines)

    def _head(self, label: str) -> str:
        return label + {True: " ↑", False: " ↓", None: ""}[self.metrics[label].higher_is_better]

    def _plain(self, values: Sequence[float]) -> dict[str, float | None]:
        return {
            label: value if math.isfinite(value) else None for label, value in zip(self.metrics, values, strict=True)
        }

    def _cells(self, values: Sequence[float]) -> list[tuple[str, bool]]:
        """Each value as text, and whether no other row has a better one."""
        return [(_number(value), self._is_best(column, value)) for column, value in enumerate(values)]

    def _is_best(self, column: int, value: float) -> bool:
        higher = list(self.metrics.values())[column].higher_is_better
        known = [values[column] for values in self.rows.values() if math.isfinite(values[column])]
        return higher is not None and len(set(known)) > 1 and value == (max if higher else min)(known)


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


def _html_row(name: str, cells: Sequence[tuple[str, bool]]) -> str:
    shown = (
        f'<td class="number">{"<b>" * best}{minus_signs(html_text(text))}{"</b>" * best}</td>' for text, best in cells
    )
    return f'<tr><th scope="row">{html_text(name)}</th>{"".join(shown)}</tr>'
