"""What the signals share that learn from coalitions of units, which the model is evaluated on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self, cast

import numpy as np
import torch
from torch import Tensor

from didact.errors import ParameterError
from didact.protocols import Model
from didact.trained.samples import Sample, TrainingBatch, TrainingSamples
from didact.trained.shapes.base import Item, Shape
from didact.trained.signals._coalitions import Coalitions, Drawn, ExplainedTexts, explained_texts, joined
from didact.trained.signals.base import Signal, SignalTask
from didact.types import Floats, Target, Units

Scores = list[Floats]

HELD_OUT = 1 << 20
"""Number of the round of coalitions that validation texts are given, which no training reaches."""


@dataclass(frozen=True, kw_only=True)
class Ablation(Signal):
    """Base of signals that learn Shapley values, or from them on, without another explainer.

    A coalition S and its complement are evaluated as a pair, of which D(S) = f(S) - f(complement) is learned:

        L = mean over S of (D(S) - sum_i x_i w_i)^2 + (sum_i v_i - D(all))^2 / n,  w = v + (D(all) - sum v) / n

    with x_i = 1 for a unit in S and -1 for others, v what the network gives, and S drawn from the Shapley kernel, so
    that Shapley values have the least expected loss. A pair removes the part of f that all units share alike. The
    gradient sees the residual alone: the network's own values are the control variate, and the noise of a few
    coalitions falls as the network learns.

    Args:
        pairs: of complementary coalitions drawn for a text in a round.
        rounds: epochs in which coalitions are drawn; each epoch learns from all that were evaluated until then.
        classes: how many classes of a text are learned, the predicted one first and the others drawn in every epoch;
            they share the evaluations.
        complete: scores of an explanation are shifted to add up to f(text) - f(text without its units), which takes an
            evaluation of the latter.
        absence: how an absent unit is shown; the model's default when not given.
        seed: decides the coalitions.
        spread: size of D, which values are learned relative to; that of the training texts when not given.
    """

    pairs: int = 8
    rounds: int = 4
    classes: int = 1
    complete: bool = False
    absence: str | None = None
    seed: int = 0
    spread: float | None = None

    def __post_init__(self) -> None:
        for name in ("pairs", "rounds", "classes"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} of {self.card.name} must be at least 1, got {getattr(self, name)!r}")
        if self.seed < 0:
            raise ParameterError(f"seed of {self.card.name} must not be negative, got {self.seed!r}")
        if self.spread is not None and not self.spread > 0:
            raise ParameterError(f"spread of {self.card.name} must be above 0, or None, got {self.spread!r}")

    @property
    def outputs(self) -> int:
        """One: v."""
        return 1

    @property
    def signed(self) -> bool:
        """Always: a unit may speak against the target."""
        return True

    @property
    def follows_target(self) -> bool:
        """Where all classes are learned."""
        return self.classes > 1

    @property
    def evaluations(self) -> int:
        """That of the text without its units, where scores add up."""
        return int(self.complete)

    def scores(self, outputs: Tensor) -> Tensor:
        """The output, on the scale of the explained number."""
        return outputs[..., 0] * (self.spread or 1.0)

    def finished(
        self, model: Model, units: Sequence[Units], targets: Sequence[Target], values: Sequence[float], scores: Scores
    ) -> Scores:
        """With ``complete``, each unit's score plus an equal share of what is missing."""
        if not self.complete:
            return scores
        empty = model.score(units, targets, [np.zeros((1, len(own)), dtype=np.bool_) for own in units], self.absence)
        totals = [value - float(own[0]) for value, own in zip(values, empty, strict=True)]
        return [own + (total - own.sum()) / max(1, len(own)) for own, total in zip(scores, totals, strict=True)]

    def prepare(self, task: SignalTask, shape: Shape) -> TrainingSamples:
        """Texts as the shape reads them, and per epoch the coalitions that were evaluated until then."""
        train, apart = (explained_texts(task, texts, self.classes) for texts in (task.train, task.validation))
        items = shape.read(task.model, train.units, train.classes, train.predictions)
        coalitions = Coalitions(task.model, train, self.pairs, self.absence, self.seed)

        @lru_cache(maxsize=1)
        def of_epoch(epoch: int) -> list[Sample]:
            drawn = joined([coalitions.round(number) for number in range(min(epoch + 1, self.rounds))])
            rng = np.random.default_rng([self.seed, epoch])
            pairs = list(zip(items, drawn, strict=True))
            made = [
                _sample(item, text, text.target, self._beside(train, number, epoch))
                for number, (item, text) in enumerate(pairs)
            ]
            for item, text in pairs:
                rest = [label for label in range(train.labels) if label != text.target]
                made += [
                    _sample(shape.for_target(item, label), text, label)
                    for label in rng.permutation(rest)[: self.classes - 1].astype(int).tolist()
                ]
            return made

        checked = self._checked(task, shape, apart) if len(apart.units) else []
        marks = {"explained model": task.model.fingerprint()}
        return self._kept(train, TrainingSamples(of_epoch, checked, {"model": task.model}, marks=marks))

    def _kept(self, texts: ExplainedTexts, samples: TrainingSamples) -> TrainingSamples:
        """The samples with what the loss keeps of the training texts."""
        return samples

    def _beside(self, texts: ExplainedTexts, number: int, epoch: int | None) -> Mapping[str, object]:
        """What the loss needs of a text in an epoch besides its coalitions; in validation where the epoch is None."""
        return {}

    def _checked(self, task: SignalTask, shape: Shape, texts: ExplainedTexts) -> list[Sample]:
        """Validation samples: the same coalitions in every epoch, and predicted classes alone."""
        drawn = Coalitions(task.model, texts, self.pairs, self.absence, self.seed).round(HELD_OUT)
        items = shape.read(task.model, texts.units, texts.classes, texts.predictions)
        return [
            _sample(item, text, text.target, self._beside(texts, number, None))
            for number, (item, text) in enumerate(zip(items, drawn, strict=True))
        ]

    def fitted(self, samples: TrainingSamples) -> Self:
        """With the size of D on the training texts, where it was not given."""
        if self.spread is not None:
            return self
        known = [cast("Floats", sample.extra["differences"]) for sample in samples.of_epoch(0)]
        size = float(np.sqrt(np.mean(np.concatenate(known) ** 2))) if known else 1.0
        return replace(self, spread=size if size > 0 else 1.0)

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        """L of each text, relative to the spread: (rows,)."""
        present, spread = batch.present, self.spread or 1.0
        v = torch.where(present, outputs[..., 0], 0.0)  # (rows, units)
        x, wanted, total = (part.to(v) for part in _stacked(batch))
        n = present.sum(1).clamp_min(1)
        missing = total / spread - v.sum(1)
        w = v + (missing / n)[:, None] * present
        residual = wanted / spread - torch.einsum("rku,ru->rk", x, w)
        return residual.square().mean(1) + missing.square() / n


def _sample(item: Item, text: Drawn, label: int, beside: Mapping[str, object] | None = None) -> Sample:
    """A text with its coalitions, for the number of one label."""
    differences, total = text.differences[:, text.column(label)], float(text.total[text.column(label)])
    signs = 2.0 * text.rows - 1
    # The loss reads the coalitions themselves; this summary of them tells trainings apart, and whether all is finite.
    own = {"signs": signs, "differences": differences, "total": total}
    return Sample(item, signs.T @ differences, {**own, **(beside or {})})


def _stacked(batch: TrainingBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Signs (rows, pairs, units), 0 where a row has no unit; differences (rows, pairs); totals (rows,)."""
    pairs = len(cast("Floats", batch.extra[0]["differences"]))
    signs = np.zeros((len(batch.extra), pairs, batch.present.shape[1]), dtype=np.float32)
    for row, present, own in zip(signs, batch.present.cpu().numpy(), batch.extra, strict=True):
        row[:, present] = cast("Floats", own["signs"])
    differences = np.stack([cast("Floats", own["differences"]) for own in batch.extra])
    totals = np.array([cast("float", own["total"]) for own in batch.extra])
    return torch.from_numpy(signs), torch.from_numpy(differences), torch.from_numpy(totals)
