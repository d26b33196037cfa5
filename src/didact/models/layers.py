"""The insides of post-layer-norm encoders in one form: BERT, RoBERTa, XLM-R, ELECTRA and DistilBERT classifiers.

``trace`` recomputes one observed pass from the embeddings and the weights, keeping every intermediate sum. Of the
model it calls nothing but the embeddings: ``output_hidden_states`` would leave Transformers' hooks on the user's model.

Shapes: n tokens, h heads, d dimensions, m inner dimensions of the feed-forward block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Activation = Callable[[Tensor], Tensor]

Parts = Any
"""A module whose parts are reached by the names that its architecture gives them."""


@dataclass(frozen=True, eq=False)
class Affine:
    """x -> W x + b."""

    weight: Tensor  # (out, in)
    bias: Tensor  # (out,)

    def __call__(self, vectors: Tensor) -> Tensor:
        """The whole map."""
        return functional.linear(vectors, self.weight, self.bias)

    def linear(self, vectors: Tensor) -> Tensor:
        """The map without its bias."""
        return functional.linear(vectors, self.weight)


@dataclass(frozen=True, eq=False)
class Norm:
    """Layer normalisation."""

    weight: Tensor  # (d,)
    bias: Tensor  # (d,)
    eps: float

    def __call__(self, sums: Tensor) -> Tensor:
        """The whole map."""
        return functional.layer_norm(sums, self.weight.shape, self.weight, self.bias, self.eps)

    def linear(self, parts: Tensor) -> Tensor:
        """Its linear part, which still has to be divided by the deviation of the whole sum."""
        return (parts - parts.mean(-1, keepdim=True)) * self.weight

    def back(self, gradients: Tensor) -> Tensor:
        """The transpose of the linear part: from gradients behind it to those before it."""
        weighted = gradients * self.weight
        return weighted - weighted.mean(-1, keepdim=True)

    def deviation(self, sums: Tensor) -> Tensor:
        """What the linear part is divided by: (..., d) -> (..., 1)."""
        return (sums.var(-1, correction=0, keepdim=True) + self.eps).sqrt()


@dataclass(frozen=True, eq=False)
class LayerModules:
    """The modules of one encoder layer by what they do, whatever its architecture calls them.

    Attributes:
        attention: the module that holds the attention's settings.
        heads: how many.
    """

    attention: Parts
    heads: int
    query: Parts
    key: Parts
    value: Parts
    output: Parts
    first_norm: Parts
    inner: Parts
    activation: Activation
    outer: Parts
    second_norm: Parts

    @classmethod
    def of(cls, layer: Parts) -> LayerModules:
        """Those of a layer built like BERT's or DistilBERT's.

        Raises:
            AttributeError: it is built otherwise.
        """
        attention = layer.attention
        if not hasattr(attention, "self"):
            return cls(
                attention=attention,
                heads=attention.n_heads,
                query=attention.q_lin,
                key=attention.k_lin,
                value=attention.v_lin,
                output=attention.out_lin,
                first_norm=layer.sa_layer_norm,
                inner=layer.ffn.lin1,
                activation=layer.ffn.activation,
                outer=layer.ffn.lin2,
                second_norm=layer.output_layer_norm,
            )
        return cls(
            attention=attention.self,
            heads=attention.self.num_attention_heads,
            query=attention.self.query,
            key=attention.self.key,
            value=attention.self.value,
            output=attention.output.dense,
            first_norm=attention.output.LayerNorm,
            inner=layer.intermediate.dense,
            activation=layer.intermediate.intermediate_act_fn,
            outer=layer.output.dense,
            second_norm=layer.output.LayerNorm,
        )


@dataclass(frozen=True, eq=False)
class Layer:
    """Weights of one encoder layer: attention, norm, feed-forward block, norm."""

    heads: int
    query: Affine
    key: Affine
    value: Affine
    output: Affine
    first_norm: Norm
    inner: Affine
    activation: Activation
    outer: Affine
    second_norm: Norm

    def by_head(self, vectors: Tensor) -> Tensor:
        """Cut the last dimension into those of the heads: (..., d) -> (..., h, v)."""
        return vectors.reshape(*vectors.shape[:-1], self.heads, -1)

    @property
    def attention_bias(self) -> Tensor:
        """What the biases of value and output add to every attention output; probabilities sum to 1: (d,)."""
        return self.output(self.value.bias)


@dataclass(frozen=True, eq=False)
class ClassifierHead:
    """The classification head: it reads the first position."""

    inner: Affine
    activation: Activation
    outer: Affine


@dataclass(frozen=True, eq=False)
class Step:
    """What one layer computed for one example.

    Attributes:
        layer: its weights.
        hidden: what came in, (n, d).
        attention: probabilities, (h, n, n).
        attended: attention output plus residual, before the first norm, (n, d).
        block: the same after the norm, (n, d).
        inner: the feed-forward block before its activation, (n, m).
        summed: feed-forward output plus residual, before the second norm, (n, d).
    """

    layer: Layer
    hidden: Tensor
    attention: Tensor
    attended: Tensor
    block: Tensor
    inner: Tensor
    summed: Tensor

    def sent(self, *, value_bias: bool = True) -> Tensor:
        """What each token sends into the attention block, head by head and last by the residual: (n, h + 1, d).

        Row i of ``attended`` is the sum over tokens k of ``weights[k, i] @ sent[k]``, and of biases. With
        ``value_bias`` the value's bias travels along, as in Kobayashi et al.'s f(x); the output's bias never does.
        """
        values = self.layer.value(self.hidden) if value_bias else self.layer.value.linear(self.hidden)
        weight = self.layer.by_head(self.layer.output.weight)  # (d, h, v)
        heads = torch.einsum("nhv,dhv->nhd", self.layer.by_head(values), weight)
        return torch.cat([heads, self.hidden[:, None]], 1)

    def weights(self, rows: int) -> Tensor:
        """How much of what each token sends reaches the first rows: (n, rows, h + 1)."""
        own = torch.eye(rows, len(self.hidden), device=self.hidden.device)
        return torch.cat([self.attention[:, :rows], own[None]]).permute(2, 1, 0)


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything the encoder and the head computed for one example.

    Attributes:
        steps: one per layer, first to last.
        hidden: the encoder's output, (n, d).
        head: the head's weights.
        inner: the head before its activation, (d,).
        logits: the outputs as recomputed here, (labels,).
    """

    steps: tuple[Step, ...]
    hidden: Tensor
    head: ClassifierHead
    inner: Tensor
    logits: Tensor


