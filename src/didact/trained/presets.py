"""Named recipes for learned explainers: from a model, texts and a teacher to an explainer that can be used."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from torch import Tensor

from didact.attribution.base import ATTRIBUTIONS
from didact.data.dataset import Dataset
from didact.data.sampling import shuffled
from didact.errors import InputError, ParameterError
from didact.models.network import NetworkModel
from didact.protocols import ExampleLike, Explainer, Model
from didact.provenance import display_name
from didact.store.parts import Parts
from didact.trained import disagreement, signals
from didact.trained.collect import CHUNK, collect, fresh
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import agreement_with_reference, top_weight
from didact.trained.fit import fit
from didact.trained.fit_types import FitConfig, Fitted, Sample, Source
from didact.trained.metadata import ExplainerMetadata
from didact.trained.shapes.scorer import Positions, Reading, Scorer, ScorerConfig
from didact.trained.signals.base import Signal
from didact.trained.signals.distil import averaged
from didact.types import Example, Explanation, Floats, Level, Scale

TEACHER: tuple[str, Mapping[str, object]] = ("lime", {"samples": 100})
"""Who teaches when nobody is named. Labels of few samples are noisy, but the noise averages out over the texts."""

Teacher = str | Explainer | Sequence[str | Explainer] | None


@dataclass(frozen=True, kw_only=True)
class L2E:
    """Settings of ``train_l2e``.

    Args:
        signal: "ranking", "labelling" or "regression".
        signal_settings: of the signal.
        width: of the network.
        blocks: of the network.
        dropout: of the network.
        positions: "none" as published, "sinusoidal" or "learned".
        reading: "words" of a vocabulary, or "tokens" of the explained model.
        embeddings: of what is read: "own", random at first and trained, or, of tokens, "kept": the explained model's,
            which know something about rare words too; a matrix that turns them to the width is learned.
        window: how many words each one sees to either side; all when not given.
        min_count: rarer words are unknown ones.
        epochs: at most so many.
        choose: the epoch that is kept has the lowest "loss" on the validation texts, or the highest ``top_weight``.
        learning_rate: its largest value.
        initialisations: train so many times and keep the best.
        seed: decides the split, the first weights and the training.
        fit: further settings of the training, such as {"batch_rows": 64, "precision": "bf16"}.
        teachers: several teachers count as their "average", or are kept "apart": the network is told whom to follow,
            and explains as the first.
        fresh: draw new labels in every epoch, with the teacher's seed + epoch.
        chunk: texts of a stored part.
    """

    signal: str = "ranking"
    signal_settings: Mapping[str, Any] = field(default_factory=dict)
    width: int = 128
    blocks: int = 4
    dropout: float = 0.0
    positions: Positions = "none"
    reading: Reading = "words"
    embeddings: Literal["own", "kept"] = "own"
    window: int | None = None
    min_count: int = 2
    epochs: int = 10
    choose: Literal["loss", "top_weight"] = "loss"
    learning_rate: float = 5e-4
    initialisations: int = 1
    seed: int = 0
    fit: Mapping[str, Any] = field(default_factory=dict)
    teachers: Literal["average", "apart"] = "average"
    fresh: bool = False
    chunk: int = CHUNK

    def __post_init__(self) -> None:
        signals.get(self.signal)
        if self.teachers not in ("average", "apart"):
            raise ParameterError(f"teachers of l2e must be 'average' or 'apart', got {self.teachers!r}")
        if self.choose not in ("loss", "top_weight"):
            raise ParameterError(f"choose of l2e must be 'loss' or 'top_weight', got {self.choose!r}")
        if self.embeddings not in ("own", "kept"):
            raise ParameterError(f"embeddings of l2e must be 'own' or 'kept', got {self.embeddings!r}")
        if self.embeddings == "kept" and self.reading != "tokens":
            raise ParameterError("embeddings='kept' are those of the explained model's tokens; use reading='tokens'")

    @property
    def training(self) -> FitConfig:
        """The settings of ``fit``."""
        own = {"epochs": self.epochs, "learning_rate": self.learning_rate, "initialisations": self.initialisations}
        return FitConfig(**own | {"seed": self.seed} | dict(self.fit))


def train_l2e(  # noqa: PLR0913 - one call, and every argument but the first two has a default
    model: Model,
    examples: Sequence[ExampleLike] | Sequence[Explanation],
    teacher: Teacher = None,
    *,
    validation: Sequence[ExampleLike] | float = 0.15,
    held_out: Sequence[ExampleLike] | float = 0.15,
    folder: Path | str | None = None,
    parts: Parts | None = None,
    data: str = "",
    **settings: Any,
) -> LearnedExplainer:
    """L2E: distil a slow explainer of a model into a network that explains in one pass.

    The texts are split by the seed; the teacher explains all of them; the network learns from the training texts, the
    best epoch is chosen by the validation texts, and how well it follows its teacher is measured on the held-out ones.

    Args:
        model: the explained model.
        examples: texts or pairs, or explanations of them that exist already (see ``read_labels``): then no teacher is
            needed.
        teacher: a registered method, an explainer, or several of these; LIME with 100 samples when not given.
        validation: texts that epochs are compared by, or the share of the examples that is taken for it.
        held_out: texts that fidelity is measured on, or the share of the examples.
        folder: where labels and checkpoints are kept: a call that was killed goes on there when it is made again.
        parts: where labels are kept, if trainings are to share them; inside ``folder`` when not given.
        data: what the texts are, for the explainer's card.
        **settings: see ``L2E``.

    Example:
        >>> explainer = train_l2e(model, texts, "lime", epochs=20)  # doctest: +SKIP
        >>> explainer.save_pretrained("my-explainer")  # doctest: +SKIP
    """
    try:
        config = L2E(**settings)
    except TypeError as problem:
        raise ParameterError(f"unknown setting of l2e: {str(problem).split('__init__() ')[-1]}") from None
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(folder) if folder is not None else Path(scratch)
        store = parts or Parts(root / "parts")
        split = _split(examples, validation, held_out, config.seed)
        labels = _labelled(model, examples, teacher, store, config, split.pools)
        return _Lesson(model, labels, split, config).learn(root / "fit" if folder is not None else None, data)


def told(data: Dataset) -> str:
    """What the texts are, for the explainer's card."""
    return f"{display_name(data.name)} ({data.split}), {len(data)} texts, hash {data.fingerprint}"


