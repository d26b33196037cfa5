"""A recipe of distillation: slow explainers on one data set, and the networks that learn to imitate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from didact.errors import FormatError, InputError
from didact.experiments.engine.toml import Entry, Options, Plain, TomlRecipe, check_choice
from didact.registry import unknown

Embeddings = Literal["kept", "first", "own"]
Choice = Literal["loss", "top_weight"]

READINGS = ("tokens", "words")
SPLITS = ("train", "validation", "test")
CHANGES = ("reference", "reading", "signal", "network", "training", "texts")
SIGNALS: Mapping[str, tuple[str, Options]] = {
    "labelling": ("labelling", {}),
    "ranking": ("ranking", {}),
    "signed_ranking": ("ranking", {"by": "signed"}),
}


@dataclass(frozen=True)
class DistillationRecipe(TomlRecipe):
    """What a study of learned explainers is made of.

    Attributes:
        name: of the study; its folder is called so unless another is given.
        model: "source" and options of ``load_model``.
        data: for "train", "validation" and "test" the "source" and options of ``load_data``; or a list of these, whose
            texts follow each other, none twice. "lines" makes every line a text, "words" leaves out shorter texts.
        references: methods with their settings.
        signals: how every reference is learnt from: "labelling", "ranking", "signed_ranking".
        embeddings: of networks that read tokens: "kept", the explained model's own, not trained, so that rare words
            mean something, and turned to the network's width by a matrix that is; "first", trained too; "own",
            random at first.
        choose: the epoch that is kept: that of the smallest "loss", or of the largest "top_weight", the share of the
            reference's weight that the network's first words have.
        more: label of a reference -> further (reading, signal), such as ["words", "ranking"].
        initialisations: networks per reference and signal.
        network: settings of ``ScorerConfig``.
        training: settings of ``FitConfig``.
        changes: settings of some networks that differ, later ones counting: each with "network", "training" or "texts"
            (learn from the first so many), for the networks of a "reference", a "reading" and a "signal", or of all
            where these are not named.
        texts: label of a reference -> training texts that it labels, where not all.
        encoder: directory or Hub id of the encoder that says which texts are similar in meaning; the explained model
            itself when not given.
        chunk: texts that are labelled together.
        half: whether perturbation methods label training texts with the model in float16 on a GPU.
        tf32: whether a GPU may round the factors of products to ten bits.
        tables: numbers of the paper's tables that it fills.
        figures: numbers of the paper's figures.
    """

    kind: ClassVar[str] = "distillation"
    entry_fields: ClassVar[Mapping[str, str]] = {"references": "method"}
    list_fields: ClassVar[tuple[str, ...]] = ("signals", "tables", "figures", "changes")

    name: str
    model: Options
    data: Mapping[str, Sequence[Options]]
    references: tuple[Entry, ...]
    signals: tuple[str, ...] = ("labelling", "ranking")
    embeddings: Embeddings = "kept"
    choose: Choice = "loss"
    more: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    initialisations: int = 3
    network: Options = field(default_factory=dict)
    training: Options = field(default_factory=dict)
    changes: Sequence[Options] = ()
    texts: Mapping[str, int] = field(default_factory=dict)
    encoder: str | None = None
    chunk: int = 32
    half: bool = False
    tf32: bool = False
    tables: tuple[int, ...] = ()
    figures: tuple[int, ...] = ()

    @classmethod
    def parsed(cls, data: Plain, where: str) -> Plain:
        """Fields from plain values; every split becomes a list of sources."""
        lacking = [name for name in ("model", "data", "references") if name not in data]
        lacking += [f"data.{split}" for split in SPLITS if split not in data.get("data", {})]
        if lacking:
            raise FormatError(f"{where}: {', '.join(lacking)} must be given")
        data = super().parsed(data, where)
        data["data"] = {split: [one] if isinstance(one, dict) else one for split, one in data["data"].items()}
        return data

    def check(self, where: str = "recipe") -> None:
        """Refuse what cannot be run."""
        super().check(where)
        check_choice("embeddings", self.embeddings, get_args(Embeddings), where)
        check_choice("choice", self.choose, get_args(Choice), where)
        known = {"reference": [one.label for one in self.references], "reading": READINGS, "signal": tuple(SIGNALS)}
        for number, one in enumerate(self.changes, start=1):
            _check_change(one, known, f"{where}, change {number}")
        for name in self.signals:
            check_choice("signal", name, list(SIGNALS), where)

    def variants(self, reference: str) -> list[tuple[str, str]]:
        """(reading, signal) of every network that learns from a reference."""
        own = [("tokens", signal) for signal in self.signals]
        return own + [(str(reading), str(signal)) for reading, signal in self.more.get(reference, ())]

    def settings(self, reference: str, reading: str, signal: str) -> Plain:
        """Settings of "network" and "training", and the "texts" to learn from, for some of a reference's networks."""
        own: Plain = {"network": dict(self.network), "training": dict(self.training), "texts": None}
        mine = {"reference": reference, "reading": reading, "signal": signal}
        for change in self.changes:
            if all(change.get(name, value) == value for name, value in mine.items()):
                own["network"].update(change.get("network", {}))
                own["training"].update(change.get("training", {}))
                own["texts"] = change.get("texts", own["texts"])
        return own

    def reference(self, label: str) -> Entry:
        """The reference called so."""
        for one in self.references:
            if one.label == label:
                return one
        raise InputError(unknown("reference", label, [one.label for one in self.references]))


def learned_label(reading: str, signal: str, reference: str) -> str:
    """What a learned explainer is called in the records."""
    return f"{'l2e' if reading == 'tokens' else f'l2e_{reading}'} {signal}({reference})"


def _check_change(given: Options, known: Mapping[str, Sequence[str]], place: str) -> None:
    """Refuse a change of what there is not, which would change nothing without a word."""
    for key in sorted(given.keys()):
        check_choice("key", key, CHANGES, place)
    for name, allowed in known.items():
        if name in given:
            check_choice(name, given[name], allowed, place)
