"""Tables that are in memory already: data frames and their columns, numpy arrays, dictionaries of columns.

Nothing of pandas, polars or pyarrow is imported: a table is known by what it offers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np

from didact.data.rows import Row
from didact.errors import InputError
from didact.types import Image

TEXT = "text"
LISTING = ("to_list", "to_pylist")
"""Methods that give the values of a column as Python's own."""


class Frame(Protocol):
    """A table with named columns, of pandas, polars or pyarrow."""

    @property
    def columns(self) -> Any:
        """Names of the columns (of pyarrow the columns themselves, and the names as ``column_names``)."""
        ...

    def __getitem__(self, name: str) -> Any: ...


def is_frame(given: object) -> TypeGuard[Frame]:
    """Whether it is a table with named columns."""
    return not isinstance(given, (Mapping, type)) and hasattr(given, "columns") and hasattr(given, "__getitem__")


def is_column(given: object) -> bool:
    """Whether it is a single column: a Series of pandas or polars, an array of pyarrow."""
    return any(hasattr(given, name) for name in LISTING) and not isinstance(given, type) and not is_frame(given)


def is_columns(given: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether it is a dictionary of columns rather than one row."""
    if not isinstance(given, Mapping) or not given:
        return False
    return all(is_column(value) or isinstance(value, (list, tuple, np.ndarray)) for value in given.values())


def is_in_memory(given: object) -> bool:
    """Whether it holds many examples in one of the forms that ``rows_in_memory`` reads; a picture is one example."""
    if isinstance(given, np.ndarray):
        return given.dtype.kind in "UOT" or given.ndim == 4
    return is_frame(given) or is_column(given) or is_columns(given)


def rows_in_memory(given: object) -> Iterator[Row]:
    """The rows of a data frame, a column of texts, an array, or a dictionary of columns; each with its place."""
    name = type(given).__name__
    if isinstance(given, np.ndarray):
        return _array_rows(given)
    if is_column(given):
        return _labelled_rows({TEXT: _values(given)}, name, _index(given))
    columns = _columns(given)
    sizes = {column: len(values) for column, values in columns.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{column} {size}" for column, size in sizes.items())
        raise InputError(f"the columns of a {name} must be equally long, got {listed}")
    return _labelled_rows(columns, name, _index(given))


def _columns(given: Any) -> dict[str, list[Any]]:
    """Values by name; a table that cannot be read column by column, such as a lazy one, is refused."""
    try:
        return _read_columns(given)
    except InputError:
        raise
    except Exception as problem:
        raise InputError(
            f"the columns of a {type(given).__name__} cannot be read ({type(problem).__name__}); give a DataFrame, of "
            "a lazy one what collect() returns"
        ) from problem


def _read_columns(given: Any) -> dict[str, list[Any]]:
    names = getattr(given, "column_names", None) or list(given if isinstance(given, Mapping) else given.columns)
    if len(set(names)) < len(names):
        twice = sorted({str(name) for name in names if list(names).count(name) > 1})
        raise InputError(f"the {type(given).__name__} has several columns of one name: {', '.join(twice)}; rename them")
    return {str(name): _values(given[name]) for name in names}


def _values(column: Any) -> list[Any]:
    listing = next((getattr(column, name) for name in LISTING if hasattr(column, name)), None)
    return list(column if listing is None else listing())


def _index(given: object) -> Sequence[object] | None:
    """Labels of pandas' rows; other tables only number them."""
    index = getattr(given, "index", None)
    return _values(index) if is_column(index) else None


def _labelled_rows(columns: Mapping[str, list[Any]], name: str, index: Sequence[object] | None) -> Iterator[Row]:
    size = len(next(iter(columns.values()), ()))
    for number in range(size):
        where = f"{name}, row {number}" if index is None else f"{name}, index {index[number]!r:.60}"
        yield where, {column: _plain(values[number]) for column, values in columns.items()}


def _array_rows(array: np.ndarray[Any, Any]) -> Iterator[Row]:
    """Texts (n,), pairs (n, 2) or images (n, height, width, 3)."""
    if array.dtype.kind in "UOT" and array.ndim == 1:
        return _labelled_rows({TEXT: list(array)}, "array", None)
    if array.dtype.kind in "UOT" and array.ndim == 2 and array.shape[1] == 2:
        return _labelled_rows({TEXT: list(array[:, 0]), "text_pair": list(array[:, 1])}, "array", None)
    if array.ndim == 4:
        return ((f"array, row {number}", {"image": Image.of(pixels)}) for number, pixels in enumerate(array))
    raise InputError(
        f"an array of {array.dtype} with the shape {array.shape} holds no examples; give texts (n,), pairs of texts "
        "(n, 2) or images (n, height, width, 3)"
    )


def _plain(value: object) -> object:
    """A number or text of numpy's as Python's own."""
    return value.item() if isinstance(value, np.generic) else value
