"""A recipe of masking: explainers trained for metrics (AML), graded beside others on one data set."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from didact.errors import DidactError, FormatError
from didact.experiments.engine.study import StudyRecipe
from didact.experiments.engine.tables import Count, ModelTable, Seed, Share
from didact.experiments.engine.toml import Entry, Options, check_choice
from didact.experiments.masking.judges import AML_METRICS, judge, metric_of
from didact.trained.judging import Judge
from didact.trained.presets.base import PRESETS
from didact.types import Level

PRESET = "aml"
RANDOM = "random"
STAGES = ("paml", "faml")
"""The trained explainer, and the same refined for each text."""

FIVE = tuple(Entry(name, name) for name in AML_METRICS)
GRADABLE = frozenset({"model", "text", "classes", "rationale", "surrogate", "corpus"})
"""What metrics of a study may need."""


@dataclass(frozen=True)
class TuningTable:
    """``[search]``: settings of ``TuningConfig``; without trials the weights are those of ``[explainer]``."""

    trials: int = 30
    workers: Count = 1
    epochs: Count = 2
    train: Count = 450
    validation: Count = 200
    finalists: Count = 3
    seed: Seed = 42


@dataclass(frozen=True)
class TeachingTable:
    """``[simulability]``: texts that students in closed form learn from, in so many subsets, with such hints."""

    sizes: Sequence[int] = (100,)
    subsets: Count = 10
    share: Share = 0.1
    seed: Seed = 0


@dataclass(frozen=True)
class MaskedTextsTable:
    """``[surrogate]``: how the surrogate of robust metrics is fine-tuned, on the training texts."""

    limit: Count = 1000
    share: Share = 0.1
    epochs: Count = 3
    seed: Seed = 0


@dataclass(frozen=True)
class MaskingRecipe(StudyRecipe):
    """What a study of explainers trained for metrics is made of.

    Attributes:
        name: of the study; its folder is called so unless another is given.
        model: "source" and options of ``load_model``.
        data: for "train", "validation" and "test" the "source" and options of ``load_data``, or a list of these.
        rivals: methods with their settings; random scores are always graded too.
        metrics: registered metrics with their settings, or AML's five by their names, which are the default.
        unseen: further metrics that nothing is trained for.
        optimise: labels of the metrics that explainers are trained for, each for one; all of ``metrics`` when empty.
        explainer: settings of the preset ``aml``.
        search: how the weights of the loss are searched; ``trials = 0`` leaves them as ``explainer`` has them.
        refinement: settings of ``RefineConfig``; an empty table leaves refined explainers out.
        ablations: weights of the loss that are set to 0, one at a time.
        ablated: labels of the metrics that this is done for.
        selections: label -> rivals, of which the best on the reported metric is taken for each text: the right that
            a refined explainer has.
        drawn: labels of rivals, or "paml" and "faml", around whose maps others are drawn, of which the metric of the
            column chooses the best for each text: the same selection again, with as many maps for all.
        draws: how many.
        level: what gets a score, "token" as in AML, or "word".
        simulability: closed-form students that learn from the test texts with hints; an empty table leaves them out.
        surrogate: how the surrogate of robust metrics is fine-tuned.
        timed: texts whose explanation is timed.
        chunk: texts that are explained together.
        seed: of random scores and training.
        tf32: whether a GPU may round the factors of products to ten bits.
        tables: numbers of the paper's tables that it fills.
    """

    kind: ClassVar[str] = "masking"
    entry_fields: ClassVar[Mapping[str, str]] = {"rivals": "method", "metrics": "metric", "unseen": "metric"}
    list_fields: ClassVar[tuple[str, ...]] = ("optimise", "ablations", "ablated", "drawn", "tables")
    tables_of: ClassVar[Mapping[str, type]] = {
        "model": ModelTable,
        "search": TuningTable,
        "simulability": TeachingTable,
        "surrogate": MaskedTextsTable,
    }

    rivals: tuple[Entry, ...] = ()
    metrics: tuple[Entry, ...] = FIVE
    unseen: tuple[Entry, ...] = ()
    optimise: tuple[str, ...] = ()
    explainer: Options = field(default_factory=dict)
    search: Options = field(default_factory=dict)
    refinement: Options = field(default_factory=lambda: {"steps": 10})
    ablations: tuple[str, ...] = ()
    ablated: tuple[str, ...] = ("suff", "comp")
    selections: Mapping[str, Sequence[str]] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()
    draws: Count = 128
    level: Level = "token"
    simulability: Options = field(default_factory=dict)
    surrogate: Options = field(default_factory=dict)
    timed: Count = 50
    chunk: Count = 64
    seed: Seed = 0
    tf32: bool = False
    tables: tuple[int, ...] = ()

    def check(self, where: str = "recipe") -> None:
        """Refuse what cannot be run, before anything is loaded."""
        super().check(where)
        if not self.metrics:
            raise FormatError(f"{where}: metrics is empty; name at least one")
        self._check_metrics(where)
        self._check_explainers(where)

    def _check_metrics(self, where: str) -> None:
        labels = [one.label for one in self.measures]
        if len(set(labels)) < len(labels):
            raise FormatError(f"{where}: a metric is in metrics and in unseen; give each a 'label' of its own")
        for one in self.measures:
            with _said_of(f"{where}, {one.label}"):
                missing = sorted(metric_of(one.name, **one.settings).card.needs - GRADABLE)
            if missing:
                raise FormatError(f"{where}: {one.label} needs {', '.join(missing)}; leave it out")
        for label in (*self.optimise, *(self.ablated if self.ablations else ())):
            check_choice("metric", label, [one.label for one in self.metrics], where)
        for label in self.optimised:
            with _said_of(f"{where}, {label}"):
                self.judge(label)

    def _check_explainers(self, where: str) -> None:
        labels = [one.label for one in self.rivals]
        for label in (*labels, *self.selections):
            if label == RANDOM or label.split()[0] in STAGES or labels.count(label) + (label in self.selections) > 1:
                raise FormatError(f"{where}: {label!r} is the name of another explainer of the study; choose another")
        for label, members in self.selections.items():
            for member in members:
                check_choice("rival", member, labels, f"{where}, [selections] {label}")
        for label in self.drawn:
            check_choice("explainer", label, [*labels, *self.stages], f"{where}, drawn")
        weights = PRESETS.card(PRESET).tunable
        for name in self.ablations:
            check_choice("weight of the loss", name, weights, f"{where}, ablations")
        with _said_of(f"{where}, [explainer]"):
            PRESETS.get(PRESET).configured(**self.explainer)
        _check_refinement(self.refinement, f"{where}, [refinement]")

    @property
    def measures(self) -> tuple[Entry, ...]:
        """All metrics, those that nothing is trained for last."""
        return (*self.metrics, *self.unseen)

    @property
    def optimised(self) -> tuple[str, ...]:
        """Labels of the metrics that explainers are trained for."""
        return self.optimise or tuple(one.label for one in self.metrics)

    @property
    def stages(self) -> tuple[str, ...]:
        """The kinds of trained explainers."""
        return STAGES if self.refinement else STAGES[:1]

    def measure(self, label: str) -> Entry:
        """The metric of this label."""
        return next(one for one in self.measures if one.label == label)

    def judge(self, label: str) -> Judge:
        """The judge of the metric of this label."""
        own = self.measure(label)
        return dataclasses.replace(judge(own.name, **own.settings), name=label)


def drawn_row(label: str) -> str:
    """What the best of maps drawn around an explainer's are called."""
    return f"{label}_drawn"


def trained_label(stage: str, metric: str, without: str = "") -> str:
    """What an explainer that was trained for a metric is called in the records."""
    return f"{stage} {metric}" + (f" without {without}" if without else "")


def _check_refinement(given: Options, where: str) -> None:
    from didact.trained.refine import RefineConfig  # it needs torch, which reading a recipe of another kind does not

    with _said_of(where):
        RefineConfig.configured(**given)


@contextmanager
def _said_of(where: str) -> Iterator[None]:
    """What is wrong with a setting, as an error of the recipe."""
    try:
        yield
    except DidactError as problem:
        raise FormatError(f"{where}: {problem}") from None
