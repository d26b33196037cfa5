"""Options for the columns of a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from didact.errors import ParameterError

Columns = dict[str, str | None]
"""Field of an example -> the column that holds it; None leaves it out."""


def add_columns(parser: argparse._ActionsContainer) -> None:
    """Which columns hold what."""
    parser.add_argument("--text-column", metavar="NAME", help="column of a table that holds the text")
    parser.add_argument("--label-column", metavar="NAME", help="column of a table that holds the label")
    parser.add_argument(
        "--column",
        metavar="FIELD=NAME",
        action="append",
        default=[],
        help="column of a table that holds the text, text_pair, label, rationale or id (label= leaves it out); may be "
        "repeated",
    )


def chosen(options: argparse.Namespace) -> Columns:
    """The columns that a command line names; one that is named twice is refused."""
    named = _parsed(options.column)
    for field, column in (("text", options.text_column), ("label", options.label_column)):
        if column is not None and field in named:
            raise ParameterError(f"the column of the {field} is named by both --{field}-column and --column {field}=")
        if column is not None:
            named[field] = column
    return named


def _parsed(pairs: Sequence[str]) -> Columns:
    """``text=body`` -> {"text": "body"}; ``label=`` leaves the label out."""
    named: Columns = {}
    for pair in pairs:
        field, sign, column = pair.partition("=")
        if not sign or not field:
            raise ParameterError(f"a column looks like text=NAME, got {pair!r}")
        named[field] = column or None
    return named
