"""Between lists of Python values and columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from didact.errors import FormatError

TEXT = pa.string()
NAME = pa.dictionary(pa.int32(), pa.string())
"""A string that repeats from row to row."""


def make(schema: pa.Schema, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """A table of these columns; a value that does not fit is reported with its column."""
    arrays = []
    for field in schema:
        try:
            arrays.append(_array(columns[field.name], field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
            raise FormatError(f"column {field.name!r} takes {field.type}: {problem}") from None
    return pa.table(arrays, schema=schema)


def conform(table: pa.Table, schema: pa.Schema, what: str) -> pa.Table:
    """The schema's columns with the schema's types; further ones are left out, a missing one that is needed is named.

    Columns whose cells may be empty are empty where the table lacks them, so that older files can be read.
    """
    missing = [field.name for field in schema if field.name not in table.column_names and not field.nullable]
    if missing:
        raise FormatError(f"not a table of {what}: it lacks {', '.join(missing)}; it has {table.column_names}")
    arrays = []
    for field in schema:
        if field.name not in table.column_names:
            arrays.append(pa.nulls(len(table), field.type))
            continue
        column = table.column(field.name)
        try:
            arrays.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException:
            problem = f"column {field.name!r} is {column.type}, not {field.type}"
            raise FormatError(f"not a table of {what}: {problem}") from None
        if not field.nullable and column.null_count:
            raise FormatError(f"not a table of {what}: column {field.name!r} has empty cells")
    return pa.table(arrays, schema=schema)


def values(column: pa.ChunkedArray) -> list[Any]:
    """The column as Python values, list columns as lists; many times quicker than pyarrow's own on long lists."""
    return [value for chunk in column.chunks for value in _values(chunk)]


def numbered(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[Any]]:
    """Each cell's place in a list of the values that there are, and that list; empty cells are None."""
    if pa.types.is_dictionary(column.type):
        joined = column.unify_dictionaries().combine_chunks()
    else:
        joined = column.combine_chunks().dictionary_encode()
    known = joined.dictionary.to_pylist()
    places = joined.indices.fill_null(len(known)).to_numpy().astype(np.int64)
    return places, [*known, None]


def _array(given: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(given, kind.value_type).dictionary_encode()
    return pa.array(given, kind)


def _values(array: pa.Array) -> list[Any]:
    if pa.types.is_list(array.type):
        ends = array.offsets.to_numpy()  # they count from the start of all values, of which a slice shows some
        items = _values(array.values.slice(ends[0], ends[-1] - ends[0]))
        lists = [items[start:end] for start, end in pairwise((ends - ends[0]).tolist())]
        if not array.null_count:
            return lists
        return [value if valid else None for value, valid in zip(lists, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_dictionary(array.type):
        names = array.dictionary.to_pylist()
        return [None if place is None else names[place] for place in _values(array.indices)]
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        return array.to_pylist() if array.null_count else array.to_numpy().tolist()  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]
