"""From a model, texts and a reference explainer to a learned explainer, measured against it on held-out texts.

Most signals learn the reference's scores. Those that need none are only measured against it, on few texts.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from didact.attribution.base import ATTRIBUTIONS
from didact.errors import InputError, ParameterError
from didact.meter import metered
from didact.protocols import Explainer
from didact.scale.collect import CHUNK
from didact.store.parts import Parts
from didact.trained import disagreement
from didact.trained.altered import altered
from didact.trained.checking import CHECKS, checked, quick_method
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import agreement_with_reference, by_metrics, top_weight
from didact.trained.fit import Monitor
from didact.trained.fit_types import Fitted
from didact.trained.held_out import held_out_agreement
from didact.trained.held_out_panel import held_out_panel, panel_value, suited
from didact.trained.labels import LabelConfig, Labels, ReferenceLabels, from_explanations, from_references
from didact.trained.learning import Trainee, TrainingRecipe, start, training_cost
from didact.trained.metadata import ExplainerMetadata
from didact.trained.novelty import SeenWords
from didact.trained.presets.base import Reference, TrainingInput
from didact.trained.samples import TrainingSamples
from didact.trained.shapes.base import SHAPES, Shape
from didact.trained.signals.base import REFERENCE, SIGNALS, Signal, SignalTask
from didact.trained.split import TextSplit
from didact.types import Example, Explanation, Level, Scale, Units

Choice = Literal["panel", "loss", "top_weight"]

MEASURED = 128
"""Validation and held-out texts, of each so many at most, on which what did not learn from a reference is compared with
it."""

ALTERED = 48
"""Validation and held-out texts, of each so many at most, that are altered for the estimate of disagreement."""

VALIDATED = 48
"""Validation texts that the metrics of a panel are computed on after each epoch."""


@dataclass(frozen=True, kw_only=True)
class Distillation(TrainingRecipe):
    """What is trained to follow a reference, and how.

    Args:
        default: makes the references for texts when none is given.
        choose: the epoch that is kept is the best by the metrics of the "panel", where some are given, has the lowest
            validation "loss", or the highest ``top_weight``.
        apart: whether several references are distinguished; otherwise their average is learned.
        fresh: draw new labels in every epoch.
        checks: evaluations of the model on a text that the checked estimate of disagreement rests on.
        beside: a quick method that this estimate also compares the scores with.
        chunk: texts of a stored part.
    """

    default: Callable[[Sequence[Example]], list[Explainer]]
    choose: Choice = "loss"
    apart: bool = False
    fresh: bool = False
    checks: int = CHECKS
    beside: str | None = None
    chunk: int = CHUNK


def distil(given: TrainingInput, recipe: Distillation) -> LearnedExplainer:
    """Collect labels, train, and measure how well the reference is followed."""
    if given.judge is not None:
        raise ParameterError(
            f"{recipe.method} is measured by how well it follows its reference; leave out {given.judge.name!r}"
        )
    split = start(given, recipe)
    if recipe.beside is not None:  # what it cannot do is said before anything is trained
        quick_method(recipe.beside).explain(given.model, split.train[:1])
    with tempfile.TemporaryDirectory() as scratch:
        parts = given.parts or Parts((given.folder or Path(scratch)) / "parts")
        labels = _labels(given, recipe, parts, split)
        return _Run(given, labels, split, recipe).learn()


def references_of(reference: Reference, default: Callable[[], list[Explainer]]) -> list[Explainer]:
    """Explainers for what was named or given; the default ones for None."""
    if reference is None:
        return default()
    several = [reference] if isinstance(reference, str) or not isinstance(reference, Sequence) else list(reference)
    if not several:
        raise InputError("no reference was given; name a method, such as 'lime'")
    return [ATTRIBUTIONS.get(each).configured() if isinstance(each, str) else each for each in several]


def _labels(given: TrainingInput, recipe: Distillation, parts: Parts, split: TextSplit) -> ReferenceLabels:
    explained = given.explained
    if explained and not _learns(recipe):
        raise ParameterError(
            f"{recipe.signal} learns from the model itself, and labels were given; leave them out or learn them by "
            "another signal, such as regression"
        )
    if explained and len(explained) == len(given.examples):
        if given.reference is not None or recipe.fresh:
            raise ParameterError("labels were given, so no reference is run; leave out reference and fresh")
        return from_explanations(explained)
    references = references_of(given.reference, lambda: recipe.default(split.train))
    pools = split.pools if _learns(recipe) else [split.validation[:MEASURED], split.held_out[:MEASURED]]
    config = LabelConfig(parts=parts, pools=pools, apart=recipe.apart, fresh=recipe.fresh, chunk=recipe.chunk)
    return from_references(given.model, references, config)


def _learns(recipe: TrainingRecipe) -> bool:
    """Whether a reference's scores are learned; otherwise the result is only measured against it."""
    return REFERENCE in SIGNALS.card(recipe.signal).needs


