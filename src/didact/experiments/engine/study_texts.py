"""The texts of a study of learned explainers: sources of every split put together, none in two splits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from didact.data.load import load_data
from didact.errors import InputError
from didact.experiments.engine.study import SPLITS
from didact.experiments.engine.toml import Options, Plain
from didact.types import Example


class StudyTexts:
    """Texts by split, loaded when they are first used.

    Args:
        sources: for every split the sources whose texts follow each other.
    """

    def __init__(self, sources: Mapping[str, Sequence[Options]]) -> None:
        self._sources = sources
        self._loaded: dict[str, tuple[Example, ...]] = {}

    def __getitem__(self, split: str) -> tuple[Example, ...]:
        """The texts of a split; the training texts are without those that are graded."""
        if split not in self._loaded:
            texts = _texts(self._sources[split])
            if split == "train":
                graded = {one.fingerprint for other in SPLITS if other != split for one in self[other]}
                texts = tuple(one for one in texts if one.fingerprint not in graded)
            self._loaded[split] = texts
        return self._loaded[split]


def _texts(sources: Sequence[Options]) -> tuple[Example, ...]:
    """The texts of all sources, one after the other, none twice."""
    distinct: dict[str, Example] = {}
    for source in sources:
        options = expanded(source)
        words, lines, limit = int(options.pop("words", 0)), options.pop("lines", False), options.pop("limit", None)
        if not (words or lines):
            options["limit"] = limit
        texts = list(load_data(**options))
        if lines:
            texts = [Example(line.strip()) for one in texts for line in one.text.splitlines() if line.strip()]
        if words:
            texts = [one for one in texts if len(one.text.split()) >= words]
        for one in load_data(texts, limit=limit) if words or lines else texts:
            distinct.setdefault(one.fingerprint, one)
    return tuple(distinct.values())


def expanded(given: Options) -> Plain:
    """Options with environment variables in the source filled in."""
    return {**given, "source": filled(str(given["source"]))}


def filled(source: str) -> str:
    """A path with environment variables filled in."""
    path = os.path.expandvars(source)
    if "$" in path:
        raise InputError(f"the source {source!r} names an environment variable that is not set")
    return path
