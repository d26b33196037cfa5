"""Turns keep masks of many examples into rows of model inputs, built only when their batch is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from didact.errors import ParameterError
from didact.models.encoding import Encoding
from didact.models.special_tokens import SpecialTokens
from didact.ops.masking import Absence, draws, present_tokens, replace, to_front, unique_rows, unit_of_position
from didact.types import Example, Floats, Keep, Units

Ints = NDArray[np.int64]
Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class _Variants:
    """The distinct variants of one example, and which of them each of the caller's rows is."""

    example: Example
    code: Encoding
    present: Keep
    inverse: Ints


class VariantRows:
    """All distinct variants of all examples as numbered rows; sampled variants are all distinct.

    Args:
        units: the examples' units.
        codes: their tokens.
        keep: their keep masks.
        operator: how absence is shown.
        vocabulary: ids for masking and padding.
        position_offset: first position id, or None when positions cannot be passed; "drop" then hides absent tokens
            from attention instead of taking them out, which gives the same outputs.
    """

    def __init__(
        self,
        units: Sequence[Units],
        codes: Sequence[Encoding],
        keep: Sequence[Keep],
        operator: Absence,
        vocabulary: SpecialTokens,
        position_offset: int | None,
    ) -> None:
        self.vocabulary = vocabulary
        self.offset = position_offset
        self.operator = Absence("hide") if operator.kind == "drop" and position_offset is None else operator
        distinct = operator.kind == "sample"
        self.examples = [_variants(*parts, distinct) for parts in zip(units, codes, keep, strict=True)]
        self.starts = np.cumsum([0, *(len(example.present) for example in self.examples)])
        self.owner = np.repeat(np.arange(len(self.examples)), np.diff(self.starts))
        parts = [self._lengths(example) for example in self.examples]
        self.lengths: Ints = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def columns(self, rows: Ints) -> Columns:
        """Model inputs for these rows, padded to the first row's length."""
        width = int(self.lengths[rows[0]])
        owners = self.owner[rows]
        blocks: list[Columns] = []
        order: list[Ints] = []
        for i in dict.fromkeys(owners.tolist()):
            mine = np.flatnonzero(owners == i)
            example = self.examples[i]
            blocks.append(self._block(example, rows[mine] - self.starts[i], width))
            order.append(mine)
        back = np.argsort(np.concatenate(order))
        return {name: np.concatenate([block[name] for block in blocks])[back] for name in blocks[0]}

    def spread(self, values: Floats) -> list[Floats]:
        """Values per distinct row -> values per row the caller asked for, example by example."""
        return [
            values[start : start + len(example.present)][example.inverse]
            for start, example in zip(self.starts, self.examples, strict=False)
        ]

    def _lengths(self, example: _Variants) -> Ints:
        if self.operator.removes:
            lengths: Ints = np.maximum(example.present.sum(axis=1, dtype=np.int64), 1)
            return lengths
        return np.full(len(example.present), len(example.code.ids), dtype=np.int64)

    def _block(self, example: _Variants, rows: Ints, width: int) -> Columns:
        code, present = example.code, example.present[rows]
        if self.operator.removes:
            return self._removed(code, present.astype(np.bool_), width)
        ids = np.broadcast_to(code.ids, present.shape)
        seen = np.ones(present.shape, dtype=np.int64)
        block: Columns = {}
        if self.operator.kind == "hide":
            seen = present.astype(np.int64)
        elif self.operator.kind == "blend":
            block["weights"] = pad(present.astype(np.float32), width, 1)
        elif self.operator.kind == "sample":
            pool = self.vocabulary.pool(self.operator)
            drawn = draws(self.operator, example.example, rows, len(code.ids), len(pool))
            ids = np.where(present.astype(np.bool_), code.ids, pool[drawn])
        else:
            ids = replace(code.ids, present.astype(np.bool_), self.vocabulary.absent_id(self.operator))
        block |= {"input_ids": pad(ids, width, self.vocabulary.pad_id), "attention_mask": pad(seen, width, 0)}
        if code.types is not None:
            block["token_type_ids"] = pad(np.broadcast_to(code.types, present.shape), width, 0)
        return block

    def _removed(self, code: Encoding, present: NDArray[np.bool_], width: int) -> Columns:
        filled, taken = to_front(present, width)

        def moved(row: Ints, fill: int) -> Ints:
            out = np.full(filled.shape, fill, dtype=np.int64)
            out[filled] = row[taken]
            return out

        seen = filled.astype(np.int64)
        block: Columns = {"input_ids": moved(code.ids, self.vocabulary.pad_id), "attention_mask": seen}
        empty = ~filled[:, 0]
        block["input_ids"][empty, 0] = self.vocabulary.filler_id
        seen[empty, 0] = 1
        if self.operator.kind == "drop" and self.offset is not None:
            block["position_ids"] = moved(np.arange(len(code.ids)) + self.offset, self.offset)
        if code.types is not None:
            block["token_type_ids"] = moved(code.types, 0)
        return block


def pad(array: NDArray[Any], width: int, fill: int) -> NDArray[Any]:
    """Fill up the last axis on the right."""
    size = array.shape[-1]
    if width <= size:
        return array
    wide = np.full((*array.shape[:-1], width), fill, dtype=array.dtype)  # much quicker than np.pad for short rows
    wide[..., :size] = array
    return wide


def _variants(units: Units, code: Encoding, keep: Keep, distinct: bool) -> _Variants:
    if keep.ndim != 2 or keep.shape[1] != len(units):
        raise ParameterError(f"keep masks must have shape (variants, {len(units)}), got {keep.shape}")
    rows, inverse = (keep, np.arange(len(keep))) if distinct else unique_rows(keep)
    return _Variants(units.example, code, present_tokens(rows, unit_of_position(units, len(code.ids))), inverse)
