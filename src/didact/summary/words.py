"""Global importance: the mean score of each word over the texts that it occurs in, by class."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from didact import disk
from didact.errors import InputError, ParameterError
from didact.render.notebook import framed
from didact.stats.bootstrap import intervals
from didact.summary.page import page
from didact.summary.rows import WordExample, WordRow
from didact.types import Explanation
from didact.validation import dump_json

LEAST = 3
"""Texts that a word must occur in when nothing else is given."""
CONTEXT = 48
"""Characters of an example on each side of the word."""

Occurrences = dict[int, list[int]]
"""Number of the explanation -> the units that are the word."""


@dataclass(frozen=True)
class WordTable:
    """Mean importance of words over a dataset.

    Attributes:
        rows: one per word and explained class; in each class the strongest first, words without an interval last.
        texts: how many texts were explained.
        method: the method whose scores are averaged.
        scale: of the explained number.
        model: name and hash of the explained model.
        least: texts that a word occurs in at least.
        left_out: how many pairs of word and class occur in fewer texts.
    """

    rows: tuple[WordRow, ...]
    texts: int
    method: str
    scale: str
    model: dict[str, str]
    least: int
    left_out: int

    @property
    def labels(self) -> tuple[str, ...]:
        """The explained classes."""
        return tuple(dict.fromkeys(row.label for row in self.rows))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an undefined end of an interval is None."""
        plain = dataclasses.asdict(self)
        for row in plain["rows"]:
            row.update({end: None for end in ("low", "high") if math.isnan(row[end])})
        return {"format": "didact-words", "version": 1, **plain}

    def to_html(self) -> str:
        """A page that needs nothing but itself, with the examples behind each word."""
        title = f"{self.method} on {self.texts} texts, {self.scale.replace('_', '-')} scale"
        return page(self.rows, title, self._notes())

    def to_dataframe(self) -> Any:
        """A pandas DataFrame, one row per word and class, without the examples."""
        try:
            import pandas
        except ImportError:
            raise InputError("to_dataframe needs the library pandas: pip install 'didact[frames]'") from None
        names = [item.name for item in dataclasses.fields(WordRow) if item.name != "examples"]
        return pandas.DataFrame([{name: getattr(row, name) for name in names} for row in self.rows], columns=names)

    def save(self, path: str | Path) -> Path:
        """Write as .html or .json, by the file's ending."""
        place = Path(path)
        if place.suffix.lower() not in (".html", ".htm", ".json"):
            raise InputError(f"a table of words is written as .html or .json, got {place.name!r}")
        plain = dump_json(self.to_dict(), indent=2) + "\n" if place.suffix.lower() == ".json" else self.to_html()
        disk.write_bytes(place, plain.encode("utf-8", "backslashreplace"))
        return place

    def _notes(self) -> list[str]:
        origin = "  ".join(f"{name}={value}" for name, value in self.model.items())
        return [
            "A score is averaged over the occurrences of the word in a text, then over texts. Intervals are 95 % each, "
            "over texts, not corrected for the number of words; words of fewer than 10 texts have none.",
            f"{self.left_out} words of fewer than {self.least} texts are left out. Model: {origin}",
        ]

    def _repr_html_(self) -> str:
        return framed(self.to_html())


def word_table(explanations: Sequence[Explanation], *, least: int = LEAST, examples: int = 3) -> WordTable:
    """Average the scores of each word, case ignored, over the texts that it occurs in, for each explained class.

    Args:
        explanations: of texts, by one method on one scale; with ``target="all"`` every class has its rows.
        least: leave out words that occur in fewer texts.
        examples: texts behind each word that are kept, those with its strongest scores.
    """
    if least < 1 or examples < 0:
        raise ParameterError(f"least must be at least 1 and examples not negative, got {least} and {examples}")
    _check_alike(explanations)
    places: dict[tuple[str, str], Occurrences] = defaultdict(lambda: defaultdict(list))
    for number, each in enumerate(explanations):
        _ = each.units.spans  # refuses parts of images
        for unit, text in enumerate(each.units.texts):
            places[each.target.name, text.strip().casefold()][number].append(unit)
    kept = {key: own for key, own in places.items() if len(own) >= least and key[1]}
    columns = [_values(explanations, own) for own in kept.values()]
    rows = [
        WordRow(word, label, len(own), sum(map(len, own.values())), found.mean, found.low, found.high, shown)
        for ((label, word), own), found, shown in zip(
            kept.items(),
            intervals(columns),
            (_examples(explanations, own, examples) for own in kept.values()),
            strict=True,
        )
    ]
    order = sorted(rows, key=lambda row: (row.label, math.isnan(row.low), -abs(row.mean), row.word))
    first = explanations[0]
    texts = len({each.example.fingerprint for each in explanations})
    known = texts, first.method, first.target.scale, dict(first.model)
    return WordTable(tuple(order), *known, least, len(places) - len(kept))


def _values(explanations: Sequence[Explanation], own: Occurrences) -> list[float]:
    """The word's mean score in each of its texts."""
    return [float(np.mean([explanations[number].scores[unit] for unit in units])) for number, units in own.items()]


def _examples(explanations: Sequence[Explanation], own: Occurrences, most: int) -> tuple[WordExample, ...]:
    """The strongest occurrences with the text around them."""
    every = [(number, unit) for number, units in own.items() for unit in units]
    strongest = sorted(every, key=lambda place: -abs(explanations[place[0]].scores[place[1]]))
    made = []
    for number, unit in strongest[:most]:
        each = explanations[number]
        span = each.units.spans[unit]
        text = each.example.texts[span.field]
        before, after = text[max(0, span.start - CONTEXT) : span.start], text[span.end : span.end + CONTEXT]
        made.append(WordExample(number, each.scores[unit], before, text[span.start : span.end], after))
    return tuple(made)


def _check_alike(explanations: Sequence[Explanation]) -> None:
    """Refuse scores that cannot be averaged: of several methods, scales or models."""
    if not explanations:
        raise InputError("there is nothing to average: the list of explanations is empty; give at least one")
    for what, values in (
        ("methods", {each.method for each in explanations}),
        ("scales", {each.target.scale for each in explanations}),
        ("models", {each.model.get("fingerprint", "") for each in explanations}),
    ):
        if len(values) > 1:
            named = ", ".join(sorted(values))
            raise InputError(f"scores of several {what} cannot be averaged ({named}); give explanations by one of them")
