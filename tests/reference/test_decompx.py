"""DecompX against its definition, part by part, and against what it must add up to."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from didact.attribution import decompx
from didact.attribution.decompx import DecompX
from didact.errors import ParameterError
from didact.models import layers
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example, Target
from tests.reference.encoder import FAMILIES, SlowLayer, SlowModel, lively, slow
from tests.reference.plain import TEXT, encoded, per_unit, value

Parts = list[Tensor]
"""Parts of one vector, one per input token."""

SHORT = "good and warm"


def absorbed(parts: Parts, bias: Tensor) -> Parts:
    """A bias spread over parts by |b . z|."""
    weights = [abs(float(bias @ part)) for part in parts]
    return [part + bias * weight / sum(weights) for part, weight in zip(parts, weights, strict=True)]


def through(function: Callable[[Tensor], Tensor], parts: Parts) -> Parts:
    """An activation as the slope of the line through the origin, dimension by dimension."""
    whole = torch.stack(parts).sum(0)
    return [part * (function(whole) / whole) for part in parts]


def slow_layer(layer: SlowLayer, feed_forward: nn.Module, vectors: list[Parts]) -> list[Parts]:
    tokens = range(len(vectors))
    attention_bias = layer.weight("output") @ layer.bias("value") + layer.bias("output")
    made = []
    for i in tokens:
        parts = [vectors[i][k].clone() for k in tokens]
        for k in tokens:
            for j in tokens:
                for h, a in enumerate(layer.attention):
                    parts[k] += a[i, j] * (layer.head("output", h) @ (layer.head("value", h) @ vectors[j][k]))
        parts = absorbed(parts, attention_bias)
        whole = torch.stack(parts).sum(0)
        parts = absorbed([layer.normed("norm1", part, whole) for part in parts], layer.bias("norm1"))
        inner = absorbed([layer.weight("inner") @ part for part in parts], layer.bias("inner"))
        outer = [layer.weight("outer") @ part for part in through(feed_forward, inner)]
        outer = absorbed(outer, layer.bias("outer"))
        parts = [part + other for part, other in zip(parts, outer, strict=True)]
        whole = torch.stack(parts).sum(0)
        made.append(absorbed([layer.normed("norm2", part, whole) for part in parts], layer.bias("norm2")))
    return made


def slow_decompx(opened: SlowModel) -> Tensor:
    """Parts of the outputs: (tokens, labels)."""
    start = opened.layers[0].before
    vectors = [[x if i == k else torch.zeros_like(x) for k in range(len(start))] for i, x in enumerate(start)]
    for layer in opened.layers:
        vectors = slow_layer(layer, opened.feed_forward, vectors)
        torch.testing.assert_close(torch.stack([torch.stack(parts).sum(0) for parts in vectors]), layer.after)
    first, second = opened.first, opened.second
    inner = absorbed([first.weight.detach() @ part for part in vectors[0]], first.bias.detach())
    outer = [second.weight.detach() @ part for part in through(opened.activation, inner)]
    return torch.stack(absorbed(outer, second.bias.detach()))


def frozen_gradient(opened: SlowModel, index: int) -> Tensor:
    """Gradient of an output times each embedding, everything but linear maps held fixed: (tokens,)."""
    start = opened.layers[0].before.clone().requires_grad_(True)
    hidden = start
    for layer in opened.layers:
        values = layer.parts["value"](hidden)
        size = values.shape[1] // len(layer.attention)
        context = torch.cat([a @ values[:, h * size : (h + 1) * size] for h, a in enumerate(layer.attention)], 1)
        block = frozen_norm(layer.parts["norm1"], layer.parts["output"](context) + hidden)
        inner = layer.parts["inner"](block)
        summed = layer.parts["outer"](inner * (opened.feed_forward(inner) / inner).detach()) + block
        hidden = frozen_norm(layer.parts["norm2"], summed)
    inner = opened.first(hidden[0])
    logits = opened.second(inner * (opened.activation(inner) / inner).detach())
    torch.testing.assert_close(logits.detach(), opened.logits)
    (gradient,) = torch.autograd.grad(logits[index], start)
    return (gradient * start).sum(-1).detach()


def frozen_norm(norm: Any, sums: Tensor) -> Tensor:
    deviation = (sums.var(-1, correction=0, keepdim=True) + norm.eps).sqrt().detach()
    normed: Tensor = (sums - sums.mean(-1, keepdim=True)) / deviation * norm.weight + norm.bias
    return normed


def logit(model: NetworkModel, text: str, index: int) -> float:
    return value(model, index, "logit", **encoded(model, text))


@pytest.mark.parametrize("architecture", FAMILIES)
def test_equals_the_slow_propagation(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = lively(architecture)
    wanted = slow_decompx(slow(model, SHORT))
    for fold in (False, True):
        monkeypatch.setattr(decompx, "_pays", lambda parts, width, inner, fold=fold: fold)
        for index in (0, 1):
            (found,) = DecompX().explain(model, [SHORT], [index])
            np.testing.assert_allclose(found.array, per_unit(found.units, wanted[:, index]), atol=1e-5)
            assert found.details["special_tokens"] == pytest.approx(float(wanted[[0, -1], index].sum()), abs=1e-5)


@pytest.mark.parametrize("architecture", FAMILIES)
def test_with_biases_apart_it_is_the_gradient_of_the_frozen_model(architecture: str) -> None:
    model = lively(architecture)
    (found,) = DecompX(biases="apart").explain(model, [TEXT], [1])
    wanted = frozen_gradient(slow(model, TEXT), 1)
    np.testing.assert_allclose(found.array, per_unit(found.units, wanted), atol=1e-5)
    assert abs(found.details["biases"]) > 0.01
    rest = logit(model, TEXT, 1) - float(wanted.sum())
    assert found.details["biases"] == pytest.approx(rest, abs=1e-5)


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("architecture", FAMILIES)
def test_parts_add_up_to_the_hidden_states_of_every_layer(
    architecture: str, fold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompx, "_pays", lambda parts, width, inner: fold)
    model = lively(architecture)
    (units,) = model.units([Example(TEXT)])
    opened = slow(model, TEXT)
    _, trace = model.trace(units)
    with torch.inference_mode():
        for number, layer in enumerate(opened.layers, 1):
            cut = dataclasses.replace(trace, steps=trace.steps[:number])
            parts = decompx._hidden(cut, len(layer.after))
            torch.testing.assert_close(parts.sum(1).double(), layer.after, atol=2e-5, rtol=0)


@pytest.mark.parametrize("biases", ["absorbed", "apart"])
@pytest.mark.parametrize("architecture", FAMILIES)
def test_scores_and_the_rest_add_up_to_the_logit(architecture: str, biases: Literal["absorbed", "apart"]) -> None:
    model = lively(architecture)
    for text in TEXTS:
        for index in (0, 1):
            (found,) = DecompX(biases=biases).explain(model, [text], [index])
            total = sum(found.scores) + found.details["special_tokens"] + found.details["biases"]
            plain = logit(model, text, index)
            assert abs(total - plain) <= 1e-5 * (1 + abs(plain))
            assert abs(found.details["conservation_error"]) <= 1e-5 * (1 + abs(plain))
            if biases == "absorbed":
                assert found.details["biases"] == 0


def test_a_model_with_linear_activations_is_taken_apart_exactly() -> None:
    model = lively("bert")
    network: Any = model.network.base_model
    for layer in network.encoder.layer:
        layer.intermediate.intermediate_act_fn = nn.Identity()
    network.pooler.activation = nn.Identity()
    opened = slow(model, SHORT)
    opened.feed_forward = opened.activation = nn.Identity()
    (found,) = DecompX(biases="apart").explain(model, [SHORT], [0])
    np.testing.assert_allclose(found.array, per_unit(found.units, frozen_gradient(opened, 0)), atol=1e-5)
    (found,) = DecompX().explain(model, [SHORT], [0])
    np.testing.assert_allclose(found.array, per_unit(found.units, slow_decompx(opened)[:, 0]), atol=1e-5)


def test_an_activation_that_is_not_0_at_0_shows_in_the_conservation_error() -> None:
    model = lively("bert")
    network: Any = model.network.base_model
    for layer in network.encoder.layer:
        layer.intermediate.intermediate_act_fn = nn.Softplus()
        layer.intermediate.dense.weight.data.zero_()
        layer.intermediate.dense.bias.data.zero_()
    (found,) = DecompX().explain(model, [TEXT])
    assert abs(found.details["conservation_error"]) > 1e-3


@pytest.mark.parametrize("fold", [False, True])
def test_work_in_small_pieces_gives_the_same(fold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompx, "_pays", lambda parts, width, inner: fold)
    model = lively("bert")
    (whole,) = DecompX().explain(model, [TEXTS[3]])
    cut = layers.chunks
    monkeypatch.setattr(decompx, "chunks", lambda rows, size, budget: cut(rows, size, 3 * size))
    (pieces,) = DecompX().explain(model, [TEXTS[3]])
    np.testing.assert_allclose(pieces.array, whole.array, atol=1e-5)


def test_a_long_text_takes_the_matrices_and_a_short_one_does_not() -> None:
    # One row of a layer of 32 x 48: 4 x 32 x 48 multiplications for each part, or 2 x 32 x 48 x 32 for the matrix and
    # 2 x 32 x 32 for each part; they are equal at 24 parts.
    assert not decompx._pays(24, 32, 48)
    assert decompx._pays(25, 32, 48)
    model = lively("bert")
    (found,) = DecompX().explain(model, [" ".join(TEXTS)], [1])
    total = sum(found.scores) + found.details["special_tokens"]
    assert total == pytest.approx(logit(model, " ".join(TEXTS), 1), abs=1e-4)


def test_a_regression_is_taken_apart_too() -> None:
    model = load_model(tiny_model("distilbert", ["score"]))
    (found,) = DecompX().explain(model, [TEXT])
    total = sum(found.scores) + found.details["special_tokens"]
    assert total == pytest.approx(found.prediction.outputs[0], abs=1e-5)


def test_other_scales_are_refused() -> None:
    for scale in ("probability", "log_probability"):
        with pytest.raises(ParameterError, match=r"must be 'logit'.*shares of the logit"):
            DecompX(scale=scale)
    model = lively("bert")
    (found,) = DecompX().explain(model, [TEXT], [Target(0, "negative", "probability")])
    assert found.target.scale == "logit"
