"""What an L2E study on one data set is made of: a TOML file (recipes/l2e)."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, get_args

from didact.errors import FormatError, InputError
from didact.experiments.recipe import Entry, check_names, entry
from didact.registry import unknown

Embeddings = Literal["kept", "first", "own"]
Choice = Literal["loss", "top_weight"]

READINGS = ("tokens", "words")
SPLITS = ("train", "validation", "test")
CHANGES = ("teacher", "reading", "signal", "network", "training", "texts")
SIGNALS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "labelling": ("labelling", {}),
    "ranking": ("ranking", {}),
    "signed_ranking": ("ranking", {"by": "signed"}),
}


@dataclass(frozen=True)
class Study:
    """What a study is made of.

    Attributes:
        name: of the study; also the name of its results.
        model: "source" and options of ``load_model``.
        data: for "train", "validation" and "test" the "source" and options of ``load_data``; or a list of these, whose
            texts follow each other, none twice. "lines" makes every line a text, "words" leaves out shorter texts.
        teachers: methods with their settings.
        signals: how every teacher is learnt from: "labelling", "ranking", "signed_ranking".
        embeddings: of networks that read tokens: "kept", the explained model's own, not trained, so that rare words
            mean something, and turned to the network's width by a matrix that is; "first", trained too; "own",
            random at first.
        choose: the epoch that is kept: that of the smallest "loss", or of the largest "top_weight", the share of the
            teacher's weight that the network's first words have.
        more: label of a teacher -> further (reading, signal), such as ["words", "ranking"].
        initialisations: networks per teacher and signal.
        network: settings of ``ScorerConfig``.
        training: settings of ``FitConfig``.
        changes: settings of some networks that differ, later ones counting: each with "network", "training" or "texts"
            (learn from the first so many), for the networks of a "teacher", a "reading" and a "signal", or of all
            where these are not named.
        texts: label of a teacher -> training texts that it labels, where not all.
        encoder: directory or Hub id of the encoder that says which texts are similar in meaning; the explained model
            itself when not given.
        chunk: texts that are labelled together.
        tables: numbers of the paper's tables that it fills.
        figures: numbers of the paper's figures.
    """

    name: str
    model: Mapping[str, Any]
    data: Mapping[str, Sequence[Mapping[str, Any]]]
    teachers: tuple[Entry, ...]
    signals: tuple[str, ...] = ("labelling", "ranking")
    embeddings: Embeddings = "kept"
    choose: Choice = "loss"
    more: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    initialisations: int = 3
    network: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    changes: Sequence[Mapping[str, Any]] = ()
    texts: Mapping[str, int] = field(default_factory=dict)
    encoder: str | None = None
    chunk: int = 32
    tables: tuple[int, ...] = ()
    figures: tuple[int, ...] = ()

    @classmethod
    def from_toml(cls, path: Path | str) -> Self:
        """Read a study file; ``$NAME`` in a source is an environment variable."""
        place = Path(path)
        try:
            data = tomllib.loads(place.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"there is no recipe {place}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
            raise FormatError(f"{place} is not TOML: {problem}") from None
        check_names(cls, data, str(place))
        parts: dict[str, Any] = {"name": place.stem} | data
        lacking = [name for name in ("model", "data", "teachers") if name not in parts]
        lacking += [f"data.{split}" for split in SPLITS if split not in parts.get("data", {})]
        if lacking:
            raise FormatError(f"{place}: {', '.join(lacking)} must be given")
        parts["teachers"] = tuple(entry(one, "method", f"{place}, teachers") for one in parts["teachers"])
        parts["data"] = {split: [one] if isinstance(one, dict) else one for split, one in parts["data"].items()}
        for name in ("signals", "tables", "figures"):
            parts[name] = tuple(parts.get(name, getattr(cls, name)))
        if parts.get("embeddings", "kept") not in (allowed := get_args(Embeddings)):
            raise FormatError(f"{place}: {unknown('embeddings', parts['embeddings'], allowed)}")
        if parts.get("choose", "loss") not in (choices := get_args(Choice)):
            raise FormatError(f"{place}: {unknown('choice', parts['choose'], choices)}")
        known = {"teacher": [one.label for one in parts["teachers"]], "reading": READINGS, "signal": tuple(SIGNALS)}
        for number, one in enumerate(parts.get("changes", ()), start=1):
            _check_change(one, known, f"{place}, change {number}")
        for name in parts["signals"]:
            if name not in SIGNALS:
                raise FormatError(f"{place}: {unknown('signal', name, list(SIGNALS))}")
        return cls(**parts)

    def limited(self, **limits: int | None) -> Study:
        """The same with at most so many texts of every source of a split."""
        data = {split: [dict(one) for one in given] for split, given in self.data.items()}
        for split, limit in limits.items():
            for one in data[split] if limit is not None else ():
                one["limit"] = limit
        return dataclasses.replace(self, data=data)

    def variants(self, teacher: str) -> list[tuple[str, str]]:
        """(reading, signal) of every network that learns from a teacher."""
        own = [("tokens", signal) for signal in self.signals]
        return own + [(str(reading), str(signal)) for reading, signal in self.more.get(teacher, ())]

    def settings(self, teacher: str, reading: str, signal: str) -> dict[str, Any]:
        """Settings of "network" and "training", and the "texts" to learn from, for some of a teacher's networks."""
        found: dict[str, Any] = {"network": dict(self.network), "training": dict(self.training), "texts": None}
        mine = {"teacher": teacher, "reading": reading, "signal": signal}
        for one in self.changes:
            if all(one.get(name, own) == own for name, own in mine.items()):
                found["network"].update(one.get("network", {}))
                found["training"].update(one.get("training", {}))
                found["texts"] = one.get("texts", found["texts"])
        return found

    def teacher(self, label: str) -> Entry:
        """The teacher called so."""
        for one in self.teachers:
            if one.label == label:
                return one
        raise InputError(unknown("teacher", label, [one.label for one in self.teachers]))


def learned_label(reading: str, signal: str, teacher: str) -> str:
    """What a learned explainer is called in the records."""
    return f"{'l2e' if reading == 'tokens' else f'l2e_{reading}'} {signal}({teacher})"


def _check_change(given: Mapping[str, Any], known: Mapping[str, Sequence[str]], place: str) -> None:
    """Refuse a change of what there is not, which would change nothing without a word."""
    for key in sorted(given.keys() - set(CHANGES)):
        raise FormatError(f"{place}: {unknown('key', key, CHANGES)}")
    for name, allowed in known.items():
        if name in given and given[name] not in allowed:
            raise FormatError(f"{place}: {unknown(name, given[name], allowed)}")
