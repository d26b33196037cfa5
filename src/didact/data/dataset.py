"""What loading returns: examples with the name of where they came from and a hash of what they are."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from didact.provenance import content_hash
from didact.types import Example, Image

SHOWN = 6
"""How many labels a prompt prints."""


@dataclass(frozen=True)
class Dataset:
    """Examples of one split.

    Attributes:
        name: the preset, the file's path, the Hub id, or "list".
        split: name of the split; "all" where the source has none.
        examples: the examples.
        labels: names of the classes, in the order of their numbers where the source numbers them; empty when unknown.
    """

    name: str
    split: str
    examples: tuple[Example, ...]
    labels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = [*self.labels[:SHOWN], *(["..."] if len(self.labels) > SHOWN else [])]
        labels = f", labels {', '.join(shown)}" if shown else ""
        return f"Dataset({self.name!r}, split {self.split!r}, {len(self):,} examples{labels})"

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of texts, labels, rationales and ids; the order of the examples does not matter, the name neither."""
        plain = (json.dumps(_plain(example), sort_keys=True) for example in self.examples)
        return content_hash(sorted(hashlib.sha256(text.encode()).hexdigest() for text in plain))


def _plain(example: Example) -> dict[str, Any]:
    """What an example holds, with the hash of an image in place of its pixels."""
    images = any(isinstance(field, Image) for field in example.fields)
    fields = [field.fingerprint if isinstance(field, Image) else field for field in example.fields]
    marked = dataclasses.replace(example, fields=()).to_dict() if images else example.to_dict()
    return {**marked, "fields": fields} if images else marked
