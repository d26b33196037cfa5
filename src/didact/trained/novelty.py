"""How new the words of a text are to an explainer: a small table of how often training texts have which words."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from didact.errors import FormatError
from didact.types import Units

BUCKETS = 8192
"""Places of the table; words whose hashes are equal share one, so that it holds no text and stays small."""
LEVELS = "0123456789"
"""0 for no occurrence, else 1 + log2 of the number, at most 9."""
FEATURES = ("unseen", "surprise")


@dataclass(frozen=True)
class SeenWords:
    """How often training texts have the words of each place.

    Attributes:
        levels: a digit per place; empty where there were no words.
    """

    levels: str

    def __post_init__(self) -> None:
        if len(self.levels) not in (0, BUCKETS) or not set(self.levels) <= set(LEVELS):
            raise FormatError(f"a table of seen words has {BUCKETS} digits, got {len(self.levels)} characters")

    @classmethod
    def of(cls, texts: Iterable[Units]) -> SeenWords:
        """Counted in texts."""
        counts = Counter(place for units in texts for place in _places(units))
        level = {place: min(int(math.log2(count)) + 1, len(LEVELS) - 1) for place, count in counts.items()}
        return cls("".join(LEVELS[level.get(place, 0)] for place in range(BUCKETS)) if counts else "")

    def features(self, units: Units) -> tuple[float, float]:
        """Share of a text's words that no training text has, and how rare its words are there: ``FEATURES``.

        The rarity is the mean of 9 - level, 0 for words that are everywhere and 9 for new ones. Both are 0 where there
        are no words to compare.
        """
        places = _places(units)
        if not self.levels or not places:
            return 0.0, 0.0
        levels = [int(self.levels[place]) for place in places]
        return levels.count(0) / len(levels), len(LEVELS) - 1 - sum(levels) / len(levels)


def _places(units: Units) -> Sequence[int]:
    """The place of each word; parts of images have none."""
    if not units.example.is_textual:
        return ()
    words = (text.casefold() for text in units.texts)
    return [zlib.crc32(word.encode("utf-8", "backslashreplace")) % BUCKETS for word in words if word.strip()]
