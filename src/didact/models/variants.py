"""Turns keep masks of many examples into rows of model inputs, built only when their batch is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.errors import ParameterError
from didact.models.batch import Encoded, EncodedBatch, Ints
from didact.models.readers.base import AnyReader, Columns, Masked
from didact.ops.masking import Absence, present_tokens, to_front, unique_rows, unit_of_position
from didact.types import Example, Floats, Keep, Units


@dataclass(frozen=True, eq=False)
class _Variants:
    """The distinct variants of one example, and which of them each of the caller's rows is."""

    example: Example
    code: Encoded
    present: Keep
    inverse: Ints


class VariantRows:
    """All distinct variants of all examples as numbered rows; sampled variants are all distinct.

    Args:
        units: the examples' units.
        codes: the same examples, encoded by the reader.
        keep: their keep masks.
        operator: how absence is shown.
        reader: makes the inputs.
        first_position: number of the first position, or None when positions cannot be passed; "drop" then hides absent
            positions from attention instead of taking them out, which gives the same outputs.
    """

    def __init__(
        self,
        units: Sequence[Units],
        codes: Sequence[Encoded],
        keep: Sequence[Keep],
        operator: Absence,
        reader: AnyReader,
        first_position: int | None,
    ) -> None:
        self.reader = reader
        self.first_position = first_position
        self.operator = Absence("hide") if operator.kind == "drop" and first_position is None else operator
        all_differ = operator.kind == "sample"
        self.examples = [_variants(*parts, all_differ) for parts in zip(units, codes, keep, strict=True)]
        self.starts = np.cumsum([0, *(len(example.present) for example in self.examples)])
        self.owner = np.repeat(np.arange(len(self.examples)), np.diff(self.starts))
        parts = [self._lengths(example) for example in self.examples]
        self.lengths: Ints = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def batch(self, rows: Ints) -> EncodedBatch:
        """Model inputs for these rows, padded to the first row's length."""
        inputs = {name: self.reader.tensor(column) for name, column in self.columns(rows).items()}
        codes = [self.examples[i].code for i in self.owner[rows]]
        return EncodedBatch(inputs, codes, (lambda: self.places(rows)) if self.operator.removes else None)

    def columns(self, rows: Ints, width: int | None = None) -> Columns:
        """The same as arrays, padded to another width where one is given."""
        width = int(self.lengths[rows[0]]) if width is None else width
        owners = self.owner[rows]
        blocks: list[Columns] = []
        order: list[Ints] = []
        for i in dict.fromkeys(owners.tolist()):
            mine = np.flatnonzero(owners == i)
            blocks.append(self._block(self.examples[i], rows[mine] - self.starts[i], width))
            order.append(mine)
        back = np.argsort(np.concatenate(order))
        return {name: np.concatenate([block[name] for block in blocks])[back] for name in blocks[0]}

    def spread(self, values: Floats) -> list[Floats]:
        """Values per distinct row -> values per row of the caller's, example by example."""
        return [
            values[start : start + len(example.present)][example.inverse]
            for start, example in zip(self.starts, self.examples, strict=False)
        ]

    def _lengths(self, example: _Variants) -> Ints:
        if self.operator.removes:
            lengths: Ints = np.maximum(example.present.sum(axis=1, dtype=np.int64), 1)
            return lengths
        return np.full(len(example.present), len(example.code), dtype=np.int64)

    def _block(self, variants: _Variants, numbers: Ints, width: int) -> Columns:
        present = variants.present[numbers]
        example, code = variants.example, variants.code
        return self.reader.masked(Masked(example, code, present, numbers, width, self.operator, self.first_position))

    def places(self, rows: Ints, width: int | None = None) -> Ints:
        """The position that each column shows, -1 for padding: (rows, width)."""
        width = int(self.lengths[rows[0]]) if width is None else width
        places = np.full((len(rows), width), -1, dtype=np.int64)
        for place, row in zip(places, rows, strict=True):
            i = self.owner[row]
            present = self.examples[i].present[[row - self.starts[i]]].astype(np.bool_)
            filled, taken = to_front(present, len(place))
            place[filled[0]] = taken
        return places


def _variants(units: Units, code: Encoded, keep: Keep, all_differ: bool) -> _Variants:
    if keep.ndim != 2 or keep.shape[1] != len(units):
        raise ParameterError(f"keep masks must have shape (variants, {len(units)}), got {keep.shape}")
    rows, inverse = (keep, np.arange(len(keep))) if all_differ else unique_rows(keep)
    return _Variants(units.example, code, present_tokens(rows, unit_of_position(units, len(code))), inverse)