def default_teacher(**settings: object) -> Explainer:
    """Who teaches when nobody is named; settings given stand."""
    name, usual = TEACHER
    return ATTRIBUTIONS.get(name).configured(**{**usual, **settings})


def teachers_of(teacher: Teacher) -> list[Explainer]:
    """The teachers that were named or given."""
    if teacher is None:
        return [default_teacher()]
    several = [teacher] if isinstance(teacher, str) or not isinstance(teacher, Sequence) else list(teacher)
    if not several:
        raise InputError("no teacher was given; name a method, such as 'lime'")
    return [ATTRIBUTIONS.get(one).configured() if isinstance(one, str) else one for one in several]


@dataclass(frozen=True)
class _Labels:
    """Where labels come from.

    Attributes:
        of: examples -> a list of explanations per teacher.
        fresh: examples -> epoch -> the same; None where labels stay.
        teacher: name for the card.
        parameters: of the only teacher.
    """

    of: Callable[[Sequence[Example]], list[list[Explanation]]]
    fresh: Callable[[Sequence[Example]], Callable[[int], list[list[Explanation]]]] | None
    teacher: str
    parameters: Mapping[str, Any]


def _labelled(
    model: Model,
    examples: Sequence[ExampleLike] | Sequence[Explanation],
    teacher: Teacher,
    parts: Parts,
    config: L2E,
    pools: Sequence[Sequence[Example]],
) -> _Labels:
    if examples and all(isinstance(example, Explanation) for example in examples):
        if teacher is not None or config.fresh:
            raise ParameterError("labels were given, so there is no teacher to ask; leave out teacher and fresh")
        return _read(examples)  # type: ignore[arg-type] # all were looked at
    asked = teachers_of(teacher)

    @cache
    def known() -> list[dict[str, Explanation]]:
        found = [[one for pool in pools for one in collect(model, pool, t, parts, chunk=config.chunk)] for t in asked]
        return [{one.example.fingerprint: one for one in many} for many in found]

    def of(some: Sequence[Example]) -> list[list[Explanation]]:
        return [[by_text[example.fingerprint] for example in some] for by_text in known()]

    def anew(some: Sequence[Example]) -> Callable[[int], list[list[Explanation]]]:
        drawn = [fresh(model, some, one, parts, chunk=config.chunk) for one in asked]
        return lambda epoch: [draw(epoch) for draw in drawn]

    only = dict(asked[0].parameters) if len(asked) == 1 else {}
    return _Labels(of, anew if config.fresh else None, "+".join(one.card.name for one in asked), only)


