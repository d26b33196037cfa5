"""What examples are called in records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from didact.types import Example


def example_names(examples: Iterable[Example]) -> list[str]:
    """Ids, or fingerprints of examples without one; what occurs twice gets a number."""
    seen: Counter[str] = Counter()
    names = []
    for example in examples:
        name = example.id if example.id is not None else example.fingerprint
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return names
