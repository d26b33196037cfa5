"""Refinement: the network that explains is trained a few steps further for each text, and the best map is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from didact.errors import CapabilityError, ModelError, ParameterError, TargetError
from didact.meter import Meter, metered
from didact.models.estimate import BACKWARD, TOUCHED, NetworkSize, Own
from didact.models.exclusive import exclusive
from didact.models.gradients import graph_budget
from didact.models.outputs import resolve_target
from didact.models.planner import Ints, default_budget, is_out_of_memory, run
from didact.protocols import Model
from didact.trained._refine_config import RefineConfig as RefineConfig
from didact.trained._refine_copies import RowCopies
from didact.trained._refine_memory import activation_bytes, rows_that_fit
from didact.trained._refine_steps import Objective, refine_rows
from didact.trained.explainer import LearnedExplainer
from didact.trained.judging import Judge, selected_on_text
from didact.trained.samples import TrainingBatch, batch_of
from didact.trained.signals.base import REFERENCE, SIGNALS, Signal, SignalTask
from didact.trained.wrapping import WrappedExplainer, added
from didact.types import Card, Cost, Explanation, Floats, JsonValue, Units

_CHUNK = 1024


@dataclasses.dataclass(frozen=True, eq=False)
class _Candidates:
    """The maps of one text: the unrefined one first.

    Attributes:
        scores: (maps, units).
        losses: (maps,), or one less.
    """

    scores: Floats
    losses: Floats


class RefinedExplainer(WrappedExplainer):
    """Trains a copy of the learned network for each text and keeps the best of the maps that it passes through (fAML).

    Texts are refined together, each with weights of its own, and none influences another. The unrefined map and the one
    after the last update take part in the choice. Which is best is decided on the explained text itself: explanations
    carry a warning that says so, since the measure that chose them flatters them. Where ``mask`` draws replacements
    (``masking="replace"``), it draws them from the texts of one call.

    Args:
        learned: the explainer that every text starts from; any shape.
        config: how far and how fast.
        judge: which map is best; the one with the lowest loss when not given.
        signal: whose loss is followed; the learned explainer's own where it needs no reference, else ``mask``.
    """

    card: ClassVar[Card] = Card(
        name="refined",
        family="learned",
        summary="A learned explainer, trained a few steps further for each text.",
        reference="Barkan et al. 2024, LLM Explainability via Attributive Masking Learning",
        cost="that of the learned explainer; per step the loss of its signal, forward and backward",
    )

    def __init__(
        self,
        learned: LearnedExplainer,
        config: RefineConfig | None = None,
        *,
        judge: Judge | None = None,
        signal: Signal | None = None,
    ) -> None:
        super().__init__(learned)
        if learned.runtime != "torch":
            raise ParameterError(
                f"an explainer of the {learned.runtime} runtime has no weights to refine; load it with runtime='torch'"
            )
        self.config = config or RefineConfig()
        self.judge = judge
        self.signal = signal or _refining(learned.signal)
        self._same = self.signal.card.name == learned.signal.card.name
        if not self._same and self.signal.outputs != 1:
            raise ParameterError(
                f"{self.signal.card.name} needs {self.signal.outputs} numbers per unit; an explainer that learned by "
                f"{learned.signal.card.name} is refined by a signal that needs 1"
            )
        needs = learned.card.needs | learned.shape.card.needs | self.signal.card.needs
        self.card = dataclasses.replace(self.card, name=f"{learned.card.name}_refined", needs=needs)  # type: ignore[misc] # one class, many names

    @property
    def chosen_by(self) -> str:
        """The measure by which a text's best map is chosen."""
        return f"loss of {self.signal.card.name}" if self.judge is None else self.judge.name

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """The budget, the signal and the choice, and the learned explainer's parameters."""
        signal = {f"signal.{name}": _one_value(value) for name, value in self.signal.parameters.items()}
        own = {"signal": self.signal.card.name, **signal, "chosen_by": self.chosen_by}
        return {**super().parameters, **self.config.parameters, **own}

    def cost(self, units: Units) -> Cost:
        """Reading the text twice, and two passes for each loss; ``choosing`` has what a judge evaluates.

        Where seconds alone are given, how many steps they allow is not known, and one is counted.
        """
        reading, steps = self.learned.cost(units), self.config.steps or 1
        losses = steps + (self.judge is None)
        return added(reading, added(reading, Cost(forwards=2 * losses, backwards=2 * steps)))

    def choosing(self, model: Model, units: Units) -> int:
        """Evaluations of the model by the judge for one text, counted by grading two maps of it."""
        if self.judge is None:
            return 0
        (prediction,) = model.predict([units.example])
        target = resolve_target(model, None, prediction, self.learned.about.scale)
        rng = np.random.default_rng(0)
        maps = [
            Explanation(self.card.name, units, tuple(rng.random(len(units)).tolist()), target, prediction)
            for _ in range(2)
        ]
        with metered() as meter:
            self.judge.grades(model, maps)
        return round(meter.forwards / len(maps) * (1 + (self.config.steps or 1)))

    def own(self, shape: NetworkSize) -> Own:
        """Arithmetic of the learned network and of its updates, and the memory of as many copies as are allowed."""
        weights, passes = self._copies.every, 1 + BACKWARD
        steps = self.config.steps or 1
        computed = steps * (passes * weights * shape.tokens + TOUCHED * self._copies.size)
        return Own(multiplications=computed, memory=self.memory(self.config.rows, shape.tokens))

    def memory(self, rows: int, tokens: int) -> int:
        """Bytes that refining so many texts of a length together takes besides the explained model, roughly."""
        return rows * (self._copies.row_bytes + tokens * activation_bytes(self._copies.shape))

    @cached_property
    def _copies(self) -> RowCopies:
        return RowCopies(self.learned.shape, self.config.rank, self.config.seed)

    def revise(self, model: Model, explanations: Sequence[Explanation]) -> list[Explanation]:
        """Refined explanations; one of a text without units stays as it is."""
        _check(self.signal, model)
        revised = list(explanations)
        scored = [number for number, one in enumerate(explanations) if len(one.units)]
        for start in range(0, len(scored), _CHUNK):
            part = scored[start : start + _CHUNK]
            for number, one in zip(part, self._refined(model, [revised[i] for i in part]), strict=True):
                revised[number] = one
        return revised

    def _refined(self, model: Model, first: Sequence[Explanation]) -> list[Explanation]:
        for one in first:
            self._check_target(one)
        with exclusive(self._copies.shape), metered() as meter:
            candidates = self._candidates(model, first)
            values = self._values(model, first, candidates)
        cost = _shared(meter, len(first))
        return [self._chosen(*text, cost) for text in zip(first, candidates, values, strict=True)]

    def _candidates(self, model: Model, first: Sequence[Explanation]) -> list[_Candidates]:
        """Maps of all texts, in groups of similar length that fit into memory."""
        device = next(self._copies.shape.parameters()).device
        task = SignalTask(model, [one.example for one in first], level=self.level)
        samples = self.signal.prepare(task, self._copies.shape)
        texts = samples.of_epoch(0)
        made: dict[int, _Candidates] = {}

        def evaluate(rows: Ints) -> None:
            batch = batch_of(self._copies.shape, texts, rows, device, samples.shared)
            unrefined = [first[row].array for row in rows]
            made.update(zip(rows.tolist(), self._maps(batch, unrefined), strict=True))

        budget = graph_budget(default_budget(device), device)
        budget.rows = rows_that_fit(self._copies, self.config.rows, device)
        lengths = np.array([self._copies.shape.length(text.item) for text in texts], dtype=np.int64)
        with torch.inference_mode(False), torch.enable_grad():
            run("refining", lengths, budget, True, evaluate)
        return [made[number] for number in range(len(first))]

    def _maps(self, batch: TrainingBatch, unrefined: Sequence[Floats]) -> list[_Candidates]:
        try:
            objective = Objective(self._loss, self.learned.signal.scores, chooses=self.judge is None)
            refined = refine_rows(self._copies, batch, objective, self.config)
        except ModelError as problem:
            if problem.__cause__ is not None and is_out_of_memory(problem.__cause__):
                raise problem.__cause__ from None  # fewer texts together need less
            raise
        scores, losses = refined.scores.double().numpy(), refined.losses.double().numpy()
        present = batch.present.cpu().numpy()
        maps = [
            np.vstack([own, scores[1:, row, here]])
            for row, (own, here) in enumerate(zip(unrefined, present, strict=True))
        ]
        return [_Candidates(own, losses[:, row]) for row, own in enumerate(maps)]

    def _loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        """The loss of the network's numbers; to another signal than the learned one, its scores are the numbers."""
        return self.signal.loss(outputs if self._same else self.learned.signal.scores(outputs)[..., None], batch)

    def _values(self, model: Model, first: Sequence[Explanation], candidates: Sequence[_Candidates]) -> list[Floats]:
        """What the maps of each text are compared by, the smaller the better; infinite where a map is no candidate."""
        finite = [np.asarray(np.isfinite(own.scores).all(axis=1)) for own in candidates]
        if self.judge is None:
            return [np.where(ok, own.losses, np.inf) for ok, own in zip(finite, candidates, strict=True)]
        maps = [
            dataclasses.replace(one, scores=tuple(scores.tolist()))
            for one, own, ok in zip(first, candidates, finite, strict=True)
            for scores in own.scores[ok]
        ]
        grades = self.judge.grades(model, maps)
        signed = grades if self.judge.lower_is_better else -grades
        cuts = np.cumsum([ok.sum() for ok in finite])[:-1]
        return [_placed(own, ok) for own, ok in zip(np.split(signed, cuts), finite, strict=True)]

    def _chosen(self, first: Explanation, candidates: _Candidates, values: Floats, cost: Cost) -> Explanation:
        best = int(np.argmin(np.where(np.isnan(values), np.inf, values)))  # the first of equals: the least refined
        sign = 1.0 if self.judge is None or self.judge.lower_is_better else -1.0
        details = {
            "steps": float(len(values) - 1),
            "chosen step": float(best),
            f"{self.chosen_by}, unrefined": _plain(sign * values[0]),
            f"{self.chosen_by}, chosen": _plain(sign * values[best]),
        }
        return dataclasses.replace(
            first,
            method=self.card.name,
            scores=tuple(candidates.scores[best].tolist()),
            parameters=self.parameters,
            cost=added(first.cost, cost),
            details={**first.details, **details},
            warnings=(*first.warnings, selected_on_text(self.chosen_by, len(values))),
        )

    def _check_target(self, explanation: Explanation) -> None:
        target, prediction = explanation.target, explanation.prediction
        if target.index != prediction.index:
            raise TargetError(
                f"{self.card.name} explains what is predicted, {prediction.label!r} for "
                f"{explanation.example.preview}, and was given the target {target.label!r}; leave the target out"
            )


