"""Token ids of texts without some of their units."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from didact.models.batch import Ints
from didact.models.passes import WINDOWS
from didact.models.readers.base import Columns, Masked
from didact.models.tokens.encoding import Encoding
from didact.models.tokens.special import SpecialTokens
from didact.ops.masking import draws, replace, to_front

Number = TypeVar("Number", np.int64, np.float32)


def token_rows(part: Masked[Encoding], special: SpecialTokens) -> Columns:
    """Token ids, attention mask and segment ids of variants of one text."""
    code, present, operator, width = part.code, part.present, part.operator, part.width
    if operator.removes:
        return _removed(part, special)
    ids = np.broadcast_to(code.ids, present.shape)
    seen = np.ones(present.shape, dtype=np.int64)
    if operator.kind == "hide":
        seen = present.astype(np.int64)
    elif operator.kind == "sample":
        pool = special.pool(operator)
        drawn = draws(operator, part.example, part.numbers, len(code.ids), len(pool))
        ids = np.where(present.astype(np.bool_), code.ids, pool[drawn])
    else:
        ids = replace(code.ids, present.astype(np.bool_), special.absent_id(operator))
    block: Columns = {"input_ids": pad(ids, width, special.pad_id), "attention_mask": pad(seen, width, 0)}
    if code.types is not None:
        block["token_type_ids"] = pad(np.broadcast_to(code.types, present.shape), width, 0)
    if code.windows is not None:
        block[WINDOWS] = pad(np.broadcast_to(code.windows, present.shape), width, -1)
    return block


def pad(array: NDArray[Number], width: int, fill: int) -> NDArray[Number]:
    """Fill up the last axis on the right."""
    size = array.shape[-1]
    if width <= size:
        return array
    wide = np.full((*array.shape[:-1], width), fill, dtype=array.dtype)  # much quicker than np.pad for short rows
    wide[..., :size] = array
    return wide


def _removed(part: Masked[Encoding], special: SpecialTokens) -> Columns:
    """Present tokens moved to the front; a text of which nothing is left becomes one filler token."""
    code, first = part.code, part.first_position
    filled, taken = to_front(part.present.astype(np.bool_), part.width)

    def moved(row: Ints, fill: int) -> Ints:
        out = np.full(filled.shape, fill, dtype=np.int64)
        out[filled] = row[taken]
        return out

    seen = filled.astype(np.int64)
    ids = moved(code.ids, special.pad_id)
    block: Columns = {"input_ids": ids, "attention_mask": seen}
    empty = ~filled[:, 0]
    ids[empty, 0] = special.filler_id
    seen[empty, 0] = 1
    if part.operator.kind == "drop" and first is not None:
        block["position_ids"] = moved(code.steps + first, first)
    if code.types is not None:
        block["token_type_ids"] = moved(code.types, 0)
    if code.windows is not None:
        block[WINDOWS] = moved(code.windows, -1)
        block[WINDOWS][empty, 0] = 0
    return block
