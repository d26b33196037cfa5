"""DecompX: each token's part of every vector, carried through the whole model to the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from didact.attribution.base import Attribution, Outcome, register
from didact.errors import ParameterError
from didact.models.estimate import TOUCHED, NetworkSize, Own
from didact.models.layers import Activation, Norm, Step, Trace, chunks
from didact.ops.units import sum_to_units
from didact.protocols import LAYERED, Layered
from didact.types import Card, Cost, Prediction, Target, Units

WORKED = 1 << 21
"""Numbers worked on at a time; larger pieces leave the processor's cache."""


@register(
    Card(
        name="decompx",
        family="decomposition",
        summary="Token parts of all vectors propagated through encoder and head to signed shares of the logit.",
        reference="Modarressi et al. 2023",
        cost="2 forwards, and the arithmetic of about one more for each token",
        needs=frozenset({LAYERED}),
        default=True,
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
    output) and of nothing else, so no other scale is taken. With biases absorbed time grows with tokens² and memory
    with tokens² × dimensions: two such arrays in float32, 1.6 GB for 512 tokens of a base model.

    Args:
        biases: "absorbed" spreads each bias b over the parts z_j in proportion to |b · z_j|, as the paper does, in
            every layer alike; "apart" gives all biases one part of their own, which takes no more than a gradient.

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

    def own(self, shape: NetworkSize) -> Own:
        """The parts of all tokens through all layers but the last, of which one row is needed."""
        n, d, m = shape.tokens, shape.width, shape.inner
        if self.biases == "apart":
            return Own(shape.multiplications, shape.traced)
        behind = n * d * d * m + n * n * d * d if _pays(n, d, m) else 2 * n * n * d * m
        layer = behind + 2 * n * n * d * d + n**3 * d + n * n * d * TOUCHED
        return Own((shape.layers - 1) * layer, shape.traced + 4 * n * n * d * (2 + 2 / shape.heads))

    def _outcome(self, prediction: Prediction, trace: Trace, unit: Units, target: Target) -> Outcome:
        parts, biases = self._parts(trace, target.index)
        if target.contrast is not None:
            others, other_biases = self._parts(trace, target.contrast)
            parts, biases = parts - others, biases - other_biases
        logit, scores = prediction.value(target), sum_to_units(unit, parts)
        details = {
            "special_tokens": float(parts.sum()) - float(scores.sum()),
            "biases": biases,
            "conservation_error": float(parts.sum()) + biases - logit,
        }
        return Outcome(scores, logit, details)

    def _parts(self, trace: Trace, index: int) -> tuple[Tensor, float]:
        """Parts of one output, (tokens,), and the part of all biases that is kept apart."""
        return _apart(trace, index) if self.biases == "apart" else (_absorbed(trace)[:, index].double(), 0.0)


def _apart(trace: Trace, index: int) -> tuple[Tensor, float]:
    """Parts of one output, (tokens,), and the part of all biases.

    With so much held at what it is, the output is linear in the embeddings and in the biases: one gradient, taken from
    the output back to each of them, times what is there gives every part.
    """
    head = trace.head
    back = head.outer.weight[index] * _slope(head.activation, trace.inner)
    biases = head.outer.bias[index] + back @ head.inner.bias
    gradient = torch.zeros_like(trace.hidden)
    gradient[0] = back @ head.inner.weight
    for step in reversed(trace.steps):
        layer = step.layer
        biases = biases + gradient.sum(0) @ layer.second_norm.bias
        gradient = layer.second_norm.back(gradient) / layer.second_norm.deviation(step.summed)
        inner = (gradient @ layer.outer.weight) * _slope(layer.activation, step.inner)
        biases = biases + gradient.sum(0) @ layer.outer.bias + inner.sum(0) @ layer.inner.bias
        gradient = gradient + inner @ layer.inner.weight
        biases = biases + gradient.sum(0) @ layer.first_norm.bias
        gradient = layer.first_norm.back(gradient) / layer.first_norm.deviation(step.attended)
        biases = biases + gradient.sum(0) @ layer.attention_bias
        context = layer.by_head(gradient @ layer.output.weight)  # (tokens, heads, head dim)
        values = torch.einsum("hij,ihv->jhv", step.attention, context).flatten(1)
        gradient = gradient + values @ layer.value.weight
    return (gradient * trace.steps[0].hidden).double().sum(-1), float(biases)


def _absorbed(trace: Trace) -> Tensor:
    """Parts of the outputs: (parts, labels)."""
    head = trace.head
    inner = _biased(head.inner.linear(_hidden(trace, 1)[0]), head.inner.bias)
    return _biased(head.outer.linear(inner * _slope(head.activation, trace.inner)), head.outer.bias)


def _hidden(trace: Trace, rows: int) -> Tensor:
    """Parts of the first rows of the encoder's output: (rows, parts, dim)."""
    vectors = trace.hidden
    for number, step in enumerate(trace.steps, 1):
        wanted = rows if number == len(trace.steps) else len(step.hidden)
        vectors = _first_attended(step, wanted) if number == 1 else _attended(step, vectors, wanted)
        inner, width = step.layer.inner.weight.shape
        fold = _pays(vectors.shape[1], width, inner)
        for some in chunks(wanted, inner * (width if fold else vectors.shape[1]), WORKED):
            vectors[some] = (_folded if fold else _direct)(step, vectors[some], some)
    return vectors


def _first_attended(step: Step, rows: int) -> Tensor:
    """Attention and residual where each token is still its own only part."""
    tokens, width = step.hidden.shape
    parts = step.hidden.new_zeros(rows, tokens, width)
    sent, weights = step.sent(value_bias=False), step.weights(rows)
    for some in chunks(tokens, rows * width, WORKED):
        parts[:, some] = (weights[some] @ sent[some]).transpose(0, 1)
    return parts


def _attended(step: Step, vectors: Tensor, rows: int) -> Tensor:
    """Attention and residual, biases left out: (tokens, parts, dim) -> (rows, parts, dim), head by head."""
    layer = step.layer
    parts = vectors[:rows].clone()
    flat = parts.view(-1, parts.shape[-1])
    for value, output, attention in zip(
        layer.value.weight.chunk(layer.heads), layer.output.weight.chunk(layer.heads, 1), step.attention, strict=True
    ):
        values = vectors @ value.T  # (tokens, parts, head dim)
        mixed = attention[:rows] @ values.flatten(1)
        flat.addmm_(mixed.view(len(flat), -1), output.T)
    return parts


def _direct(step: Step, parts: Tensor, some: slice) -> Tensor:
    """The rest of the layer for some rows, map by map: (rows, parts, dim)."""
    layer = step.layer
    parts = _biased(parts, layer.attention_bias)
    parts = _normed(layer.first_norm, parts, step.attended[some])
    inner = _biased(layer.inner.linear(parts), layer.inner.bias)
    inner *= _slope(layer.activation, step.inner[some])[:, None]
    parts += _biased(layer.outer.linear(inner), layer.outer.bias)
    return _normed(layer.second_norm, parts, step.summed[some])


def _pays(parts: int, width: int, inner: int) -> bool:
    """Whether it takes less arithmetic to make one matrix for a row and apply it, than to apply the layer's own two."""
    return inner * width + parts * width < 2 * parts * inner


def _folded(step: Step, parts: Tensor, some: slice) -> Tensor:
    """The same with one matrix for each row, and no array that is wider than the parts: (rows, parts, dim).

    Without biases the rest of the layer is one matrix for all parts of a row. A part takes a share of each of the five
    biases on the way. The share goes by the product of the part and the bias where they meet, which is linear in the
    part as it came and in the shares it took before.
    """
    columns, biases = _matrix(step, some)
    width = parts.shape[-1]
    mapped = parts @ columns  # (rows, parts, dim + 5): where parts end, and their products with the biases they meet
    shares = parts.new_zeros(*parts.shape[:-1], biases.shape[1])
    for number in range(biases.shape[1]):
        earlier = shares @ biases[..., width + number, None]  # shares not taken yet are 0
        shares[..., number] = _shares(mapped[..., width + number] + earlier[..., 0])
    return mapped[..., :width].baddbmm(shares, biases[..., :width])


def _matrix(step: Step, some: slice) -> tuple[Tensor, Tensor]:
    """What the rest of the layer does to a part, (rows, dim, dim + 5), and to its own biases, (rows, 5, dim + 5).

    The first columns give where a vector ends; each of the others its product with a bias at the place of that bias:
    attention, first norm, inner, outer, second norm.
    """
    layer, first, second = step.layer, step.layer.first_norm, step.layer.second_norm
    deviation, second_deviation = first.deviation(step.attended[some]), second.deviation(step.summed[some])
    slope = _slope(layer.activation, step.inner[some])  # (rows, inner)
    rows = len(slope)

    # seen from behind the first norm
    ways = (layer.inner.weight * slope[..., None]).mT @ layer.outer.weight.T  # the feed-forward block
    met = [first.bias.expand(rows, -1), (layer.inner.bias @ layer.inner.weight).expand(rows, -1)]
    met.append(ways @ layer.outer.bias)
    ways.diagonal(dim1=-2, dim2=-1).add_(1)  # the residual
    ways = second.linear(ways) / second_deviation[..., None]
    met.append(ways @ second.bias)
    columns = torch.cat([ways, torch.stack(met, -1)], -1)
    from_first = first.bias @ columns  # (rows, dim + 4)

    # seen from the attention block's output
    columns = first.back(columns.mT).mT / deviation[..., None]
    columns = torch.cat([columns[..., :-4], layer.attention_bias.expand(rows, -1)[..., None], columns[..., -4:]], -1)

    width = columns.shape[1]
    biases = columns.new_zeros(rows, 5, width + 5)
    biases[:, 0] = layer.attention_bias @ columns
    biases[:, 1, :width], biases[:, 1, width + 1 :] = from_first[:, :width], from_first[:, width:]
    entered = torch.stack([(slope * layer.inner.bias) @ layer.outer.weight.T, layer.outer.bias.expand(rows, -1)], 1)
    biases[:, 2:4, :width] = second.linear(entered) / second_deviation[..., None]
    biases[:, 2, width + 3] = entered[:, 0] @ layer.outer.bias
    biases[:, 2:4, width + 4] = biases[:, 2:4, :width] @ second.bias
    biases[:, 4, :width] = second.bias
    return columns, biases


def _normed(norm: Norm, parts: Tensor, sums: Tensor) -> Tensor:
    return _biased(norm.linear(parts).div_(norm.deviation(sums)[..., None]), norm.bias)


def _biased(parts: Tensor, bias: Tensor) -> Tensor:
    """Add a bias to a sum given by its parts, in place: (..., parts, dim)."""
    return parts.addcmul_(_shares(parts @ bias)[..., None], bias)


def _shares(products: Tensor) -> Tensor:
    """Shares of parts in a bias by the size of their products with it: (..., parts)."""
    size = products.abs()
    total = size.sum(-1, keepdim=True)
    return torch.where(total > 0, size / total, 1 / size.shape[-1])


def _slope(activation: Activation, at: Tensor) -> Tensor:
    """f(x)/x; at 0 its limit from above."""
    at = torch.where(at == 0, 1e-6, at)
    return activation(at) / at
