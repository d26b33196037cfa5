"""Encoder layers written out slowly: weights read by name, Transformers' own hidden states, double precision."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from didact.models.network import NetworkModel
from tests.reference.plain import eager, encoded, text_model

FAMILIES = ["bert", "roberta", "xlm-roberta", "electra", "distilbert"]

NAMES = {
    "value": ("attention.self.value", "attention.v_lin"),
    "output": ("attention.output.dense", "attention.out_lin"),
    "norm1": ("attention.output.LayerNorm", "sa_layer_norm"),
    "inner": ("intermediate.dense", "ffn.lin1"),
    "outer": ("output.dense", "ffn.lin2"),
    "norm2": ("output.LayerNorm", "output_layer_norm"),
}
HEADS = {
    "bert": ("bert.pooler.dense", "classifier"),
    "distilbert": ("pre_classifier", "classifier"),
    "electra": ("classifier.dense", "classifier.out_proj"),
}


def lively(architecture: str, **options: object) -> NetworkModel:
    """A tiny model whose biases and norm weights are random too: fresh ones are 0 and 1, which would hide mistakes."""
    model = text_model(architecture, **options)
    draw = torch.Generator().manual_seed(1)
    for parameter in model.network.parameters():
        if parameter.ndim == 1:
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=draw)
    return model


@dataclass
class SlowLayer:
    """One layer's modules, what came in (n, d), its attention (h, n, n) and what came out (n, d)."""

    parts: dict[str, Any]
    before: Tensor
    attention: Tensor
    after: Tensor

    def weight(self, name: str) -> Tensor:
        found: Tensor = self.parts[name].weight.detach()
        return found

    def bias(self, name: str) -> Tensor:
        found: Tensor = self.parts[name].bias.detach()
        return found

    def head(self, name: str, h: int) -> Tensor:
        """Rows of the value weight, or columns of the output weight, that belong to one head."""
        size = len(self.before[0]) // len(self.attention)
        return (
            self.weight(name)[h * size : (h + 1) * size]
            if name == "value"
            else self.weight(name)[:, h * size :][:, :size]
        )

    def attended(self) -> Tensor:
        """What the first norm is given."""
        values = self.parts["value"](self.before)
        size = values.shape[1] // len(self.attention)
        context = torch.cat([a @ values[:, h * size : (h + 1) * size] for h, a in enumerate(self.attention)], 1)
        output: Tensor = self.parts["output"](context).detach()
        return output + self.before

    def given(self, i: int, j: int) -> Tensor:
        """What token j gives to token i in the attention block, the value's bias included: (d,)."""
        value = self.parts["value"](self.before[j]).detach()
        size = len(value) // len(self.attention)
        total = self.before[i].clone() if i == j else torch.zeros_like(self.before[i])
        for h, a in enumerate(self.attention):
            total += a[i, j] * (self.head("output", h) @ value[h * size : (h + 1) * size])
        return total

    def normed(self, name: str, part: Tensor, whole: Tensor) -> Tensor:
        """What a norm makes of one part of a sum, without its bias."""
        deviation: Tensor = (whole.var(correction=0) + self.parts[name].eps).sqrt()
        return (part - part.mean()) / deviation * self.weight(name)


@dataclass
class SlowModel:
    """All layers, the head's two modules, its activation, and the outputs."""

    layers: list[SlowLayer]
    first: Any
    second: Any
    activation: nn.Module
    feed_forward: nn.Module
    logits: Tensor


def slow(model: NetworkModel, text: str) -> SlowModel:
    network: Any = eager(copy.deepcopy(model.network)).double()
    kind = network.config.model_type
    with torch.no_grad():
        seen = network(**encoded(model, text), output_attentions=True, output_hidden_states=True)
    stack = network.base_model.transformer.layer if kind == "distilbert" else network.base_model.encoder.layer
    layers = [
        SlowLayer(
            {name: layer.get_submodule(paths[kind == "distilbert"]) for name, paths in NAMES.items()},
            seen.hidden_states[number][0],
            seen.attentions[number][0],
            seen.hidden_states[number + 1][0],
        )
        for number, layer in enumerate(stack)
    ]
    first, second = (network.get_submodule(path) for path in HEADS.get(kind, HEADS["electra"]))
    activation = {"distilbert": nn.ReLU(), "electra": nn.GELU()}.get(kind, nn.Tanh())
    return SlowModel(layers, first, second, activation, nn.GELU(), seen.logits[0])
