"""Scaffold: learn explanations from which students learn the model fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, get_args

import numpy as np
import torch
from torch import Tensor

from didact.errors import CapabilityError, InputError, ParameterError
from didact.ops.simplex import simplex
from didact.protocols import Model
from didact.provenance import content_hash
from didact.settings import at_least
from didact.simulation.hints import Distribution
from didact.students.base import Ints, LabelledExample
from didact.trained.samples import Sample, TrainingBatch, TrainingSamples
from didact.trained.scaffolding.building import GroupSettings, build_group
from didact.trained.scaffolding.group import GroupTexts, StudentGroup
from didact.trained.scaffolding.lives import Ages
from didact.trained.scaffolding.meta_gradients import Difference, MetaGradient
from didact.trained.scaffolding.positions import UnitPositions
from didact.trained.shapes.base import Shape
from didact.trained.signals.base import Signal, SignalCard, SignalTask, register
from didact.types import AnswerKind, Example, Prediction, Units


@register(
    SignalCard(
        name="scaffold",
        family="teaching",
        summary="Learn explanations from which students learn to predict what the model predicts.",
        reference="Fernandes et al. 2022, Learning to Scaffold: Optimizing Model Explanations for Teaching",
        outputs="1",
    )
)
@dataclass(frozen=True, kw_only=True)
class ScaffoldSignal(GroupSettings, Signal):
    """Explanations that teach: students learn the model T from texts with e_T, and should then predict as T does.

        e_T = softmax (or sparsemax) over the units of the output
        inner: each student makes a step on  L_sim(S(x), T(x)) + beta * KL(e_T || e_S)  on texts of its own
        outer: the explainer makes a step on  L_sim(S'(x), T(x))  of the students S' after their step, on other texts

    L_sim is the cross-entropy with the predicted class, or the squared error of a number. The students are a population
    that shares one explainer: many at once average out what a single student's history does to the gradient, and with
    ages "mixed" there is always one at every stage of learning. Three sets of texts are apart: those that students
    learn from, those of the outer loss (``outer``), and the validation texts, by which epochs are compared: the mean
    loss of the students on them. The published code compares epochs by the texts of the outer loss.

    Any shape can be trained whose output is one logit per unit. The gradient with respect to e_T is computed first, by
    a forward pass or two of the students (``didact.trained.scaffolding.meta_gradients``), and handed to the shape.

    Settings are those of ``GroupSettings``.
    """

    def __post_init__(self) -> None:
        at_least(self, students=1, resets=0, batch=1, outer_batch=1, every=1, examples=1, seed=0)
        MetaGradient.parsed(self.meta)
        choices = {"ages": Ages, "difference": Difference, "explanation": Distribution}
        for name, allowed in ((name, get_args(kind)) for name, kind in choices.items()):
            if getattr(self, name) not in allowed:
                raise ParameterError(f"{name} of scaffold must be one of {allowed}, got {getattr(self, name)!r}")
        if self.beta is not None and not self.beta > 0:
            raise ParameterError(f"beta of scaffold must be above 0, got {self.beta!r}: without it nothing is taught")
        if not 0 < self.outer < 1:
            raise ParameterError(f"outer of scaffold is a share of the training texts, got {self.outer!r}")
        for name in ("inner_rate", "radius"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} of scaffold must be above 0, got {getattr(self, name)!r}")
        if self.ages == "mixed" and not self.resets and self.students > 1 and self.meta != "closed_form":
            raise ParameterError(
                "students that are never replaced (resets=0) are all as old; set ages to 'equal', or resets above 0"
            )

    @property
    def outputs(self) -> int:
        """One: the logit of a unit."""
        return 1

    @property
    def signed(self) -> bool:
        """Never: a softmax of the scores is what students see."""
        return False

    def scores(self, outputs: Tensor) -> Tensor:
        """The logits, of which e_T is the softmax over a text's units."""
        return outputs[..., 0]

    def prepare(self, task: SignalTask, shape: Shape) -> TrainingSamples:
        """The pool as the shape reads it, and students that read pool, outer and validation texts."""
        train, validation = (_Answered.of(task, texts) for texts in (task.train, task.validation))
        pool, outer = self._split(train)
        texts = GroupTexts(pool.labelled, outer.labelled, validation.labelled)
        group = build_group(self, texts, train.kind, len(task.model.labels))
        return TrainingSamples(
            pool.samples(task.model, shape),
            validation.samples(task.model, shape),
            {"students": group, "positions": UnitPositions(group.tokens, pool.units, group.device)},
            marks={"explained model": task.model.fingerprint(), "outer texts": _texts_hash(outer)},
            carried=("students",) if isinstance(group, torch.nn.Module) else (),
            batches=group.windows,
        )

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        """The students' outer losses, with the meta-gradient as their derivative: (rows,).

        In training this lets the students learn, so rows must be those of one of the signal's own batches. In
        validation it is the loss of the students as they are.
        """
        group = cast("StudentGroup", batch.shared["students"])
        places = np.array([cast("int", extra["place"]) for extra in batch.extra])
        if batch.generator is None:
            return group.validation_losses(places).to(outputs)
        layout = students, steps, size = group.layout
        if len(places) != students * steps * size:
            raise InputError(
                f"{students} students that make {steps} steps of {size} texts need {students * steps * size} rows at "
                f"a time, got {len(places)}; take the rows of a batch from the samples' own batches"
            )
        e_t = self._explanations(outputs, batch).to(group.device)  # (rows, units)
        positions = cast("UnitPositions", batch.shared["positions"])
        hints = positions.weights(e_t, torch.from_numpy(places).to(group.device)).view(*layout, -1)
        gradient, losses = group.window(places.reshape(layout), hints.detach(), batch.generator)
        change = (gradient.to(hints.dtype) * (hints - hints.detach())).sum(-1)  # 0, with the meta-gradient
        # The mean over the rows is the mean over the students, of which each has its rows in the sum.
        each: Tensor = losses.to(hints.dtype)[:, None, None] + steps * size * change
        return each.flatten().to(outputs.device)

    def _explanations(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        logits = self.scores(outputs).masked_fill(~batch.present, -torch.inf)
        return simplex(logits, self.explanation)

    def _split(self, train: _Answered) -> tuple[_Answered, _Answered]:
        """Pool and outer texts."""
        order = np.random.default_rng(self.seed).permutation(len(train.units))
        count = round(self.outer * len(order))
        if not 0 < count < len(order):
            raise InputError(
                f"{len(order)} training texts do not split into those that students learn from and a share of "
                f"{self.outer} for the outer loss; give more texts"
            )
        return train.chosen(order[count:]), train.chosen(order[:count])


@dataclass(frozen=True, eq=False)
class _Answered:
    """Texts that have units, with the model's predictions."""

    units: Sequence[Units]
    predictions: Sequence[Prediction]

    @classmethod
    def of(cls, task: SignalTask, texts: Sequence[Example]) -> _Answered:
        units = [own for own in task.model.units(texts, task.level) if len(own)]
        predictions = task.model.predict([own.example for own in units])
        for prediction in predictions[:1]:
            if prediction.kind not in ("class", "number") or prediction.extract is not None:
                raise CapabilityError(
                    f"scaffold teaches a class or a number that is predicted of the whole input, and {task.model.name} "
                    f"predicts a {prediction.kind} of a part of it; use a signal that learns another explainer's scores"
                )
        return cls(units, predictions)

    @property
    def kind(self) -> AnswerKind:
        return self.predictions[0].kind if self.predictions else "class"

    @property
    def labelled(self) -> list[LabelledExample]:
        pairs = zip(self.units, self.predictions, strict=True)
        return [
            LabelledExample(own.example, one.outputs[0] if one.kind == "number" else one.index) for own, one in pairs
        ]

    def chosen(self, numbers: Ints) -> _Answered:
        return _Answered([self.units[n] for n in numbers], [self.predictions[n] for n in numbers])

    def samples(self, model: Model, shape: Shape) -> list[Sample]:
        items = shape.read(model, self.units, [one.index for one in self.predictions], self.predictions)
        return [
            Sample(item, np.zeros(len(own)), {"place": place})
            for place, (item, own) in enumerate(zip(items, self.units, strict=True))
        ]


def _texts_hash(texts: _Answered) -> str:
    return content_hash([own.example.fingerprint for own in texts.units])
