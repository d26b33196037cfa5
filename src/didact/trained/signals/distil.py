"""Learning from another explainer's scores: their order, their kind, or their size.

Below, w are the teacher's weights of the words of one document and v what the network gives.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from didact.errors import InputError, ParameterError
from didact.trained.signals.base import Signal
from didact.types import Explanation, Floats

Normalise = Literal["max", "sum", "norm", "none"]
Reduce = Literal["sum", "mean"]

STRONG, WEAK = 3, 1
"""What words count that are labelled as speaking strongly or weakly."""


@dataclass(frozen=True, kw_only=True)
class Distil(Signal):
    """What the three ways of learning from a teacher share.

    Args:
        reduce: "sum" over the words or pairs of a document, as the paper has it; with "mean" a long document counts no
            more than a short one.
    """

    reduce: Reduce = "sum"

    def __post_init__(self) -> None:
        self._choose(reduce=Reduce)

    @property
    def settings(self) -> dict[str, Any]:
        """The fields."""
        return dataclasses.asdict(self)

    def loss(
        self, outputs: Tensor, targets: Tensor, present: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Loss per document: (rows,)."""
        terms, count = self._terms(outputs, targets, present, generator)
        return terms / count.clamp(min=1) if self.reduce == "mean" else terms

    @abstractmethod
    def _terms(
        self, outputs: Tensor, targets: Tensor, present: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Sum of a document's terms and how many they are: both (rows,)."""

    def _choose(self, **choices: Any) -> None:
        for name, allowed in choices.items():
            if getattr(self, name) not in get_args(allowed):
                raise ParameterError(
                    f"{name} of {self.name} must be one of {get_args(allowed)}, got {getattr(self, name)!r}"
                )


@dataclass(frozen=True, kw_only=True)
class Ranking(Distil):
    """Put the words into the teacher's order.

    L = - sum over i < j of log(e^{v_k} / (e^{v_i} + e^{v_j})), where k is the one of i and j with the larger |w|.
    Where |w_i| = |w_j| either could be k, and the pair counts half for each answer: this is smallest where v_i = v_j
    and has no gradient there, so that equal words are drawn together.

    All pairs of a document with at most ``pairs`` + 1 words are taken. In longer ones every word meets ``pairs`` others
    drawn at random, and the sum is scaled to what all pairs would give on average: cost is linear in the length.

    Args:
        by: order words by "absolute" weight, as the paper does, or by "signed" weight.
        pairs: how many others a word meets; None for all, whatever the length.
        reduce: "sum" over pairs (the paper), or their "mean".
    """

    name = "ranking"

    by: Literal["absolute", "signed"] = "absolute"
    pairs: int | None = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        self._choose(by=Literal["absolute", "signed"])
        if self.pairs is not None and self.pairs < 1:
            raise ParameterError(f"pairs of {self.name} must be at least 1, or None for all, got {self.pairs!r}")

    @property
    def outputs(self) -> int:
        """One: v."""
        return 1

    @property
    def signed(self) -> bool:
        """Never: where pairs are compared no value is the one between for and against."""
        return False

    def targets(self, explanation: Explanation) -> Floats:
        """Places in the order, from 0 for the smallest; equal words share one. Nothing else enters the loss."""
        weights = explanation.array if self.by == "signed" else abs(explanation.array)
        return np.unique(weights, return_inverse=True)[1].astype(np.float64)

    def scores(self, outputs: Tensor) -> Tensor:
        """The output itself."""
        return outputs[..., 0]

    def _terms(
        self, outputs: Tensor, targets: Tensor, present: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        v, w = outputs[..., 0], torch.where(present, targets, 0)
        n = present.sum(1)  # (rows,)
        partner, share = _partners(present, self.pairs, generator)  # (rows, units, m)
        flat = partner.flatten(1)
        ahead = v[..., None] - v.gather(1, flat).view(partner.shape)  # v_i - v_j
        order = (w[..., None] - w.gather(1, flat).view(partner.shape)).sign()
        # order 1: log(1 + e^(v_j - v_i)); -1: the same the other way round; 0: half of each
        pair = F.softplus(-ahead.abs()) + (ahead.abs() - order * ahead) / 2
        return torch.where(share > 0, pair * share, 0.0).sum((1, 2)), n * (n - 1) / 2


@dataclass(frozen=True, kw_only=True)
class Labelling(Distil):
    """Tell for every word whether it speaks strongly or weakly for or against, or not at all.

    L = - sum over i of log softmax(v_i)[h(w_i)]. What strong means is decided for each document, by ``kinds``.

    The score is the mean of the classes' values (-3, -1, 0, 1, 3 from strongly against to strongly for; 2, 1, 0 for
    high, medium and low) under the softmax: it orders words within a class as well, by how sure the network is. Strong
    weights are 3.5 to 8 times as large as weak ones; of 2, 3 and 4, 3 was the best compromise of faithfulness and
    stability on validation texts of two data sets.

    Args:
        classes: 5, or 3 for teachers whose weights are never negative.
        reduce: "sum" over words (the paper), or their "mean".
    """

    name = "labelling"

    classes: Literal[3, 5] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        self._choose(classes=Literal[3, 5])

    @classmethod
    def suited(cls, *, signed: bool, **settings: Any) -> Self:
        """With 3 classes for a teacher without signs, unless the settings say otherwise."""
        return cls(**{"classes": 5 if signed else 3} | settings)

    @property
    def outputs(self) -> int:
        """One per class."""
        return self.classes

    @property
    def signed(self) -> bool:
        """With five classes, two of which speak against."""
        return self.classes == 5

    def targets(self, explanation: Explanation) -> Floats:
        """The class of every word."""
        return kinds(explanation.array, self.classes).astype(np.float64)

    @property
    def high(self) -> float | None:
        """Scores beyond it, either way, are nearer to a strong class than to a weak one; None with three classes."""
        return (STRONG + WEAK) / 2 if self.classes == 5 else None

    def scores(self, outputs: Tensor) -> Tensor:
        """The expected value of the class."""
        values = (-STRONG, -WEAK, 0, WEAK, STRONG) if self.classes == 5 else (2, 1, 0)
        return outputs.softmax(-1) @ outputs.new_tensor(values)

    def _terms(
        self, outputs: Tensor, targets: Tensor, present: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        classes = torch.where(present, targets, 0).long()
        each = F.cross_entropy(outputs.transpose(1, 2), classes, reduction="none")  # (rows, units)
        return torch.where(present, each, 0.0).sum(1), present.sum(1)


@dataclass(frozen=True, kw_only=True)
class Regression(Distil):
    """Give the words the teacher's weights, each document's brought to one size.

    L = sum over i of (v_i - w_i)^2 / 2, from ``delta`` on continued as a straight line (Huber) where it is given.

    Args:
        normalise: divide a document's weights by the "max" of |w|, by the "sum" of |w|, by the "norm" sqrt(sum w^2), or
            by "none", where the teacher's scale means the same in every document.
        delta: how large a difference may be before it counts linearly; None for never.
        signed: whether the teacher's weights have a sign.
        reduce: "sum" over words, or their "mean".
    """

    name = "regression"

    normalise: Normalise = "max"
    delta: float | None = None
    signed: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._choose(normalise=Normalise)
        if self.delta is not None and not self.delta > 0:
            raise ParameterError(f"delta of {self.name} must be above 0, or None, got {self.delta!r}")

    @classmethod
    def suited(cls, *, signed: bool, **settings: Any) -> Self:
        """Signed as the teacher is."""
        return cls(**{"signed": signed} | settings)

    @property
    def outputs(self) -> int:
        """One: v."""
        return 1

    def targets(self, explanation: Explanation) -> Floats:
        """The normalised weights."""
        return normalised(explanation.array, self.normalise)

    def scores(self, outputs: Tensor) -> Tensor:
        """The output itself."""
        return outputs[..., 0]

    def _terms(
        self, outputs: Tensor, targets: Tensor, present: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        v, w = outputs[..., 0], torch.where(present, targets, 0).to(outputs.dtype)
        each = (v - w) ** 2 / 2 if self.delta is None else F.huber_loss(v, w, reduction="none", delta=self.delta)
        return torch.where(present, each, 0.0).sum(1), present.sum(1)


def kinds(weights: Floats, classes: Literal[3, 5] = 5) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The class of each weight of one document.

    With five: 0 high negative, w < m-; 1 low negative; 2 neutral, w = 0; 3 low positive; 4 high positive, w > m+, where
    m+ and m- are the means of the positive and of the negative weights. With three: 0 high, w >= mean + deviation;
    1 medium; 2 low, w < mean - deviation (of the population), and all medium where all weights are equal.
    """
    if classes == 3:
        mean, deviation = weights.mean(), weights.std()
        found = np.where(weights >= mean + deviation, 0, np.where(weights < mean - deviation, 2, 1))
        return found if np.ptp(weights) > 0 else np.ones_like(found)
    high, low = _mean(weights[weights > 0]), _mean(weights[weights < 0])
    return 2 + np.sign(weights).astype(np.int64) + (weights > high) * (weights > 0) - (weights < low) * (weights < 0)


def normalised(weights: Floats, how: Normalise = "max") -> Floats:
    """A document's weights brought to one size; weights that are all 0 stay as they are."""
    if how == "none":
        return weights
    size = float(np.linalg.norm(weights, {"max": np.inf, "sum": 1, "norm": 2}[how]))
    return weights / size if size > 0 else weights


def averaged(explanations: Sequence[Explanation], how: Normalise = "max") -> Explanation:
    """Several teachers as one: the mean of their normalised scores for the same units and target.

    A teacher without signs cannot say what speaks against, so where there is one, all count by absolute value.
    """
    first = explanations[0]
    for other in explanations[1:]:
        if (other.units.example, other.units.spans) != (first.units.example, first.units.spans):
            raise InputError(f"{first.method} and {other.method} explain different units; average those of one text")
        if other.target.index != first.target.index:
            raise InputError(
                f"{first.method} explains {first.target.label!r} and {other.method} {other.target.label!r}; "
                "average explanations of one output"
            )
    signed = all(explanation.signed for explanation in explanations)
    arrays = [explanation.array if signed else abs(explanation.array) for explanation in explanations]
    scores = np.mean([normalised(array, how) for array in arrays], axis=0)
    return dataclasses.replace(
        first,
        method="+".join(explanation.method for explanation in explanations),
        scores=tuple(scores.tolist()),
        parameters={},
        signed=signed,
        details={},
        errors=(),
    )


def _partners(present: Tensor, pairs: int | None, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """For each unit the columns of the units it is compared with, and what the comparison counts: (rows, units, m).

    Seen from both its units a pair comes twice, so each counts half; 0 where there is no pair.
    """
    n = present.sum(1)[:, None, None]
    others = present.shape[1] - 1 if pairs is None else min(pairs, present.shape[1] - 1)
    steps = torch.arange(1, others + 1, device=present.device).expand(*present.shape, -1)  # units further on
    share = (steps < n) * 0.5
    if pairs is not None and others < present.shape[1] - 1:
        # A generator of its own where none is given, so that a validation loss is the same each time.
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        drawn = torch.rand(steps.shape, generator=generator, device=generator.device).to(present.device)
        long = n - 1 > pairs
        steps = torch.where(long, 1 + (drawn * (n - 1)).long().clamp(max=(n - 2).clamp(min=0)), steps)
        share = torch.where(long, (n - 1) / (2 * pairs), share)
    place = present.cumsum(1) - 1  # among those present
    column = present.logical_not().long().argsort(dim=1, stable=True)  # place -> column
    met = (place[..., None].clamp(min=0) + steps) % n.clamp(min=1)
    partner = column.gather(1, met.flatten(1)).view(met.shape)
    return partner, share * present[..., None]


def _mean(weights: Floats) -> float:
    """The mean, kept between the smallest and the largest against rounding; 0 of nothing."""
    return float(np.clip(weights.mean(), weights.min(), weights.max())) if len(weights) else 0.0