def _read(given: Sequence[Explanation]) -> _Labels:
    by_text = {one.example.fingerprint: one for one in given}

    def of(some: Sequence[Example]) -> list[list[Explanation]]:
        missing = next((example for example in some if example.fingerprint not in by_text), None)
        if missing is not None:
            raise InputError(f"there is no label for {missing.text!r:.60}; give texts that the labels explain")
        return [[by_text[example.fingerprint] for example in some]]

    names = sorted({one.method for one in given})
    same = len({str(one.parameters) for one in given}) == 1
    return _Labels(of, None, "+".join(names), dict(given[0].parameters) if same else {})


@dataclass(frozen=True)
class _Split:
    """Texts by what they are for, each once and in one of them only.

    Attributes:
        train: to learn from.
        validation: to choose the epoch by.
        held_out: to measure on.
        pools: all of them in the order given, so that whatever the split, the same texts share a part of the store.
    """

    train: list[Example]
    validation: list[Example]
    held_out: list[Example]
    pools: list[list[Example]]


def _split(
    examples: Sequence[ExampleLike] | Sequence[Explanation],
    validation: Sequence[ExampleLike] | float,
    held_out: Sequence[ExampleLike] | float,
    seed: int,
) -> _Split:
    """Cut the examples by the seed; texts that were given apart are taken out of the others."""
    shares = [asked if isinstance(asked, (int, float)) else 0.0 for asked in (validation, held_out)]
    if min(shares) < 0 or sum(shares) >= 1:
        raise ParameterError(
            f"validation and held_out of l2e are shares that leave something to train on, got {shares[0]} and "
            f"{shares[1]}"
        )
    apart = [[] if isinstance(asked, (int, float)) else _once(asked) for asked in (validation, held_out)]
    taken = {example.fingerprint for given in apart for example in given}
    rest = [one for one in _once(examples) if one.fingerprint not in taken]
    order = shuffled(rest, ["l2e", seed])
    first, second = (max(round(share * len(order)), 1) if share else 0 for share in shares)
    if len(order) <= first + second:
        raise InputError(f"{len(order)} different texts are too few to train on; give more")
    held = order[first : first + second]
    return _Split(order[first + second :], order[:first] + apart[0], held + apart[1], [rest, *apart])


def _once(given: Sequence[ExampleLike] | Sequence[Explanation]) -> list[Example]:
    """The examples, equal texts once."""
    examples = [one.example if isinstance(one, Explanation) else Example.of(one) for one in given]
    return list({example.fingerprint: example for example in reversed(examples)}.values())[::-1]


