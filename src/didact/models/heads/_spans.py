"""Probabilities of spans of the input, from scores of where they start and end in one or several windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from didact.errors import TargetError
from didact.models.batch import EncodedBatch, Ints
from didact.models.tokens.encoding import Encoding
from didact.types import Span

ABSENT = math.log(1e-12)
"""Log-probability of an answer of which no token is left, where absent tokens are taken out."""
IMPOSSIBLE = -1e30
"""Score of what is no answer; finite, since differences of infinities are undefined."""


class SpanScores:
    """Scores of starts and ends, with what the columns of each row show.

    Args:
        outputs: (rows, columns, 2).
        batch: that they were computed from; an answer lies in the last field of its examples.
    """

    def __init__(self, outputs: Tensor, batch: EncodedBatch) -> None:
        self.codes = cast("Sequence[Encoding]", batch.codes)
        self.places = batch.places
        self.scores = outputs[:, : self.places.shape[1]]  # (rows, columns, 2)
        self.answers = self._tensor(self._shown(lambda code: code.fields == field_of_answers(code)))
        first = self._tensor(self._shown(lambda code: code.steps == 0))  # of each window: stands for "no answer"
        self.nothing = self.scores.detach().sum(-1).masked_fill(~first, math.inf).argmin(1)  # (rows,)
        self.can_be_nothing = first.any(1)
        counted = self.answers | (first & (self._columns == self.nothing[:, None]))
        self.log_shares = self.scores.masked_fill(~counted[..., None], IMPOSSIBLE).log_softmax(1)

    def log_p(self, spans: Sequence[Span | None]) -> Tensor:
        """Log-probability of a span in each row, or that there is no answer where it is None: (rows,)."""
        starts, ends, held = (self._tensor(part) for part in self._occurrences(spans))  # (rows, windows)
        none = self._tensor(np.array([span is None for span in spans]))
        starts, ends = (torch.where(none[:, None], self.nothing[:, None], part) for part in (starts, ends))
        held = torch.where(none[:, None], self.can_be_nothing[:, None] & (self._columns[: held.shape[1]] == 0), held)
        rows = torch.arange(len(spans), device=self.scores.device)[:, None]
        sums = self.log_shares[rows, starts, 0] + self.log_shares[rows, ends, 1]
        in_any = sums[:, 0] if sums.shape[1] == 1 else sums.masked_fill(~held, IMPOSSIBLE).logsumexp(1)
        return torch.where(held.any(1), in_any, torch.full_like(in_any, ABSENT))

    @property
    def _columns(self) -> Tensor:
        return torch.arange(self.scores.shape[1], device=self.scores.device)

    def best(self, row: int, longest: int) -> Span:
        """The most probable span of one row, of at most so many tokens of one window."""
        code, places = self.codes[row], self.places[row]
        answers = self.answers[row].cpu().numpy()
        chosen, highest = (0, 0), -math.inf
        for window in np.unique(code.passes):
            columns = np.flatnonzero(answers & (code.passes[places] == window))
            if len(columns):
                starts, ends = self.scores[row, columns].detach().float().cpu().unbind(-1)
                sums = (starts[:, None] + ends).numpy()
                steps = np.arange(len(columns)) - np.arange(len(columns))[:, None]
                sums[(steps < 0) | (steps >= longest)] = -math.inf
                at = np.unravel_index(sums.argmax(), sums.shape)
                if sums[at] > highest:
                    chosen, highest = (int(places[columns[at[0]]]), int(places[columns[at[1]]])), float(sums[at])
        field, begin, _ = code.tokens[chosen[0]] or (field_of_answers(code), 0, 0)
        end = (code.tokens[chosen[1]] or (0, 0, 0))[2]
        written = code.texts[field][begin:end]  # tokens may include the blanks around words
        return Span(begin + len(written) - len(written.lstrip()), end - len(written) + len(written.rstrip()), field)

    def _shown(self, wanted: Callable[[Encoding], Ints]) -> Ints:
        """Per row and column whether it shows a position that is wanted: (rows, columns)."""
        by_code = {id(code): wanted(code) for code in self.codes}
        rows = zip(self.codes, self.places, strict=True)
        return np.stack([by_code[id(code)][places] & (places >= 0) for code, places in rows])

    def _occurrences(self, spans: Sequence[Span | None]) -> tuple[Ints, Ints, Ints]:
        """Per row and window the columns where a span starts and ends, and whether it is there: (rows, windows)."""
        shape = len(spans), 1 + max(int(code.passes.max()) for code in self.codes)
        starts, ends, held = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        known: dict[tuple[int, Span], list[Ints]] = {}
        for row, (span, code, places) in enumerate(zip(spans, self.codes, self.places, strict=True)):
            if span is None:
                continue
            key = id(code), span
            if key not in known:
                known[key] = occurrences(code, span)
            for number, positions in enumerate(known[key]):
                columns = np.flatnonzero(np.isin(places, positions))
                if len(columns):
                    starts[row, number], ends[row, number], held[row, number] = columns[0], columns[-1], 1
        return starts, ends, held.astype(np.bool_)

    def _tensor(self, array: Ints) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.scores.device)


def field_of_answers(code: Encoding) -> int:
    """The last field, which is the passage where there is a question."""
    return int(code.fields.max())


def occurrences(code: Encoding, span: Span) -> list[Ints]:
    """Positions of a span in each window that shows all of it.

    Raises:
        TargetError: no window does.
    """
    covered = [
        place
        for place, token in enumerate(code.tokens)
        if token is not None and token[0] == span.field and token[1] < span.end and span.start < token[2]
    ]
    positions = np.array(covered, dtype=np.int64)
    bounds = [(code.tokens[place] or (0, 0, 0))[1:] for place in covered]
    first, last = min((start for start, _ in bounds), default=0), max((end for _, end in bounds), default=0)
    whole = []
    for window in np.unique(code.passes[positions]):
        own = code.passes[positions] == window
        ends = [bound for bound, inside in zip(bounds, own, strict=True) if inside]
        if min(start for start, _ in ends) == first and max(end for _, end in ends) == last:
            whole.append(positions[own])
    if not whole:
        raise TargetError(
            f"characters {span.start} to {span.end} of field {span.field} are given as the target, but the model reads "
            "no token there, or not all of them in one pass; give a span of words that it reads together"
        )
    return whole
