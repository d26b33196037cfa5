"""Rollout: what a stack of token-to-token matrices carries from the bottom to one place at the top."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def roll_out(row: Tensor, below: Iterable[Tensor]) -> Tensor:
    """Follow a row of the top matrix down through the matrices below it, last to first: (tokens,) -> (tokens,).

    A row of the product of all matrices, at the price of vector-matrix products. Matrix entry (i, j) is how much
    place i takes from place j.
    """
    for matrix in below:
        row = row @ matrix
    return row
