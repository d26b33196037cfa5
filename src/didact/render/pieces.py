"""A source text cut where units begin and end, so that every output can reproduce it exactly."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass

from didact.errors import InputError
from didact.render.colour import strengths
from didact.types import Explanation, Span

_SHOWN = {code: 0x2400 + code for code in range(32)} | {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
# Halves of surrogate pairs cannot be written, U+FFFE and U+FFFF are no XML, and marks that turn the direction of what
# follows can make a line read as another one.
_SHOWN |= dict.fromkeys(
    (*range(0xD800, 0xE000), 0xFFFE, 0xFFFF, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD
)
_KEPT = {code: picture for code, picture in _SHOWN.items() if chr(code) not in "\n\r\t"}


@dataclass(frozen=True)
class Piece:
    """A stretch of source text.

    Attributes:
        text: as written.
        units: the units that cover it: none between units, several where tokens share a character.
        strength: their strengths added, kept within [-1, 1].
        cut: whether the model's length limit kept it from the model.
        marked: whether it lies in the span that the target is about: an answer, or the word that has a label.
    """

    text: str
    units: tuple[int, ...] = ()
    strength: float = 0.0
    cut: bool = False
    marked: bool = False


def pieces(explanation: Explanation, field: int = 0) -> list[Piece]:
    """The pieces of one field; their texts joined are the field."""
    text = explanation.example.fields[field]
    if not isinstance(text, str):
        raise InputError(f"field {field} of this example is an image, and a text is needed here")
    edges = _edges(explanation, field, len(text))
    answer = _answer(explanation, field)
    power = strengths(explanation)
    scored = [at for at, (opened, closed) in edges.items() if opened or closed]
    begin, end = (min(scored), max(scored)) if scored else (len(text), 0)
    parts: list[Piece] = []
    active: list[int] = []
    places = sorted(edges)
    for place, after in itertools.pairwise(places):
        opened, closed = edges[place]
        active = [unit for unit in active if unit not in closed] + opened
        cut = explanation.units.truncated > 0 and not begin <= place < end
        total = max(-1.0, min(1.0, sum(power[unit] for unit in active)))
        marked = answer is not None and answer.start <= place < answer.end
        parts.append(Piece(text[place:after], tuple(active), total, cut, marked))
    return parts


def printable(text: str) -> str:
    """The text with what could act on a terminal or break a page drawn as a picture; line breaks and tabs stay."""
    return text.translate(_KEPT)


def name(text: str, longest: int = 32) -> str:
    """A unit's text in one short line."""
    short = text.strip().translate(_SHOWN) or "(blank)"
    return short if len(short) <= longest else short[: longest - 1] + "…"


def ranked(explanation: Explanation) -> list[int]:
    """Units from the strongest to the weakest."""
    power = strengths(explanation)
    return sorted(range(len(power)), key=lambda unit: -abs(power[unit]))


def _edges(explanation: Explanation, field: int, length: int) -> dict[int, tuple[list[int], set[int]]]:
    """Where units open and close, with the ends of the text; a unit without characters is left out."""
    edges: defaultdict[int, tuple[list[int], set[int]]] = defaultdict(lambda: ([], set()))
    answer = _answer(explanation, field)
    for end in (0, length, *((answer.start, answer.end) if answer else ())):
        edges[end]
    for unit, span in enumerate(explanation.units.regions):
        if isinstance(span, Span) and span.field == field and span.start < span.end:
            edges[span.start][0].append(unit)
            edges[span.end][1].add(unit)
    return edges


def _answer(explanation: Explanation, field: int) -> Span | None:
    """The span of this field that the target is about."""
    answer = explanation.target.answer
    return answer if isinstance(answer, Span) and answer.field == field else None
