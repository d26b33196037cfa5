"""What the packages need of each other: models, their capabilities, and explainers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Union, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from didact.types import (
    Card,
    Cost,
    Example,
    Explanation,
    FieldLike,
    Floats,
    Grade,
    JsonValue,
    Keep,
    Level,
    MetricCard,
    Prediction,
    Scale,
    Span,
    Target,
    Units,
)

if TYPE_CHECKING:
    from torch import Tensor

DIFFERENTIABLE = "differentiable"
ATTENTIVE = "attentive"
LAYERED = "layered"
HIDDEN = "hidden"
HEADS = "heads"
GENERATIVE = "generative"

ExampleLike = FieldLike | tuple[FieldLike, ...] | Example
"""What a user may pass as one thing to explain."""

TargetLike = int | str | Span | Target | tuple[int | str | None, int | str | None] | None
"""What a user may pass as a target: a label, its index, a span of the input, nothing for what is predicted, or a pair
of labels for a contrastive target: why the first rather than the second?"""

AttentionRows = Literal["all", "mean", "pooled"]
AttentionKind = Literal["probabilities", "logits"]
Absent = Union[str, "Tensor", Sequence["Tensor"]]
"""What stands for absent units: a name, a vector (dim,) for all examples, or (dim,) or (positions, dim) for each."""

Reads = Literal["first", "last", "mean"]
"""Which position the classifier reads, or the mean over all."""


@runtime_checkable
class Model(Protocol):
    """A thin adapter round the user's model, which it never changes."""

    name: str
    labels: tuple[str, ...]
    scales: tuple[Scale, ...]
    levels: tuple[Level, ...]

    @property
    def precision(self) -> float:
        """How far, relative to 1 + |value|, the explained pass may lie from the plain one."""
        ...

    @property
    def default_absence(self) -> str:
        """The absence operator used when none is named."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """What it offers beyond ``score``."""
        ...

    def fingerprint(self) -> str:
        """Hash of what decides its predictions."""
        ...

    def target(self, given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
        """The number that a user wants explained, on one of the model's scales; nothing means what is predicted."""
        ...

    def units(self, examples: Sequence[Example], level: Level | None = None) -> list[Units]:
        """The scored pieces of each example; of the first level that it offers where none is given."""
        ...

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """Plain forward passes, as the user would make them."""
        ...

    def score(
        self, units: Sequence[Units], targets: Sequence[Target], keep: Sequence[Keep], absence: str | None = None
    ) -> list[Floats]:
        """The target under each keep mask (variants x units): the one hot path."""
        ...


class Answering(Model, Protocol):
    """A model whose predictions can be about a given span or text."""

    def predict(
        self, examples: Sequence[Example], about: Sequence[Span | str | None] | None = None
    ) -> list[Prediction]:
        """Plain forward passes; a prediction has an output for the span or text that is given for its example."""
        ...


@runtime_checkable
class Points(Protocol):
    """Points in the embedding space of one example, made when needed: indices -> (k, tokens, dim)."""

    def __len__(self) -> int: ...

    def __getitem__(self, indices: slice) -> Tensor: ...


@runtime_checkable
class QuicklyIdentified(Protocol):
    """A model whose fingerprint costs more than a call that does not run it."""

    def recent_fingerprint(self) -> str:
        """As ``fingerprint``, without reading all weights again as long as nothing looks different."""
        ...