def _refining(learned: Signal) -> Signal:
    """The signal by which an explainer is refined that was trained by another."""
    return SIGNALS.get("mask").configured() if REFERENCE in learned.card.needs else learned


def _check(signal: Signal, model: Model) -> None:
    if REFERENCE in signal.card.needs:
        raise ParameterError(
            f"{signal.card.name} learns another explainer's scores, which there are none of when a text is refined; "
            "refine by a signal without a reference, such as mask"
        )
    missing = signal.card.needs - model.capabilities
    if missing:
        raise CapabilityError(
            f"refinement by {signal.card.name} needs a model that is {' and '.join(sorted(missing))}, which "
            f"{model.name} is not"
        )


def _shared(meter: Meter, texts: int) -> Cost:
    """What each of several texts took."""
    counts = (meter.forwards, meter.backwards, meter.evaluated)
    forwards, backwards, evaluated = (round(number / texts) for number in counts)
    return Cost(forwards, backwards, evaluated, meter.seconds / texts)


def _placed(values: Floats, known: NDArray[np.bool_]) -> Floats:
    placed = np.full(len(known), np.inf)
    placed[known] = values
    return placed


def _plain(value: float) -> float:
    return float(value) if np.isfinite(value) else float("nan")


def _one_value(value: object) -> JsonValue:
    """A setting as explanations have it: several numbers as one text."""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else cast("JsonValue", value)
