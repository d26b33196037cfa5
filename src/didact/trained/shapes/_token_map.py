"""Which tokens stand for the units of a text, found by their characters, whatever tokenizer made either."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from didact.ops.units import TokenSpan
from didact.types import Span, Units

Table = NDArray[np.int32]
"""Per unit the positions of its tokens, (units, most), filled up with -1; a unit without tokens has -1 alone."""


def token_table(units: Units, tokens: Sequence[TokenSpan | None]) -> Table:
    """The tokens of each unit: all that share a character with it.

    A token that covers several units belongs to each of them; a unit may have several tokens, or none where the
    tokenizer drops its characters or the text was cut before it. Accents that a tokenizer drops have the token of
    their letter. Where several tokens stand for the same character (the bytes of an emoji) and the same tokenizer
    made the units, each unit has its own token alone.

    Args:
        units: of a text or a pair.
        tokens: per position of the other tokenizer's encoding its characters; None for special tokens.
    """
    table = _overlapping([(span.field, span.start, span.end) for span in units.spans], tokens)
    if table.shape[1] > 1 and _made_alike(units, tokens, table):
        own = [positions[0] if met else -1 for positions, met in zip(units.positions, _met(table), strict=True)]
        return np.array(own, dtype=np.int32)[:, None]
    for number in np.flatnonzero(~_met(table)):
        base = _base(units.spans[number], units.example.texts)
        if base is not None:
            table[number] = _overlapping([base], tokens)[0, :1]
    return table


def _base(span: Span, fields: Sequence[str]) -> TokenSpan | None:
    """The character that combining marks and joiners belong to, where a unit is nothing else; tokenizers drop these."""
    text, at = fields[span.field], span.start
    if not all(map(_combines, text[span.start : span.end])):
        return None
    while at > 0 and _combines(text[at - 1]):
        at -= 1
    return (span.field, at - 1, at) if at else None


def _combines(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf")


def _met(table: Table) -> NDArray[np.bool_]:
    """Per unit whether it has a token."""
    return np.asarray((table >= 0).any(axis=1))


def _made_alike(units: Units, tokens: Sequence[TokenSpan | None], table: Table) -> bool:
    """Whether the units are these tokens, as far as there are tokens for them."""
    return len(units.positions) == len(units) and all(
        len(own) == 1 and own[0] < len(tokens) and tokens[own[0]] == (span.field, span.start, span.end)
        for span, own, met in zip(units.spans, units.positions, _met(table), strict=True)
        if met
    )


def _overlapping(spans: Sequence[TokenSpan], tokens: Sequence[TokenSpan | None]) -> Table:
    """Positions of the tokens that share a character with each span."""
    written = [(*token, place) for place, token in enumerate(tokens) if token is not None and token[2] > token[1]]
    known = np.array(sorted(written), dtype=np.int64).reshape(-1, 4)
    wanted = np.array(spans, dtype=np.int64).reshape(-1, 3)
    far = 1 + max(known[:, 2].max(initial=0), wanted[:, 2].max(initial=0))
    starts, ends = (known[:, 0] * far + known[:, column] for column in (1, 2))
    begin, stop = (wanted[:, 0] * far + wanted[:, column] for column in (1, 2))
    first = np.searchsorted(np.maximum.accumulate(ends), begin, side="right")  # all before end too early
    behind = np.searchsorted(starts, stop, side="left")  # all from here on start too late
    most = max(1, int((behind - first).max(initial=0)))
    at = first[:, None] + np.arange(most)
    shared = at < behind[:, None]
    at = np.where(shared, at, 0)
    if len(known):
        shared &= ends[at] > begin[:, None]
    places = known[at, 3] if len(known) else at
    return np.where(shared, places, -1).astype(np.int32)
