"""Records as a table: one measured number per row.

    >>> row = Record("lime", "lime", 0, "", "comprehensiveness", "", "sst2-7", 0.31, "b1f0", "sst2", "9c2e")
    >>> from_table(to_table([row])) == [row]
    True

Names that repeat from row to row are stored once and numbered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from didact.errors import FormatError
from didact.store import columns, files
from didact.types import Record

SCHEMA = pa.schema(
    [
        pa.field("explainer", columns.NAME, nullable=False),
        pa.field("method", columns.NAME, nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("null", columns.NAME, nullable=False),
        pa.field("metric", columns.NAME, nullable=False),
        pa.field("part", columns.NAME, nullable=False),
        pa.field("example", columns.NAME, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("model", columns.NAME, nullable=False),
        pa.field("data", columns.NAME, nullable=False),
        pa.field("settings", columns.NAME, nullable=False),
        pa.field("student", columns.NAME),
        pa.field("channel", columns.NAME),
        pa.field("size", pa.int64()),
        pa.field("failure", columns.NAME),
    ]
)
"""Columns of a record; those about students are empty where there is none, and files without them can be read."""


def to_table(records: Iterable[Record]) -> pa.Table:
    """One row per record, in the order given."""
    rows = [vars(record) for record in records]
    table = {field.name: [row[field.name] for row in rows] for field in SCHEMA}
    for name in _DEFAULTS:
        table[name] = [value or None for value in table[name]]
    table["value"] = [
        float("nan") if value != value else value for value in table["value"]
    ]  # NaN has many bit patterns
    return columns.make(SCHEMA, table)


def from_table(table: pa.Table) -> list[Record]:
    """Inverse of ``to_table``; further columns are left out."""
    checked = columns.conform(table, SCHEMA, "records")
    cells = {name: columns.values(checked.column(name)) for name in SCHEMA.names}
    for name, default in _DEFAULTS.items():
        cells[name] = [default if value is None else value for value in cells[name]]
    return [Record(*row) for row in zip(*cells.values(), strict=True)]


def with_constants(table: pa.Table, constants: Mapping[str, str | int]) -> pa.Table:
    """A table of records from the columns that differ from row to row and the values that all rows have in common."""
    for name, value in constants.items():
        table = table.append_column(name, pa.repeat(pa.scalar(value), len(table)))
    return columns.conform(table, SCHEMA, "records")


def in_order(table: pa.Table) -> pa.Table:
    """The rows sorted by every name, seed and example, so that the order in which they were made is not seen."""
    keys = [name for name in SCHEMA.names if name != "value"]
    plain = columns.conform(table, PLAIN, "records")  # numbered strings would sort by number
    return columns.conform(plain.sort_by([(name, "ascending") for name in keys]), SCHEMA, "records")


def write(path: Path | str, table: pa.Table) -> None:
    """Write records; equal tables give equal bytes, whatever made them."""
    files.write(path, columns.conform(table, SCHEMA, "records"))


def read(path: Path | str) -> pa.Table:
    """Read records; a file that holds something else is named."""
    table = files.read(path)
    try:
        return columns.conform(table, SCHEMA, "records")
    except FormatError as problem:
        raise FormatError(f"{path}: {problem}; delete it and run again") from None


_DEFAULTS = {item.name: item.default for item in dataclasses.fields(Record) if item.default is not dataclasses.MISSING}
PLAIN = pa.schema([field.with_type(columns.TEXT) if field.type == columns.NAME else field for field in SCHEMA])
