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


def by_example(
    explainers: Sequence[str], examples: Sequence[str], values: ArrayLike
) -> tuple[list[str], dict[str, Floats]]:
    """Tidy rows of one metric as a table with one value per explainer and example.

    Args:
        explainers: the graded explainer of each row.
        examples: the example of each row.
        values: the grades; several of one explainer on one example (seeds) are averaged, NaN among them left out.

    Returns:
        The examples, sorted; and per explainer, in order of first appearance, one value per example, NaN where there is
        none. These fit ``bootstrap.intervals`` and ``compare.pairwise``.
    """
    numbers = np.asarray(values, dtype=np.float64).ravel()
    if not len(explainers) == len(examples) == len(numbers):
        raise InputError(
            f"each row has an explainer, an example and a value: got {len(explainers)}, {len(examples)}, {len(numbers)}"
        )
    rows, columns = list(dict.fromkeys(explainers)), sorted(set(examples))
    row_of = {name: place for place, name in enumerate(rows)}
    column_of = {name: place for place, name in enumerate(columns)}
    cell = np.array(
        [row_of[name] * len(columns) + column_of[id_] for name, id_ in zip(explainers, examples, strict=True)],
        dtype=np.int64,
    )
    defined, size = ~np.isnan(numbers), len(rows) * len(columns)
    # Sorted first: the order in which the rows come must not change the last bit of a sum.
    order = np.lexsort((numbers[defined], cell[defined]))
    cell, numbers = cell[defined][order], numbers[defined][order]
    table = _divided(np.bincount(cell, numbers, minlength=size), np.bincount(cell, minlength=size))
    return columns, dict(zip(rows, table.reshape(len(rows), len(columns)), strict=True))


def _divided(sums: ArrayLike, counts: ArrayLike) -> Floats:
    number = np.asarray(counts, dtype=np.float64)
    return np.asarray(sums, dtype=np.float64) / np.where(number > 0, number, np.nan)
