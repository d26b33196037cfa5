"""A recipe of distillation: slow explainers on one data set, and the networks that learn to imitate them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from didact.errors import FormatError, InputError, ParameterError
from didact.experiments.engine.study import StudyRecipe
from didact.experiments.engine.tables import Count, ModelTable, Share, check_table
from didact.experiments.engine.toml import Entry, Options, Plain, check_choice
from didact.registry import unknown
from didact.settings import Between, shown

NAMED = re.compile(r"\w+")
"""What a reference is called in the records."""

Embeddings = Literal["kept", "first", "own"]
Choice = Literal["loss", "top_weight", "panel"]

Size = Annotated[int, Between(1, 1_000_000)]
READINGS: Mapping[str, str] = {"tokens": "scorer", "words": "scorer", "model": "encoder", "states": "probe"}
"""What a network reads -> its shape: "model" is a copy of the explained network, "states" are those of the model."""
SIGNALS: Mapping[str, tuple[str, Options]] = {
    "labelling": ("labelling", {}),
    "ranking": ("ranking", {}),
    "signed_ranking": ("ranking", {"by": "signed"}),
    "combined": ("combined", {}),
    "regression": ("regression", {}),
}


@dataclass(frozen=True)
class NetworkTable:
    """``[network]``: settings of ``ScorerConfig`` that a study may choose, and how rare a word may be."""

    width: Size = 128
    table: Size | None = None
    inner: Size | None = None
    heads: Size = 4
    blocks: Annotated[int, Between(1, 1_000)] = 4
    dropout: Share = 0.0
    positions: Literal["none", "sinusoidal", "learned"] = "none"
    conditional: Literal["ends", "heads"] = "ends"
    window: Size | None = None
    pairs: bool = False
    min_count: Size = 2


@dataclass(frozen=True)
class ChangeTable:
    """``[[changes]]``: other settings for the networks of a reference, a reading and a signal."""

    reference: str
    reading: str
    signal: str
    network: Options
    training: Options
    texts: Count


@dataclass(frozen=True)
class DistillationRecipe(StudyRecipe):
    """What a study of learned explainers is made of.

    Attributes:
        name: of the study; its folder is called so unless another is given.
        model: "source" and options of ``load_model``.
        data: for "train", "validation" and "test" the "source" and options of ``load_data``; or a list of these, whose
            texts follow each other, none twice. "lines" makes every line a text, "words" leaves out shorter texts.
        references: methods with their settings.
        averages: label -> labels of references: networks learn the mean of their scores, each document's brought to one
            size. It is graded as a reference is, and the networks stand beside each of its references too.
        signals: how every reference is learnt from: "labelling", "ranking", "signed_ranking", "combined", "regression".
        readings: what networks of all these signals read: "tokens" of the model, "words" of a vocabulary, the "model",
            a copy of the explained network, or its "states".
        embeddings: of networks that read tokens: "kept", the explained model's own, not trained, so that rare words
            mean something, and turned to the network's width by a matrix that is; "first", trained too; "own",
            random at first.
        choose: the epoch that is kept: that of the smallest "loss", of the largest "top_weight", the share of the
            reference's weight that the network's first words have, or the best by the metrics of the "panel" together.
        more: label of a reference -> further (reading, signal), such as ["words", "ranking"].
        initialisations: networks per reference and signal.
        network: settings of ``ScorerConfig``.
        training: settings of ``FitConfig``.
        changes: settings of some networks that differ, later ones counting: each with "network", "training" or "texts"
            (learn from the first so many), for the networks of a "reference", a "reading" and a "signal", or of all
            where these are not named.
        texts: label of a reference or average -> training texts that its networks learn from, where not all; with 0 it
            is graded, and no network learns from it alone.
        labels: label of a reference -> its settings for training texts, where they differ: the noise of fewer samples
            averages out over texts, of which more can then be labelled. It is graded with its own settings.
        encoder: directory or Hub id of the encoder that says which texts are similar in meaning; the explained model
            itself when not given.
        chunk: texts that are labelled together.
        half: whether perturbation methods label training texts with the model in float16 on a GPU.
        half_test: whether they explain test texts so too; what is explained and all grades are the full model's.
        tf32: whether a GPU may round the factors of products to ten bits.
        tables: numbers of the paper's tables that it fills.
        figures: numbers of the paper's figures.
    """

    kind: ClassVar[str] = "distillation"
    needed: ClassVar[tuple[str, ...]] = ("model", "data", "references")
    entry_fields: ClassVar[Mapping[str, str]] = {"references": "method"}
    list_fields: ClassVar[tuple[str, ...]] = ("signals", "readings", "tables", "figures", "changes")
    tables_of: ClassVar[Mapping[str, type]] = {"model": ModelTable, "network": NetworkTable}

    references: tuple[Entry, ...]
    averages: Mapping[str, Sequence[str]] = field(default_factory=dict)
    signals: tuple[str, ...] = ("labelling", "ranking")
    readings: tuple[str, ...] = ("tokens",)
    embeddings: Embeddings = "kept"
    choose: Choice = "loss"
    more: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    initialisations: Annotated[int, Between(1, 10_000)] = 3
    network: Options = field(default_factory=dict)
    training: Options = field(default_factory=dict)
    changes: Sequence[Options] = ()
    texts: Mapping[str, Annotated[int, Between(0, 10_000_000)]] = field(default_factory=dict)
    labels: Mapping[str, Options] = field(default_factory=dict)
    encoder: str | None = None
    chunk: Count = 32
    half: bool = False
    half_test: bool = False
    tf32: bool = False
    tables: tuple[int, ...] = ()
    figures: tuple[int, ...] = ()

    def check(self, where: str = "recipe") -> None:
        """Refuse what cannot be run."""
        super().check(where)
        for name in ("references", "signals", "readings"):
            if not getattr(self, name):
                raise FormatError(f"{where}: {name} is empty; name at least one")
        known = {
            "reference": self.learnable,
            "reading": tuple(READINGS),
            "signal": tuple(SIGNALS),
        }
        for name in self.signals:
            check_choice("signal", name, known["signal"], where)
        for name in self.readings:
            check_choice("reading", name, known["reading"], where)
        _check_training(self.training, f"{where}, [training]")
        for number, change in enumerate(self.changes, start=1):
            _check_change(change, known, f"{where}, change {number}")
        self._check_references(known, where)

    def _check_references(self, known: Mapping[str, Sequence[str]], where: str) -> None:
        """Refuse entries about references that there are not, which would change nothing without a word."""
        own = [one.label for one in self.references]
        for label in {**self.more, **self.texts}:
            check_choice("reference", label, known["reference"], where)
        for label in self.labels:
            check_choice("reference", label, own, where)
        for label, members in self.averages.items():
            place = f"{where}, [averages] {label}"
            if label in own or not NAMED.fullmatch(label):
                raise FormatError(f"{place}: give it a name in letters, digits and _ that no reference has")
            if len(set(members)) < max(2, len(members)):
                raise FormatError(f"{place}: give two or more different references, got {shown(members)}")
            for member in members:
                check_choice("reference", member, own, place)
        for label, pairs in self.more.items():
            for pair in pairs:
                if len(pair) != 2:
                    raise FormatError(f"{where}, [more] {label}: give pairs of reading and signal, got {shown(pair)}")
                check_choice("reading", pair[0], known["reading"], f"{where}, [more] {label}")
                check_choice("signal", pair[1], known["signal"], f"{where}, [more] {label}")

    def variants(self, reference: str) -> list[tuple[str, str]]:
        """(reading, signal) of every network that learns from a reference."""
        if self.texts.get(reference) == 0:
            return []
        own = [(reading, signal) for reading in self.readings for signal in self.signals]
        return own + [(str(reading), str(signal)) for reading, signal in self.more.get(reference, ())]

    def settings(self, reference: str, reading: str, signal: str) -> Plain:
        """Settings of "network" and "training", and the "texts" to learn from, for some of a reference's networks.

        The recipe's "network" is that of scorers; other networks have what changes for their reading say.
        """
        scorer = READINGS[reading] == "scorer"
        own: Plain = {"network": dict(self.network) if scorer else {}, "training": dict(self.training)}
        own["texts"] = self.texts.get(reference)
        mine = {"reference": reference, "reading": reading, "signal": signal}
        for change in self.changes:
            if all(change.get(name, value) == value for name, value in mine.items()):
                own["network"].update(change.get("network", {}) if scorer or "reading" in change else {})
                own["training"].update(change.get("training", {}))
                own["texts"] = change.get("texts", own["texts"])
        return own

    @property
    def learnable(self) -> list[str]:
        """Labels of what networks can learn from: the references, then the averages."""
        return [*(one.label for one in self.references), *self.averages]

    def labelled(self, reference: str, texts: int) -> int:
        """How many of so many training texts a reference labels: as its own networks and those of averages need."""
        needed = [reference, *(label for label, members in self.averages.items() if reference in members)]
        return max(min(texts, self.texts.get(label, texts)) for label in needed)

    def members(self, label: str) -> list[Entry]:
        """The reference called so, or those of the average called so."""
        return [self.reference(one) for one in self.averages.get(label, (label,))]

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
    check_table(ChangeTable, given, place)
    for name, allowed in known.items():
        if name in given:
            check_choice(name, given[name], allowed, place)
    check_table(NetworkTable, given.get("network", {}), f"{place}, network")
    _check_training(given.get("training", {}), f"{place}, training")


def _check_training(given: Options, where: str) -> None:
    """Refuse settings that ``FitConfig`` does not have, or that are out of its range."""
    from didact.trained.fit_types import FitConfig  # it needs torch, which reading a recipe of another kind does not

    check_table(FitConfig, given, where)
    try:
        FitConfig(**given)
    except ParameterError as problem:
        raise FormatError(f"{where}: {problem}") from None