@runtime_checkable
class Differentiable(Model, Protocol):
    """A model that takes embeddings in and gives gradients out."""

    def embed(self, units: Sequence[Units], absent: str | None = None) -> list[Tensor]:
        """Input embeddings (tokens, dim) per example; with ``absent``, of the example without its units."""
        ...

    def gradients(
        self,
        units: Sequence[Units],
        targets: Sequence[Target],
        points: Sequence[Points],
        weights: Sequence[Floats | Points],
    ) -> list[tuple[Floats, Tensor]]:
        """Target values at the points and the weighted sum over points of its gradients (tokens, dim).

        Weights are one number per point, or tensors that broadcast to (k, tokens, dim). Where an example has fewer
        weights than points, its last points are evaluated and not differentiated.
        """
        ...

    def values_at(self, units: Units, target: Target | Sequence[Target], vectors: Tensor) -> Tensor:
        """The target (or only one of a sequence) at given embeddings of one example: (k, tokens, dim) -> (k,)."""
        ...

    def soft_score(
        self, units: Sequence[Units], targets: Sequence[Target], masks: Sequence[Tensor], absent: str = "mask"
    ) -> list[Tensor]:
        """The target under soft masks of many examples, differentiable with respect to the masks.

        Each unit's embeddings are blended with those of its absence, w x + (1 - w) m, in padded batches that examples
        share. At the same weights the values are those of ``score`` with "blend". The caller decides how much is
        differentiated at once: the graph of all rows is kept.

        Args:
            units: the examples' units.
            targets: one per example.
            masks: weights in [0, 1] as live tensors, (rows, units) per example.
            absent: what stands for an absent unit, as in ``embed``.

        Returns:
            The explained numbers, (rows,) per example.
        """
        ...

    def soft_outputs(self, units: Sequence[Units], masks: Sequence[Tensor], absent: Absent = "mask") -> list[Tensor]:
        """All outputs under soft masks of many examples, differentiable as in ``soft_score``.

        Args:
            units: the examples' units.
            masks: weights in [0, 1] as live tensors, (rows, units) per example.
            absent: what stands for an absent unit: a name as in ``embed``, or vectors, which may be live as well.

        Returns:
            Log-probabilities of all labels, which exclude one another, or a regressor's numbers: (rows, outputs) per
            example.
        """
        ...

    def keep_outputs(self, units: Sequence[Units], keep: Sequence[Keep], absence: str | None = None) -> list[Floats]:
        """The same outputs under keep masks (variants x units) and any operator of ``score`` but "blend"."""
        ...


@runtime_checkable
class Attentive(Model, Protocol):
    """A model whose attention can be observed."""

    @property
    def reads(self) -> Reads:
        """Which row of the last layer the classifier reads."""
        ...

    def attention(
        self, units: Sequence[Units], rows: AttentionRows = "pooled", kind: AttentionKind = "probabilities"
    ) -> list[tuple[Prediction, Tensor]]:
        """Prediction of the observed pass and attention (layers, heads, [queries,] keys) per example."""
        ...

    def attention_times_gradient(
        self, units: Sequence[Units], targets: Sequence[Target], rows: AttentionRows = "pooled"
    ) -> list[tuple[Prediction, Tensor]]:
        """Like ``attention``, every probability times the target's gradient there; for differentiable models."""
        ...


Visit = Callable[[int, int, "Tensor", "Tensor"], None]
"""Is called with an example's number, its first point, and the states and gradients (k, tokens, dim) of k points on."""


@runtime_checkable
class Hidden(Model, Protocol):
    """A model whose hidden states can be read, and differentiated to, layer by layer."""

    def states(
        self,
        examples: Sequence[Example],
        layers: Sequence[int] = (-1,),
        reduce: Callable[[Tensor], Tensor] | None = None,
    ) -> list[Tensor]:
        """States after the chosen layers, (layers, positions, dim) per example; -1 is what the head gets.

        ``reduce`` is applied to each example's states as soon as they are computed, so that only its result is kept.
        """
        ...

    def hidden_gradients(
        self,
        units: Sequence[Units],
        targets: Sequence[Target],
        points: Sequence[Points],
        layer: int,
        visit: Visit,
    ) -> list[Floats]:
        """Target values at the points; ``visit`` sees the states after a layer, each example's points in order."""
        ...


VisitStates = Callable[[NDArray[np.int64], Sequence["Tensor"]], None]
"""Is called with the numbers of some examples and, per layer, their states (examples, positions, dim), padded."""


