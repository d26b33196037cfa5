"""Texts with some of their units deleted or replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from didact.errors import FormatError
from didact.regions import read_region
from didact.types import Example, Span, Units
from didact.validation import object_value, shown, text_value, whole_number


@dataclass(frozen=True)
class Change:
    """One changed unit.

    Attributes:
        unit: its number.
        before: the unit as written.
        after: what stands there instead; empty where it is deleted.
        place: where it stands in the source.
    """

    unit: int
    before: str
    after: str
    place: Span

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        place = [self.place.start, self.place.end, self.place.field]
        return {"unit": self.unit, "before": self.before, "after": self.after, "place": place}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Change:
        """Inverse of ``to_dict``."""
        data = object_value(data, "a change", ("unit", "before", "after", "place"))
        place = read_region(data["place"], "the place of a change")
        if not isinstance(place, Span):
            raise FormatError(f"the place of a change must be a span of a text, got {shown(data['place'])}")
        before, after = (text_value(data[name], name) for name in ("before", "after"))
        return cls(whole_number(data["unit"], "unit"), before, after, place)


def changed(units: Units, words: Mapping[int, str]) -> Example | None:
    """The example with some units replaced; None where a field would have no unit left.

    A deleted unit takes the blanks before it along.

    Args:
        units: of the example.
        words: what stands in the place of a unit, by its number; an empty text deletes it.
    """
    fields = []
    for field, text in enumerate(units.example.texts):
        own = [number for number, span in enumerate(units.spans) if span.field == field]
        if own and not any(words.get(number, "kept") for number in own):
            return None
        fields.append(_written(text, units, own, words))
    return Example(fields=fields)


def changes(units: Units, words: Mapping[int, str]) -> tuple[Change, ...]:
    """What was changed, in the order of the text."""
    return tuple(Change(number, units.texts[number], words[number], units.spans[number]) for number in sorted(words))


def _written(text: str, units: Units, own: list[int], words: Mapping[int, str]) -> str:
    if not any(number in words for number in own):
        return text
    parts, end = [], 0
    for number in sorted(own, key=lambda unit: units.spans[unit].start):
        span = units.spans[number]
        gap, word = text[end : span.start], words.get(number)
        parts.append(text[end : span.end] if word is None else gap + word if word else "")
        end = max(end, span.end)
    return ("".join(parts) + text[end:]).strip()
