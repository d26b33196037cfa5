"""The view of encoder layers against Transformers' own hidden states and attention maps."""

from typing import Any

import pytest
import torch
from torch import nn

from didact.attribution.decompx import DecompX
from didact.errors import CapabilityError, MismatchError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import LAYERED, Layered
from didact.testing.tiny import ARCHITECTURES, tiny_model
from didact.types import Example
from tests.reference.encoder import FAMILIES, lively, slow
from tests.reference.plain import TEXT, text_model


@pytest.mark.parametrize("architecture", FAMILIES)
def test_a_trace_reproduces_the_models_own_pass(architecture: str) -> None:
    model = lively(architecture)
    (units,) = model.units([Example(TEXT)])
    prediction, trace = model.trace(units)
    wanted = slow(model, TEXT)
    for step, layer in zip(trace.steps, wanted.layers, strict=True):
        torch.testing.assert_close(step.hidden.double(), layer.before, atol=1e-5, rtol=0)
        torch.testing.assert_close(step.attention.double(), layer.attention, atol=1e-5, rtol=0)
        torch.testing.assert_close(step.attended.double(), layer.attended(), atol=1e-5, rtol=0)
    torch.testing.assert_close(trace.hidden.double(), wanted.layers[-1].after, atol=1e-5, rtol=0)
    torch.testing.assert_close(trace.logits.double(), wanted.logits, atol=1e-5, rtol=0)
    assert prediction.outputs == pytest.approx(wanted.logits.tolist(), abs=1e-5)


@pytest.mark.parametrize("architecture", FAMILIES)
def test_parts_and_biases_add_up_to_the_attention_block(architecture: str) -> None:
    model = lively(architecture)
    (units,) = model.units([Example(TEXT)])
    _, trace = model.trace(units)
    with torch.inference_mode():
        for step in trace.steps:
            weights = step.weights(len(step.hidden))
            with_bias, without = ((weights @ step.sent(value_bias=given)).sum(0) for given in (True, False))
            torch.testing.assert_close(with_bias + step.layer.output.bias, step.attended, atol=1e-5, rtol=0)
            torch.testing.assert_close(without + step.layer.attention_bias, step.attended, atol=1e-5, rtol=0)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_only_known_families_offer_it(architecture: str) -> None:
    model = text_model(architecture)
    assert (LAYERED in model.capabilities) == (architecture in FAMILIES)
    if architecture not in FAMILIES:
        with pytest.raises(CapabilityError, match=r"decompx needs a model that is layered.*occlusion"):
            DecompX().explain(model, [TEXT])
        with pytest.raises(CapabilityError, match="not one of the encoders"):
            model.trace(model.units([Example(TEXT)])[0])


def test_the_adapter_keeps_the_protocol() -> None:
    assert isinstance(text_model("bert"), Layered)


def test_a_layer_that_is_not_plain_is_not_taken_apart() -> None:
    class Adapted(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return super().forward(input) + 1

    network: Any
    network, tokenizer = tiny_model("bert")
    network.bert.encoder.layer[1].intermediate.dense = Adapted(32, 48)
    model = load_model((network, tokenizer))
    assert LAYERED not in model.capabilities


def test_a_model_that_computes_something_else_is_noticed() -> None:
    model = lively("bert")
    network: Any = model.network.base_model
    network.pooler.register_forward_hook(lambda module, given, result: result + 1)
    with pytest.raises(MismatchError, match="decompx saw"):
        DecompX().explain(model, [TEXT])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_are_traced_in_single(dtype: torch.dtype) -> None:
    network: Any
    network, tokenizer = tiny_model("bert")
    model = load_model((network.to(dtype), tokenizer))
    assert isinstance(model, NetworkModel)
    (found,) = DecompX().explain(model, [TEXT])
    total = sum(found.scores) + found.details["special_tokens"]
    assert total == pytest.approx(found.prediction.outputs[found.target.index], abs=0.05)
    assert network.dtype == dtype
