"""Keys and values of a decoder for what variants have in common, computed once.

A decoder's states at a position depend on nothing behind it. All variants of an example are equal up to the first
absent position, and all examples of one prompt up to the slot; so these beginnings are read once, and each variant only
from its first absent position on. This is exact, up to rounding.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from didact.models import precision
from didact.models.batch import Encoded, EncodedBatch, Ints
from didact.models.planner import Budget, default_budget, run
from didact.models.readers.base import AnyReader, Columns
from didact.models.variants import VariantRows
from didact.ops.masking import Absence

if TYPE_CHECKING:
    from transformers import DynamicCache, PreTrainedModel

TOLERANCE = 1e-5
"""How far outputs may differ, relative to their size, where a beginning was read apart from the rest."""
FEWEST = 0.25
"""Smallest share of the usual positions per batch; keys and values that are copied for each row take memory, too."""


def without_prefix(
    rows: VariantRows, network: nn.Module, budget: Budget, reuses: bool
) -> tuple[VariantRows | PrefixRows, Budget]:
    """Rows without the beginnings that they share, where the network can reuse them, and positions per batch."""
    if not reuses or not len(rows.owner):
        return rows, budget
    made = PrefixRows(rows, network, budget)
    return made, made.budget


class PrefixRows:
    """The rows of ``VariantRows``, each from its first absent position on.

    Args:
        rows: all variants of all examples.
        network: a decoder for which ``can_reuse`` holds.
        budget: positions per batch.
    """

    def __init__(self, rows: VariantRows, network: nn.Module, budget: Budget) -> None:
        self.rows = rows
        self.starts = first_absent(rows)
        self.lengths: Ints = rows.lengths - self.starts
        self.prefixes = Prefixes(rows, self.starts, network, budget)
        share = float(self.lengths.sum() / rows.lengths.sum())
        self.budget = Budget(max(1, round(budget.tokens * max(share, FEWEST))), budget.rows, budget.fixed)

    def batch(self, rows: Ints) -> EncodedBatch:
        """Inputs from the first absent positions on, with keys and values of what comes before.

        Rows that begin later have more before them; the others' caches are filled up on the left, where nothing looks.
        """
        starts, before = self.starts[rows], int(self.starts[rows].max())
        tail = starts[:, None] + np.arange(int(self.lengths[rows].max()))
        columns: Columns = {"position_ids": tail, **self.rows.columns(rows, self._width(rows))}
        inputs = taken(columns, tail)
        cached = np.arange(before) >= before - starts[:, None]
        inputs["attention_mask"] = np.concatenate([cached.astype(np.int64), inputs["attention_mask"]], 1)
        made: dict[str, Any] = {name: self.rows.reader.tensor(column) for name, column in inputs.items()}
        made["past_key_values"] = self.prefixes.cache(self.rows.owner[rows], starts)
        codes = [self.rows.examples[i].code for i in self.rows.owner[rows]]
        return EncodedBatch(made, codes, lambda: self._places(rows, tail))

    def _places(self, rows: Ints, tail: Ints) -> Ints:
        """The position that each column shows, -1 for padding."""
        width = self._width(rows)
        whole = self.rows.places(rows, width) if self.rows.operator.removes else np.arange(width) + 0 * rows[:, None]
        inside = tail < self.rows.lengths[rows][:, None]
        return np.where(inside, np.take_along_axis(whole, np.minimum(tail, width - 1), 1), -1)

    def _width(self, rows: Ints) -> int:
        return int(self.rows.lengths[rows].max())


class Prefixes:
    """Keys and values of whole examples: of what all examples share once, then of each example's own continuation.

    Args:
        rows: all variants of all examples.
        starts: the position from which each row is not that of its whole example.
        network: the decoder.
        budget: positions per batch.
    """

    def __init__(self, rows: VariantRows, starts: Ints, network: nn.Module, budget: Budget) -> None:
        self.reader = rows.reader
        self.base = cast("PreTrainedModel", network).base_model
        self.codes = [example.code for example in rows.examples]
        ends = np.zeros(len(self.codes), dtype=np.int64)
        np.maximum.at(ends, rows.owner, starts)
        self.shared = min(int(starts.min()), common_length(self.reader, self.codes))
        self.offsets: Ints = np.cumsum([self.shared, *(ends - self.shared)])
        self.layers: list[tuple[Tensor, Tensor]] = []
        if self.shared:
            self.layers = self._read([0], 0, [self.shared])
        self._continue(ends, budget)

    def cache(self, owners: Ints, sizes: Ints) -> DynamicCache | None:
        """The first positions of each owner's example, so many as its size, filled up on the left to the largest."""
        width = int(sizes.max(initial=0))
        if not width:
            return None
        from transformers import DynamicCache

        numbers = np.maximum(np.arange(width) - (width - sizes[:, None]), 0)
        own = self.offsets[owners][:, None] + numbers - self.shared
        index = torch.from_numpy(np.where(numbers < self.shared, numbers, own)).to(self.layers[0][0].device)
        made = DynamicCache()
        for number, (keys, values) in enumerate(self.layers):
            made.update(keys[index].transpose(1, 2), values[index].transpose(1, 2), number)
        return made

    def _continue(self, ends: Ints, budget: Budget) -> None:
        """Read each example from the shared positions to where the last of its variants begins."""
        sizes = ends - self.shared
        own = np.flatnonzero(sizes)
        parts: dict[int, list[tuple[Tensor, Tensor]]] = {}

        def evaluate(batch: Ints) -> None:
            chosen = own[batch]
            layers = self._read(chosen.tolist(), self.shared, sizes[chosen].tolist())
            cuts = np.cumsum(sizes[chosen])[:-1].tolist()
            split = [[part.tensor_split(cuts) for part in layer] for layer in layers]
            for place, number in enumerate(chosen.tolist()):
                parts[number] = [(keys[place], values[place]) for keys, values in split]

        if len(own):
            run("reading prefixes", sizes[own], budget, True, evaluate)
        banks = [*([self.layers] if self.layers else []), *(parts[int(number)] for number in own)]
        self.layers = [
            (torch.cat([keys for keys, _ in layer]), torch.cat([values for _, values in layer]))
            for layer in zip(*banks, strict=True)
        ]

    def _read(self, numbers: Sequence[int], start: int, sizes: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of positions of some examples, one after the other: (positions, heads, dim) per layer."""
        from transformers import DynamicCache

        end = start + max(sizes)
        inputs = self.reader.whole([self.codes[number] for number in numbers])
        owners = np.array(numbers, dtype=np.int64)
        cache = self.cache(owners, np.full(len(owners), start, dtype=np.int64)) or DynamicCache()
        positions = torch.arange(start, end, device=inputs["input_ids"].device).expand(len(owners), -1)
        self.base(
            input_ids=inputs["input_ids"][:, start:end],
            attention_mask=inputs["attention_mask"][:, :end],
            position_ids=positions,
            past_key_values=cache,
        )
        return [
            (_joined(layer.keys, start, sizes), _joined(layer.values, start, sizes))  # type: ignore[arg-type, union-attr] # read
            for layer in cache.layers
        ]


def can_reuse(network: nn.Module, reader: AnyReader, outputs: Callable[[EncodedBatch], Tensor]) -> bool:
    """Whether a pass over the rest of an example, with the keys and values of its beginning, gives the same outputs.

    Args:
        network: in evaluation mode.
        reader: feeds it.
        outputs: of a batch.
    """
    taken_names = inspect.signature(network.forward).parameters
    if not reader.shares_prefix or not {"past_key_values", "position_ids"} <= taken_names.keys():
        return False
    rope = getattr(getattr(network, "config", None), "rope_parameters", None) or {}
    if rope.get("rope_type", "default") in ("dynamic", "longrope"):  # what a position means depends on the length
        return False
    return _agrees(network, reader, outputs)


def first_absent(rows: VariantRows) -> Ints:
    """Per row the first position that is absent; the last position where none is, since it must be read to answer."""
    parts = [np.zeros(0, dtype=np.int64)]
    for variants in rows.examples:
        present = variants.present.astype(np.bool_)
        last = present.shape[1] - 1
        parts.append(np.where(present.all(axis=1), last, np.minimum(present.argmin(axis=1), last)))
    return np.concatenate(parts)


def common_length(reader: AnyReader, codes: Sequence[Encoded]) -> int:
    """How many positions all examples have in common at their beginning."""
    ids = reader.whole(codes)["input_ids"]
    differs = (ids != ids[:1]).any(0)
    shortest = min(len(code) for code in codes)
    return min(int(differs.int().argmax()), shortest) if bool(differs.any()) else shortest


def taken(columns: Columns, tail: Ints) -> Columns:
    """Of each column those places that ``tail`` (rows, width) names; what lies behind the last is not attended to."""
    made: Columns = {}
    for name, column in columns.items():
        if column is tail:
            made[name] = tail
            continue
        made[name] = np.take_along_axis(column, np.minimum(tail, column.shape[1] - 1), 1)  # type: ignore[assignment]
        if name == "attention_mask":
            made[name] = made[name] * (tail < column.shape[1])
    return made


def _joined(states: Tensor, start: int, sizes: Sequence[int]) -> Tensor:
    """(rows, heads, positions, dim) -> the rows' positions from ``start`` on, one after the other."""
    return torch.cat([row[:, start : start + size].transpose(0, 1) for row, size in zip(states, sizes, strict=True)])


def _agrees(network: nn.Module, reader: AnyReader, outputs: Callable[[EncodedBatch], Tensor]) -> bool:
    """Try both ways on a small example with and without one of its units."""
    units = reader.units([reader.probe()], reader.levels[0])
    keep = np.ones((2, len(units[0])), dtype=np.bool_)
    keep[1, -1] = False
    rows = VariantRows(units, reader.encode([units[0].example]), [keep], Absence("delete"), reader, 0)
    both = np.argsort(-rows.lengths, kind="stable")
    try:
        plain = outputs(rows.batch(both)).float()
        reused = outputs(PrefixRows(rows, network, default_budget(reader.device)).batch(both)).float()
    except (TypeError, ValueError, IndexError, RuntimeError, AttributeError):  # the network does not work this way
        return False
    dtype = next(network.parameters()).dtype
    floor = max(TOLERANCE, 16 * precision.step(dtype, plain.device))  # half precision cannot agree better
    return bool((plain - reused).abs().max() <= floor * (1 + plain.abs().max()))