class _Lesson:
    """One training: what the teacher said, read as the network reads it."""

    def __init__(self, model: Model, labels: _Labels, split: _Split, config: L2E) -> None:
        self.model = model
        self.labels = labels
        self.split = split
        self.config = config

    def learn(self, folder: Path | None, data: str) -> LearnedExplainer:
        """Collect, train, measure."""
        train, validation, held_out = self.train, self.validation, self.held_out
        samples = self._samples(validation)
        taught = [one for one in (chain(*validation) if self._apart else self._taught(validation)) if len(one.units)]
        fitted = fit(
            self.scorer,
            self.signal,
            self._source(train),
            samples,
            self.config.training,
            monitor=top_weight(self.signal, samples, taught) if self.config.choose == "top_weight" else None,
            folder=folder,
        )
        about = ExplainerMetadata.of(
            self.model,
            teacher=self.labels.teacher,
            teacher_parameters=self.labels.parameters,
            level=self.level,
            scale=self.scale,
            data=data,
            data_hash=fitted.data_hash,
        )
        explainer = LearnedExplainer(cast("Scorer", fitted.shape).cpu().folded(), self.signal, about)
        measured = self._measured(explainer, fitted, validation, held_out)
        return LearnedExplainer(explainer.shape, self.signal, dataclasses.replace(about, **measured))

    @cached_property
    def train(self) -> list[list[Explanation]]:
        """Per teacher, as are the two below."""
        return self.labels.of(self.split.train)

    @cached_property
    def validation(self) -> list[list[Explanation]]:
        return self.labels.of(self.split.validation)

    @cached_property
    def held_out(self) -> list[list[Explanation]]:
        return self.labels.of(self.split.held_out)

    @cached_property
    def signal(self) -> Signal:
        signed = all(one.signed for many in self.train for one in many)
        try:
            return signals.get(self.config.signal).suited(signed=signed, **self.config.signal_settings)
        except TypeError as problem:
            raise ParameterError(f"{self.config.signal} has no such setting: {problem}") from None

    @cached_property
    def scorer(self) -> Scorer:
        config = self.config
        known = self._embeddings if config.embeddings == "kept" else None
        made = ScorerConfig(
            labels=self.model.labels,
            outputs=self.signal.outputs,
            width=config.width,
            table=None if known is None else known.shape[1],
            blocks=config.blocks,
            dropout=config.dropout,
            positions=config.positions,
            reading=config.reading,
            window=config.window,
            teachers=len(self.train) if self._apart else 0,
            seed=config.seed,
        )
        tokenizer = self.model.tokenizer if isinstance(self.model, NetworkModel) else None
        scorer = Scorer.for_texts(
            [one.units for one in self.train[0]], made, tokenizer=tokenizer, min_count=config.min_count
        )
        if known is not None:
            scorer.inherit(known)
        return scorer

    @property
    def _embeddings(self) -> Tensor:
        """The explained model's: (tokens, size)."""
        if not isinstance(self.model, NetworkModel):
            raise ParameterError(f"{self.model.name} shows no embeddings to keep; use embeddings='own'")
        return cast("Tensor", self.model.network.get_input_embeddings().weight).detach()

    @property
    def level(self) -> Level:
        levels = {one.units.level for many in self.train for one in many}
        if len(levels) > 1:
            raise InputError("some labels score words and others tokens; give one kind")
        return levels.pop()

    @property
    def scale(self) -> Scale:
        return self.train[0][0].target.scale

    @property
    def _apart(self) -> bool:
        return self.config.teachers == "apart" and len(self.train) > 1

    def _taught(self, labels: list[list[Explanation]]) -> list[Explanation]:
        """What the student is held against: the teacher, the first of those kept apart, or the average."""
        if len(labels) == 1 or self._apart:
            return labels[0]
        return [averaged(several) for several in zip(*labels, strict=True)]

    def _samples(self, labels: list[list[Explanation]]) -> list[Sample]:
        read, signal = self.scorer, self.signal
        many = labels if self._apart else [self._taught(labels)]
        found: list[Sample] = []
        for number, explanations in enumerate(many):
            told = [one for one in explanations if len(one.units)]
            for item, one in zip(read.read_explained(told), told, strict=True):
                found.append((read.taught_by(item, number) if self._apart else item, signal.targets(one)))
        return found

    def _source(self, labels: list[list[Explanation]]) -> Source:
        if self.labels.fresh is None:
            return self._samples(labels)
        draw = self.labels.fresh(self.split.train)
        return lru_cache(maxsize=1)(lambda epoch: self._samples(draw(epoch)))

    def _measured(
        self,
        explainer: LearnedExplainer,
        fitted: Fitted,
        validation: list[list[Explanation]],
        held_out: list[list[Explanation]],
    ) -> dict[str, Any]:
        """Scores, cost and doubt."""
        cost: dict[str, Any] = {
            "training texts": len(self.split.train),
            "validation texts": len(self.split.validation),
            "held-out texts": len(self.split.held_out),
            "seconds to collect": round(_seconds([*self.train, *validation, *held_out]), 3),
            "epochs": len(fitted.history),
            "seconds to train": round(fitted.seconds, 3),
        }
        taught = [one for one in self._taught(held_out) if len(one.units)]
        if not taught:
            return {"scores": {}, "cost": cost, "doubt": None}
        start = time.perf_counter()
        found = agreement_with_reference(self._explained(explainer, taught), taught, self.signal)
        cost |= _speed(time.perf_counter() - start, held_out)
        scores = {name: float(np.nanmean(values)) for name, values in found.items() if not np.isnan(values).all()}
        known = self._doubt(explainer, self._taught(validation), taught)
        if known is not None:
            scores["doubt and error, spearman"] = known.report["rank correlation"]
        return {"scores": scores, "cost": cost, "doubt": None if known is None else known.to_dict()}

    def _explained(self, explainer: LearnedExplainer, taught: Sequence[Explanation]) -> list[Explanation]:
        return explainer.explain(
            self.model,
            [one.example for one in taught],
            [one.target for one in taught],
            predictions=[one.prediction for one in taught],
        )

    def _doubt(
        self, explainer: LearnedExplainer, validation: Sequence[Explanation], held_out: Sequence[Explanation]
    ) -> disagreement.DisagreementEstimate | None:
        """Fitted on the validation texts and checked on the held-out ones; None where there are too few."""
        known = [self._disagreement(explainer, taught) for taught in (validation, held_out)]
        if any(np.isfinite(errors).sum() < disagreement.FEWEST for _, errors in known):
            return None
        (rows, errors), (check_rows, check_errors) = known
        return disagreement.fit_disagreement(rows, errors, check_rows, check_errors)

    def _disagreement(self, explainer: LearnedExplainer, taught: Sequence[Explanation]) -> tuple[Floats, Floats]:
        """Features of the texts, and 1 - rank correlation of student and teacher."""
        taught = [one for one in taught if len(one.units)]
        if not taught:
            return np.empty((0, len(disagreement.FEATURES))), np.empty(0)
        found = self._explained(explainer, taught)
        items = self.scorer.read_explained(found)
        rows = [disagreement.features(i, one.array, one.prediction) for i, one in zip(items, found, strict=True)]
        return np.stack(rows), 1 - agreement_with_reference(found, taught, self.signal)["spearman"]


def _seconds(labels: Sequence[Sequence[Explanation]]) -> float:
    """What making the labels took, also where it was done by an earlier run; what was not measured counts nothing."""
    return sum(one.cost.seconds or 0.0 for many in labels for one in many)


def _speed(seconds: float, taught: Sequence[Sequence[Explanation]]) -> dict[str, float]:
    """Time per text of the student, given the prediction, and of its teachers, where they measured theirs."""
    texts = len(taught[0])
    found = {"milliseconds per text": round(1000 * seconds / texts, 3)}
    known = [one.cost.seconds for many in taught for one in many if one.cost.seconds is not None]
    if len(known) == texts * len(taught):
        found["milliseconds per text of the teacher"] = round(1000 * sum(known) / texts, 3)
        found["speed-up"] = round(sum(known) / seconds, 1)
    return found
