"""DecompX: each token's part of every vector, carried through the whole model to the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from didact.attribution.base import Attribution, Outcome, register
from didact.errors import ParameterError
from didact.models.layers import Activation, Norm, Step, Trace, chunks
from didact.ops.units import sum_to_units
from didact.protocols import LAYERED, Layered
from didact.types import Card, Cost, Prediction, Target, Units


@register(
    Card(
        name="decompx",
        family="decomposition",
        summary="Token parts of all vectors propagated through encoder and head to signed shares of the logit.",
        reference="Modarressi et al. 2023",
        cost="2 forwards, and per layer as much arithmetic as one forward for each token",
        needs=frozenset({LAYERED}),
    )
)
@dataclass(frozen=True, kw_only=True)
class DecompX(Attribution):
    """Splits every hidden vector into one part per input token and never merges the parts again.

    Attention probabilities and the layer norms' deviations are held at what they are, and an activation f acts on the
    parts of x as the slope f(x)/x of the line through the origin (feed-forward block, and the tanh, ReLU or GELU of
    the head), so parts that add up to x become parts that add up to f(x). Nothing is lost on the way: the parts of the
    logit, those of special tokens included, add up to the logit. ``globenc`` and ``alti`` reduce vectors to numbers in
    every layer, know no target and have no sign.

    ``details`` has the share of the special tokens, that of the biases (0 if absorbed), and ``conservation_error``, how
    far scores and these two together miss the logit: rounding only, unless an activation is not 0 at 0.

    For BERT, RoBERTa, XLM-R, ELECTRA and DistilBERT classifiers. Scores are shares of the logit (of a regression's
    output) and of nothing else, so no other scale is taken. Memory grows with tokens² × dimensions: two such
    arrays in float32, 1.6 GB for 512 tokens of a base model.

    Args:
        biases: "absorbed" spreads each bias b over the parts z_j in proportion to |b · z_j|, as the paper does, in
            every layer alike; "apart" gives all biases one part of their own.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="decompx")  # doctest: +SKIP
    """

    biases: Literal["absorbed", "apart"] = "absorbed"

    def __post_init__(self) -> None:
        if self.scale not in (None, "logit"):
            raise ParameterError(
                f"scale of {self.card.name} must be 'logit', got {self.scale!r}: its scores are shares of the logit"
            )

    def attribute(self, model: Layered, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Take one observed pass per example apart."""
        with torch.inference_mode():
            return [
                self._outcome(*model.trace(unit), unit, target) for unit, target in zip(units, targets, strict=True)
            ]

    def cost(self, units: Units) -> Cost:
        """The plain prediction and one observed pass."""
        return Cost(forwards=2)

    def _outcome(self, prediction: Prediction, trace: Trace, unit: Units, target: Target) -> Outcome:
        parts = self._logits(trace)[:, target.index].double()
        logit, tokens = prediction.value(target), len(trace.hidden)
        scores = sum_to_units(unit, parts)
        details = {
            "special_tokens": float(parts[:tokens].sum()) - float(scores.sum()),
            "biases": float(parts[tokens:].sum()),
            "conservation_error": float(parts.sum()) - logit,
        }
        return Outcome(scores, logit, details)

    def _logits(self, trace: Trace) -> Tensor:
        """Parts of the outputs: (parts, labels)."""
        head = trace.head
        inner = self._biased(head.inner.linear(self._hidden(trace, 1)[0]), head.inner.bias)
        return self._biased(head.outer.linear(inner * _slope(head.activation, trace.inner)), head.outer.bias)

    def _hidden(self, trace: Trace, rows: int) -> Tensor:
        """Parts of the first rows of the encoder's output: (rows, parts, dim)."""
        vectors = trace.hidden
        for number, step in enumerate(trace.steps, 1):
            wanted = rows if number == len(trace.steps) else len(step.hidden)
            vectors = self._first_attended(step, wanted) if number == 1 else _attended(step, vectors, wanted)
            for some in chunks(wanted, vectors.shape[1] * step.inner.shape[1]):
                vectors[some] = self._after_attention(step, vectors[some], some)
        return vectors

    def _first_attended(self, step: Step, rows: int) -> Tensor:
        """Attention and residual where each token is still its own only part."""
        tokens, width = step.hidden.shape
        found = step.hidden.new_zeros(rows, tokens + (self.biases == "apart"), width)
        sent, weights = step.sent(value_bias=False), step.weights(rows)
        for some in chunks(tokens, rows * width):
            found[:, some] = (weights[some] @ sent[some]).transpose(0, 1)
        return found

    def _after_attention(self, step: Step, parts: Tensor, some: slice) -> Tensor:
        layer = step.layer
        parts = self._biased(parts, layer.attention_bias)
        parts = self._normed(layer.first_norm, parts, step.attended[some])
        inner = self._biased(layer.inner.linear(parts), layer.inner.bias)
        inner *= _slope(layer.activation, step.inner[some])[:, None]
        parts += self._biased(layer.outer.linear(inner), layer.outer.bias)
        return self._normed(layer.second_norm, parts, step.summed[some])

    def _normed(self, norm: Norm, parts: Tensor, sums: Tensor) -> Tensor:
        return self._biased(norm.linear(parts).div_(norm.deviation(sums)[..., None]), norm.bias)

    def _biased(self, parts: Tensor, bias: Tensor) -> Tensor:
        """Add a bias to a sum given by its parts, in place: (..., parts, dim)."""
        if self.biases == "apart":
            parts[..., -1, :] += bias
            return parts
        weight = (parts @ bias).abs()
        total = weight.sum(-1, keepdim=True)
        weight = torch.where(total > 0, weight / total, 1 / weight.shape[-1])
        return parts.addcmul_(weight[..., None], bias)


def _attended(step: Step, vectors: Tensor, rows: int) -> Tensor:
    """Attention and residual, biases left out: (tokens, parts, dim) -> (rows, parts, dim), head by head."""
    layer = step.layer
    found = vectors[:rows].clone()
    flat = found.view(-1, found.shape[-1])
    for value, output, attention in zip(
        layer.value.weight.chunk(layer.heads), layer.output.weight.chunk(layer.heads, 1), step.attention, strict=True
    ):
        values = vectors @ value.T  # (tokens, parts, head dim)
        mixed = attention[:rows] @ values.flatten(1)
        flat.addmm_(mixed.view(len(flat), -1), output.T)
    return found


def _slope(activation: Activation, at: Tensor) -> Tensor:
    """f(x)/x; at 0 its limit from above."""
    at = torch.where(at == 0, 1e-6, at)
    return activation(at) / at
