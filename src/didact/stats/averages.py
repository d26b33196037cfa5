"""Several values per example become one, before any statistics.

Runs with other seeds on the same example are no further examples: counting them as such would make intervals too narrow
by up to the square root of the number of seeds.

    >>> examples, table = by_example(["lime", "lime", "lime", "ig"], ["a", "a", "b", "a"], [0.2, 0.4, 0.5, 0.1])
    >>> examples, table["lime"].tolist(), table["ig"].tolist()
    (['a', 'b'], [0.30000000000000004, 0.5], [0.1, nan])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from didact.errors import InputError
from didact.types import Floats


def over_seeds(values: ArrayLike) -> Floats:
    """Mean over seeds (seeds, examples) -> (examples,); of the defined values, NaN where none is."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise InputError(f"values come as (seeds, examples), got an array of shape {table.shape}")
    defined = ~np.isnan(table)
    return _divided(np.where(defined, table, 0.0).sum(axis=0), defined.sum(axis=0))


def by_example(
    explainers: Sequence[str], examples: Sequence[str], values: ArrayLike
) -> tuple[list[str], dict[str, Floats]]:
    """Tidy rows of one metric as a table with one value per explainer and example.

    Args:
        explainers: who was graded, row by row.
        examples: on which example, row by row.
        values: the grades; several of one explainer on one example (seeds) are averaged, NaN among them left out.

    Returns:
        The examples, sorted; and per explainer, in order of first appearance, one value per example, NaN where there is
        none. These fit ``bootstrap.intervals`` and ``compare.pairwise``.
    """
    given = np.asarray(values, dtype=np.float64).ravel()
    if not len(explainers) == len(examples) == len(given):
        raise InputError(
            f"each row has an explainer, an example and a value: got {len(explainers)}, {len(examples)}, {len(given)}"
        )
    rows, columns = list(dict.fromkeys(explainers)), sorted(set(examples))
    row_of = {name: place for place, name in enumerate(rows)}
    column_of = {name: place for place, name in enumerate(columns)}
    cell = np.array(
        [row_of[who] * len(columns) + column_of[what] for who, what in zip(explainers, examples, strict=True)],
        dtype=np.int64,
    )
    defined, size = ~np.isnan(given), len(rows) * len(columns)
    # Sorted first: the order in which the rows come must not change the last bit of a sum.
    order = np.lexsort((given[defined], cell[defined]))
    cell, given = cell[defined][order], given[defined][order]
    table = _divided(np.bincount(cell, given, minlength=size), np.bincount(cell, minlength=size))
    return columns, dict(zip(rows, table.reshape(len(rows), len(columns)), strict=True))


def _divided(sums: ArrayLike, counts: ArrayLike) -> Floats:
    number = np.asarray(counts, dtype=np.float64)
    return np.asarray(sums, dtype=np.float64) / np.where(number > 0, number, np.nan)
