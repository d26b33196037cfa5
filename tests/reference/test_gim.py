"""GIM against formulas worked out by hand for one attention head, and against a written-out BERT."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.attribution.gim import Gim
from didact.attribution.gradient_x_input import GradientXInput
from didact.models.compose import compose
from didact.ops.backward import Interaction, Substituted
from didact.testing.tiny import TEXTS
from tests.reference.plain import TEXT, per_unit, special, text_model
from tests.reference.written_out import Bert, softmax


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
def test_one_head_over_two_numbers_by_hand(temperature: float) -> None:
    """Output of the first query: p u + (1 - p) w, where q = k = x, v = (u, w) = 3 x, p = sigmoid(x0 x0 - x0 x1)."""
    x0, x1 = 0.7, -1.3
    p = 1 / (1 + math.exp(-(x0 * x0 - x0 * x1)))
    soft = 1 / (1 + math.exp(-(x0 * x0 - x0 * x1) / temperature))
    u, w = 3 * x0, 3 * x1
    at_logit = soft * (1 - soft) * (u - w) / 2  # for the first key's logit, minus that for the second's
    by_query = (at_logit * x0 - at_logit * x1) / 2
    expected = [3 * p / 2 + by_query + at_logit * x0 / 2, 3 * (1 - p) / 2 - at_logit * x0 / 2]
    x = torch.tensor([[[x0], [x1]]], dtype=torch.float64, requires_grad=True)
    with Substituted(Interaction(temperature)):
        out = torch.nn.functional.scaled_dot_product_attention(1.0 * x, 1.0 * x, 3.0 * x)
    (found,) = torch.autograd.grad(out[0, 0, 0], x)
    np.testing.assert_allclose(found.ravel().numpy(), expected, rtol=1e-12)


def halved(x: Tensor) -> Tensor:
    """The same value, half the gradient."""
    return x.detach() / 2 + x / 2


def tempered(temperature: float):
    """Softmax whose gradient is the Jacobian of softmax(z / temperature), not divided by the temperature."""

    def function(z: Tensor) -> Tensor:
        flatter = temperature * softmax(z / temperature)
        return softmax(z).detach() + flatter - flatter.detach()

    return function


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("text", [TEXT, TEXTS[1]])
def test_equals_a_written_out_bert(text: str, target: int, temperature: float) -> None:
    """Tolerance 1e-8, in double precision."""
    single = text_model("bert")
    model = compose(single.network.double(), single.tokenizer)
    bert = Bert(model, text, halved, Tensor.detach, tempered(temperature))
    words = bert.words().requires_grad_(True)
    logits = bert.logits(words)
    (gradient,) = torch.autograd.grad(logits[target], words)
    (found,) = Gim(temperature=temperature, baseline="zero").explain(model, [text], [target])
    assert found.prediction.outputs[target] == pytest.approx(float(logits[target].detach()), abs=1e-5)
    np.testing.assert_allclose(found.array, per_unit(found.units, (gradient * words).sum(-1).detach()), atol=1e-8)
    assert not special(model, text).all()


def test_the_baseline_is_subtracted() -> None:
    model = text_model("bert")
    (zero,), (mask,) = (Gim(baseline=name).explain(model, [TEXT]) for name in ("zero", "mask"))
    vector = model.network.get_input_embeddings().weight[model.tokenizer.mask_token_id].detach()
    bert = Bert(model, TEXT, halved, Tensor.detach, tempered(2.0))
    words = bert.words().requires_grad_(True)
    (gradient,) = torch.autograd.grad(bert.logits(words)[mask.target.index], words)
    theirs = per_unit(mask.units, (gradient @ vector).detach())
    np.testing.assert_allclose(zero.array - mask.array, theirs, atol=1e-4)


def test_it_is_not_the_plain_gradient() -> None:
    model = text_model("bert")
    (plain,), (found,) = (method.explain(model, [TEXT]) for method in (GradientXInput(), Gim(baseline="zero")))
    assert np.abs(plain.array - found.array).max() > 1e-2


def test_functions_without_a_rule_are_counted() -> None:
    model = text_model("bert")
    (plain,) = Gim().explain(model, [TEXT])
    assert "unruled_operations" not in plain.details
    norm: Any = model.network.base_model.embeddings.LayerNorm
    norm.register_forward_hook(lambda _, __, found: torch.logcumsumexp(found, -1) - torch.cummax(found, -1).values)
    (told,) = Gim().explain(model, [TEXT])
    assert told.details["unruled_operations"] == 2
