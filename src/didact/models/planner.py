"""Packs rows of many examples into batches of one token budget and survives running out of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from didact.errors import ModelError
from didact.progress import advance, working

Ints = NDArray[np.int64]

# On CPUs within about 10 % of the best for 20 and 250 tokens, 384-wide and 768-wide (benchmarks/planner.py). A batch
# costs about as much as 60 tokens besides its own: tried on 30 sentences of the embedded model and 64 of MiniLM.
CPU_TOKENS, CPU_FIXED = 2048, 60
GPU_TOKENS, GPU_FIXED = 65536, 8192


@dataclass
class Budget:
    """How many tokens (rows times padded length) one batch may hold; halved when memory runs out, and stays halved.

    Attributes:
        tokens: the limit.
        rows: a second limit.
        fixed: what a batch costs besides its tokens, in tokens; where padding would cost more, a batch is cut.
    """

    tokens: int
    rows: int = 1 << 30
    fixed: int = 1 << 30

    def halve(self) -> None:
        """Take half from now on."""
        self.tokens //= 2


def default_budget(device: torch.device, tokens: int | None = None) -> Budget:
    """Tokens per batch that suit the device, unless given."""
    usual, fixed = (GPU_TOKENS, GPU_FIXED) if device.type == "cuda" else (CPU_TOKENS, CPU_FIXED)
    return Budget(tokens or usual, fixed=fixed)


def run(what: str, lengths: Ints, budget: Budget, pads: bool, evaluate: Callable[[Ints], None]) -> None:
    """Call ``evaluate`` on batches of row numbers until every row was done once.

    Rows are taken longest first, so that a batch is padded little and memory fails at once or not at all. ``evaluate``
    must not keep results of a batch before its last allocation succeeded.

    Args:
        what: name of the work, for progress.
        lengths: tokens per row.
        budget: shared between calls, so that the limit of memory is met only once.
        pads: whether rows of different length may share a batch.
        evaluate: runs the model on these rows, all at most as long as the first.
    """
    order = np.argsort(-lengths, kind="stable")
    done = 0
    with working(what, len(order)):
        while done < len(order):
            for batch in batches(lengths, order[done:], budget, pads):
                try:
                    evaluate(batch)
                except (RuntimeError, MemoryError) as problem:
                    _recover(problem, batch, lengths, budget)
                    break
                done += len(batch)
                advance(len(batch))


def batches(lengths: Ints, order: Ints, budget: Budget, pads: bool) -> Iterator[Ints]:
    """Cut rows, sorted longest first, into batches within the budget; a single row is always allowed."""
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        count = max(1, min(budget.tokens // max(longest, 1), budget.rows))
        batch = order[start : start + count]
        batch = _trim(batch, lengths[batch], budget.fixed) if pads else batch[lengths[batch] == longest]
        yield batch
        start += len(batch)


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether an exception of torch, CUDA or the operating system means that memory ran out."""
    if isinstance(problem, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(problem).lower()
    return "out of memory" in text or "can't allocate memory" in text or "not enough memory" in text


def _trim(batch: Ints, lengths: Ints, fixed: int) -> Ints:
    """Leave the shorter rows to a batch of their own as long as that saves more padding than a batch costs."""
    while True:
        saved = (len(batch) - np.arange(len(batch))) * (lengths[0] - lengths[: len(batch)])
        cut = int(saved.argmax())
        if saved[cut] <= fixed:
            return batch
        batch = batch[:cut]


def _recover(problem: BaseException, batch: Ints, lengths: Ints, budget: Budget) -> None:
    """Halve the budget, or give up when a single row is too much."""
    if not is_out_of_memory(problem):
        raise problem
    if len(batch) == 1:
        raise ModelError(
            f"out of memory on a single row of {int(lengths[batch[0]])} tokens; use a shorter max_length, "
            "a smaller model or another device"
        ) from problem
    budget.tokens = min(budget.tokens, len(batch) * int(lengths[batch[0]]))
    budget.halve()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