@runtime_checkable
class PredictsWithStates(Model, Protocol):
    """A model whose hidden states can be read from the very passes that predict."""

    def predict_with_states(
        self, examples: Sequence[Example], layers: Sequence[int], visit: VisitStates
    ) -> list[Prediction]:
        """Plain predictions; ``visit`` gets the states after the chosen layers batch by batch, -1 what the head gets.

        States stay where the model is and are not kept. A batch may be visited again when memory ran out in it.
        """
        ...


@runtime_checkable
class ScoresLabels(Model, Protocol):
    """A model that gives the numbers of all labels in one evaluation."""

    def label_scores(
        self, units: Sequence[Units], keep: Sequence[Keep], scale: Scale, absence: str | None = None
    ) -> list[Floats]:
        """As ``score``, of every label at once: (variants, labels) per example."""
        ...


@runtime_checkable
class Heads(Model, Protocol):
    """A model whose attention heads each score the units, without their attention matrices."""

    @property
    def head_grid(self) -> tuple[int, int]:
        """How many layers, and heads in each."""
        ...

    def head_scores(self, units: Sequence[Units], layers: Sequence[int] | None = None) -> list[Tensor]:
        """What each head looks at: (heads, units) per example, float32 on the CPU.

        A score is the attention logit of the unit, the mean over its positions and over queries at the positions of
        all units (those that see it, where attention is causal or local). Special tokens and padding play no part.

        Args:
            units: the examples' units.
            layers: numbers of the layers, -1 the last; all when not given. Rows are the heads of the first of them,
                then those of the next.
        """
        ...


@runtime_checkable
class Layered(Model, Protocol):
    """A post-layer-norm encoder that can be taken apart: BERT, RoBERTa, XLM-R, ELECTRA and DistilBERT classifiers."""

    def trace(self, units: Units) -> tuple[Prediction, Any]:
        """All that the layers computed for one example, a ``didact.models.layers.Trace``, and the prediction there."""
        ...


@runtime_checkable
class Generative(Model, Protocol):
    """A model that writes text."""

    def generate(self, requests: Sequence[str], length: int) -> list[str]:
        """Its answers to requests behind its prompt's instruction, each of at most so many tokens, the likeliest."""
        ...


@runtime_checkable
class Explainer(Protocol):
    """Anything that turns examples into explanations, batch first."""

    card: ClassVar[Card]

    @property
    def parameters(self) -> Mapping[str, JsonValue]:
        """All settings as plain values; together with the card's name they decide the scores."""
        ...

    def explain(
        self, model: Model, examples: Sequence[ExampleLike], targets: Sequence[TargetLike] | None = None
    ) -> list[Explanation]:
        """One explanation per example, in order."""
        ...

    def cost(self, units: Units) -> Cost:
        """Declared cost of explaining this example."""
        ...


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a metric may use: one explainer's explanations of many examples, and what made them.

    Attributes:
        explanations: one per example.
        model: the explained model.
        explainer: what made the explanations, to explain further texts.
        repeats: explanations of the same examples with other seeds, a list per seed.
        others: explanations of the same examples by other explainers, by label.
        surrogate: the model, fine-tuned on masked texts.
    """

    explanations: Sequence[Explanation]
    model: Model | None = None
    explainer: Explainer | None = None
    repeats: Sequence[Sequence[Explanation]] = ()
    others: Mapping[str, Sequence[Explanation]] = field(default_factory=dict)
    surrogate: Model | None = None


@runtime_checkable
class Metric(Protocol):
    """Judges explanations, one grade per explanation; what a grade needs is on the card."""

    card: ClassVar[MetricCard]

    @property
    def parameters(self) -> Mapping[str, JsonValue]:
        """All settings as plain values."""
        ...

    def measure(self, evidence: Evidence) -> list[Grade]:
        """One grade per explanation, in order."""
        ...