def is_layered(model: PreTrainedModel) -> bool:
    """Whether ``trace`` can take the model apart: a known classifier made of plain linear and norm modules."""
    extract = _EXTRACTORS.get(type(model).__name__)
    if extract is None:
        return False
    try:
        extract(model)
    except (AttributeError, TypeError):
        return False
    return True


def trace(model: PreTrainedModel, inputs: dict[str, Tensor], attention: Sequence[Tensor]) -> Trace:
    """Recompute the pass over one unpadded example whose attention was observed, layer by layer, in float32."""
    layers, head = _EXTRACTORS[type(model).__name__](model)
    embedding = {name: value for name, value in inputs.items() if name != "attention_mask"}
    base: Parts = model.base_model
    hidden = base.embeddings(**embedding)
    project = getattr(base, "embeddings_project", None)
    hidden = (hidden if project is None else project(hidden))[0].float()
    steps = []
    for layer, probabilities in zip(layers, attention, strict=True):
        step = _step(layer, hidden, probabilities)
        hidden = layer.second_norm(step.summed)
        steps.append(step)
    inner = head.inner(hidden[0])
    return Trace(tuple(steps), hidden, head, inner, head.outer(head.activation(inner)))


def chunks(rows: int, size: int, budget: int = 1 << 24) -> Iterator[slice]:
    """Cut rows of this many floats each into slices of at most ``budget`` floats."""
    step = max(1, budget // size)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _step(layer: Layer, hidden: Tensor, attention: Tensor) -> Step:
    values = layer.by_head(layer.value(hidden)).transpose(0, 1)  # (h, n, v)
    context = (attention @ values).transpose(0, 1).flatten(1)
    attended = layer.output(context) + hidden
    block = layer.first_norm(attended)
    inner = layer.inner(block)
    return Step(layer, hidden, attention, attended, block, inner, layer.outer(layer.activation(inner)) + block)


def _bert(model: Parts) -> tuple[list[Layer], ClassifierHead]:
    base = model.base_model
    return _bert_layers(base), ClassifierHead(
        _affine(base.pooler.dense), base.pooler.activation, _affine(model.classifier)
    )


def _roberta(model: Parts) -> tuple[list[Layer], ClassifierHead]:
    head = model.classifier
    return _bert_layers(model.base_model), ClassifierHead(_affine(head.dense), torch.tanh, _affine(head.out_proj))


def _electra(model: Parts) -> tuple[list[Layer], ClassifierHead]:
    head = model.classifier
    return _bert_layers(model.base_model), ClassifierHead(_affine(head.dense), head.activation, _affine(head.out_proj))


def _distilbert(model: Parts) -> tuple[list[Layer], ClassifierHead]:
    layers = [_weights(layer) for layer in model.base_model.transformer.layer]
    return layers, ClassifierHead(_affine(model.pre_classifier), torch.relu, _affine(model.classifier))


def _bert_layers(base: Parts) -> list[Layer]:
    return [_weights(layer) for layer in base.encoder.layer]


def _weights(layer: Parts) -> Layer:
    own = LayerModules.of(layer)
    return Layer(
        heads=own.heads,
        query=_affine(own.query),
        key=_affine(own.key),
        value=_affine(own.value),
        output=_affine(own.output),
        first_norm=_norm(own.first_norm),
        inner=_affine(own.inner),
        activation=own.activation,
        outer=_affine(own.outer),
        second_norm=_norm(own.second_norm),
    )


def _affine(module: Parts) -> Affine:
    if type(module) is not nn.Linear:  # an adapter or a quantised layer does not compute what its weight alone would
        raise TypeError(f"not a plain linear layer: {type(module).__name__}")
    weight = module.weight.detach().float()
    bias = getattr(module, "bias", None)
    return Affine(weight, weight.new_zeros(len(weight)) if bias is None else bias.detach().float())


def _norm(module: Parts) -> Norm:
    if type(module) is not nn.LayerNorm:
        raise TypeError(f"not a plain layer norm: {type(module).__name__}")
    return Norm(module.weight.detach().float(), module.bias.detach().float(), module.eps)


_EXTRACTORS: dict[str, Callable[[Parts], tuple[list[Layer], ClassifierHead]]] = {
    "BertForSequenceClassification": _bert,
    "NativeBertForSequenceClassification": _bert,
    "RobertaForSequenceClassification": _roberta,
    "XLMRobertaForSequenceClassification": _roberta,
    "ElectraForSequenceClassification": _electra,
    "DistilBertForSequenceClassification": _distilbert,
}