class _Run:
    """One training with what it needs, each computed when first used."""

    def __init__(self, given: TrainingInput, labels: ReferenceLabels, split: TextSplit, recipe: Distillation) -> None:
        self.given = given
        self.model = given.model
        self.labels = labels
        self.split = split
        self.recipe = recipe
        self.learns = _learns(recipe)
        self.evaluated = 0

    def learn(self) -> LearnedExplainer:
        """Collect, train, measure."""
        task = SignalTask(
            self.model, self.split.train, self.split.validation, self.labels, level=self.level, scale=self.scale
        )
        with metered() as meter:
            samples = self.signal.prepare(task, self.shape)
            self.signal = self.signal.fitted(samples)
        about = {
            "reference": self.labels.name,
            "reference_parameters": self.labels.parameters,
            "level": self.level,
            "scale": self.scale,
        }
        monitor, marks = self._monitor(samples)
        samples = dataclasses.replace(samples, marks={**samples.marks, **marks})
        trainee = Trainee(self.model, self.shape, self.signal, samples, about)
        with metered() as further:
            explainer, fitted = trainee.trained(self.recipe, self.given, monitor)
        self.evaluated = meter.evaluated + further.evaluated
        return LearnedExplainer(explainer.shape, self.signal, self._measured(explainer, fitted))

    def _monitor(self, samples: TrainingSamples) -> tuple[Monitor | None, dict[str, str]]:
        """What epochs are compared by besides the loss, and what a checkpoint has to know of it."""
        if self.recipe.choose == "top_weight":
            compared = chain(*self.validation) if self.labels.apart else self.labels.compared(self.validation)
            return top_weight(self.signal, samples.validation, _scored(compared)), {}
        reference = _scored(self.labels.compared(self.validation))[:VALIDATED]
        judges = suited(self.given.panel, reference)
        if self.recipe.choose == "loss" or not judges or not reference:
            return None, {}
        value, first = panel_value(judges, self.model, reference), samples.validation[: len(reference)]
        if value is None:
            return None, {}
        names = ", ".join(judge.name for judge in judges)
        return by_metrics(self.signal, first, reference, value), {"metrics": names}

    @cached_property
    def train(self) -> Labels:
        return self.labels.of(self.split.train) if self.learns else []

    @cached_property
    def validation(self) -> Labels:
        return self.labels.of(self.split.validation if self.learns else self.split.validation[:MEASURED])

    @cached_property
    def held_out(self) -> Labels:
        return self.labels.of(self.split.held_out if self.learns else self.split.held_out[:MEASURED])

    @cached_property
    def units(self) -> list[Units]:
        """Of the training texts."""
        if self.learns:
            return [explanation.units for explanation in self.train[0]]
        return self.model.units(self.split.train, self.level)

    @cached_property
    def signal(self) -> Signal:
        signed = all(explanation.signed for many in self.train for explanation in many)
        return SIGNALS.get(self.recipe.signal).suited(signed=signed, **self.recipe.signal_settings)

    @cached_property
    def shape(self) -> Shape:
        settings = {"seed": self.recipe.seed, **self.recipe.shape_settings}
        if self.labels.apart:
            settings["references"] = self.labels.count
        return SHAPES.get(self.recipe.shape).build(self.model, self.units, self.signal.outputs, settings)

    @property
    def level(self) -> Level:
        if not self.learns:
            return self.model.levels[0]
        levels = {explanation.units.level for many in self.train for explanation in many}
        if len(levels) > 1:
            raise InputError("some labels score words and others tokens; give one kind")
        return levels.pop()

    @property
    def scale(self) -> Scale:
        if not self.learns:
            return self.model.scales[0]
        return self.train[0][0].target.scale

    def _measured(self, explainer: LearnedExplainer, fitted: Fitted) -> ExplainerMetadata:
        """The metadata with scores, cost and the estimate of disagreement."""
        seconds = round(_seconds([*self.train, *self.validation, *self.held_out]), 3)
        spent = {"seconds_to_collect": seconds} if self.learns else {"evaluations_of_the_model": self.evaluated}
        cost = training_cost(self.split, fitted, **spent)
        compared = _scored(self.labels.compared(self.held_out))
        began = time.perf_counter()
        learned = self._explained(explainer, compared)
        seconds = time.perf_counter() - began
        agreement = held_out_agreement(learned, compared, self.signal).to_dict()
        panel = held_out_panel(self.given.panel, self.model, learned, compared)
        shown = panel.to_dict() if panel.rows else None
        about = dataclasses.replace(explainer.about, cost=cost, agreement=agreement, panel=shown)
        if not compared:
            return about
        fidelity = agreement_with_reference(learned, compared, self.signal)
        scores = {name: float(np.nanmean(values)) for name, values in fidelity.items() if not np.isnan(values).all()}
        about = dataclasses.replace(about, scores=scores, cost=cost | _speed(seconds, self.held_out))
        estimates = self._estimates(explainer, self.labels.compared(self.validation), compared)
        if estimates is None:
            return about
        plain, checked = estimates
        scores["disagreement and error, spearman"] = plain.report["rank correlation"]
        scores["checked disagreement and error, spearman"] = checked.report["rank correlation"]
        return dataclasses.replace(about, scores=scores, disagreement=plain.to_dict(), checked=checked.to_dict())

    def _explained(self, explainer: LearnedExplainer, compared: Sequence[Explanation]) -> list[Explanation]:
        return explainer.explain(
            self.model,
            [explanation.example for explanation in compared],
            [explanation.target for explanation in compared],
            predictions=[explanation.prediction for explanation in compared],
        )

    def _estimates(
        self, explainer: LearnedExplainer, validation: Sequence[Explanation], held_out: Sequence[Explanation]
    ) -> tuple[disagreement.DisagreementEstimate, disagreement.DisagreementEstimate] | None:
        """Without and with checks, fitted on validation texts and tried on held-out ones; None with too few.

        They are fitted on altered validation texts too, where a reference can be run on them.
        """
        seen = SeenWords.of(self.units)
        first, second = (self._disagreement(explainer, compared, seen) for compared in (validation, held_out))
        if min(first.count, second.count) < disagreement.FEWEST:
            return None
        elsewhere = [
            self._disagreement(explainer, self._altered([one.example for one in compared[:ALTERED]]), seen)
            for compared in (validation, held_out)
        ]
        plain, checked = (
            disagreement.fit_disagreement(
                first.joined(elsewhere[0]),
                second,
                elsewhere[1],
                measured=disagreement.FeatureSet(names, seen, self.recipe.checks, beside),
            )
            for names, beside in ((disagreement.ALL, None), (self._checking, self.recipe.beside))
        )
        return plain, checked

    @property
    def _checking(self) -> tuple[str, ...]:
        """Features of the checked estimate."""
        return disagreement.CHECKED if self.recipe.beside is None else disagreement.BESIDE

    def _altered(self, examples: Sequence[Example]) -> list[Explanation]:
        """Explanations of altered texts by the reference; none where it is not run, or refuses one of them."""
        if self.labels.further is None:
            return []
        try:
            return self.labels.compared(self.labels.further(altered(self.model, examples, self.recipe.seed)))
        except InputError:  # made up, so that nothing is lost: the training has ended already
            return []

    def _disagreement(
        self, explainer: LearnedExplainer, compared: Sequence[Explanation], seen: SeenWords
    ) -> disagreement.Observed:
        """Features of the texts, and 1 - rank correlation of the learned scores with the reference's."""
        compared, measured = _scored(compared), disagreement.FeatureSet(self._checking, seen)
        if not compared:
            return disagreement.Observed.nothing(measured.names)
        learned = self._explained(explainer, compared)
        found = checked(self.model, learned, self.recipe.checks, self.recipe.beside)
        texts = zip(self.shape.read_explained(self.model, learned), learned, found, strict=True)
        rows = [measured.row(item, one.array, one.prediction, one.units, own) for item, one, own in texts]
        errors = 1 - agreement_with_reference(learned, compared, self.signal)["spearman"]
        return disagreement.Observed.known(np.stack(rows), errors)


def _scored(explanations: Sequence[Explanation] | chain[Explanation]) -> list[Explanation]:
    """Those of texts with units; an empty text has no scores to compare."""
    return [explanation for explanation in explanations if len(explanation.units)]


def _seconds(labels: Labels) -> float:
    """What computing the labels took, also in an earlier run; what was not measured counts nothing."""
    return sum(explanation.cost.seconds or 0.0 for many in labels for explanation in many)


def _speed(seconds: float, labels: Labels) -> dict[str, float]:
    """Time per text of the network, given the prediction, and of its references, where they measured theirs."""
    texts = len(labels[0])
    speed = {"milliseconds per text": round(1000 * seconds / texts, 3)}
    known = [one.cost.seconds for many in labels for one in many if one.cost.seconds is not None]
    if len(known) == texts * len(labels):
        speed["milliseconds per text of the reference"] = round(1000 * sum(known) / texts, 3)
        speed["speed-up"] = round(sum(known) / seconds, 1)
    return speed
