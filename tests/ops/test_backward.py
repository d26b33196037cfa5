"""Substituted backward rules: values stay, gradients follow the rules, whatever way a model writes its arithmetic."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from didact.ops.backward import Interaction, Relevance, Rescale, Rules, Substituted
from didact.testing.tiny import TEXTS
from didact.types import Example, Target
from tests.reference.plain import text_model

ENCODERS = ["bert", "distilbert", "roberta", "electra", "albert", "xlm-roberta"]
OTHERS = ["modernbert", "deberta-v2", "gpt2", "llama"]
SETS = [Rules(), Rescale(1), Relevance(), Interaction()]


def rows(*shape: int, seed: int = 0) -> Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn.requires_grad_(True)


def gradient(value: Tensor, at: Tensor) -> Tensor:
    return torch.autograd.grad(value, at, retain_graph=True)[0]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("architecture", ENCODERS + OTHERS)
def test_forward_values_are_unchanged_and_every_operation_has_a_rule(architecture: str, attention: str) -> None:
    model = text_model(architecture)
    if architecture != "deberta-v2":  # has only its own attention
        model.network.set_attn_implementation(attention)
    (unit,) = model.units([Example(TEXTS[0])])
    vectors = torch.stack([model.embed([unit])[0], model.embed([unit], absent="pad")[0]]).requires_grad_(True)
    target = Target(0, model.labels[0])
    plain = model.values_at(unit, target, vectors)
    for rules in SETS:
        with Substituted(rules) as mode:
            found = model.values_at(unit, target, vectors)
        assert torch.equal(found, plain)
        assert not mode.unruled
    with Substituted(Rules()):
        found = model.values_at(unit, target, vectors)
    torch.testing.assert_close(gradient(found.sum(), vectors), gradient(plain.sum(), vectors), rtol=1e-4, atol=1e-5)


def written_out_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


WAYS = {
    "gelu": lambda x: functional.gelu(x, approximate="tanh"),
    "gelu in arithmetic": written_out_gelu,
    "quick gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "mish": lambda x: functional.mish(x),
    "square": lambda x: x * x,
    "leaky": lambda x: functional.leaky_relu(x, 0.1),
    "scaled": lambda x: (1 - x.tanh()) / 3 * x,
}


@pytest.mark.parametrize("function", WAYS.values(), ids=WAYS.keys())
def test_activations_are_one_function_however_they_are_written(function) -> None:
    x = rows(2, 5)
    with Substituted(Rescale(1)):
        down = gradient(function(x)[1].sum(), x)
    with torch.no_grad():
        secant = (function(x[0]) - function(x[1])) / (x[0] - x[1])
        ratio = function(x) / x
    torch.testing.assert_close(down[1], secant, rtol=1e-9, atol=1e-9)
    assert not down[0].any()
    with Substituted(Relevance()):
        down = gradient(function(x).sum(), x)
    torch.testing.assert_close(down, ratio, rtol=1e-9, atol=1e-9)


DIFFERENCES = {
    "softmax": lambda x: x.softmax(-1),
    "softmax of the middle": lambda x: functional.softmax(x, dim=1),
    "log softmax": lambda x: torch.log_softmax(x, -1),
    "layer norm": lambda x: functional.layer_norm(x, (6,), torch.linspace(1, 2, 6).double(), torch.ones(6).double()),
    "rms norm": lambda x: functional.rms_norm(x, (6,), torch.linspace(1, 2, 6).double()),
    "rms norm in arithmetic": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "quotient": lambda x: x[:, :2] / (x[:, 2:] ** 2 + 1),
    "matmul": lambda x: x @ x.tanh().mT,
    "einsum": lambda x: torch.einsum("bij,bkj->bik", x, x.exp()),
    "attention": lambda x: functional.scaled_dot_product_attention(x, x.tanh(), x.exp()),
    "causal attention": lambda x: functional.scaled_dot_product_attention(x, x.tanh(), x.exp(), is_causal=True),
    "in place": lambda x: (x.tanh().mul_(2).add_(1)) * x,
}


@pytest.mark.parametrize("references", [1, 3])
@pytest.mark.parametrize("function", DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_multipliers_add_up_to_the_difference(function, references: int) -> None:
    x = rows(1 + references, 4, 6)
    with torch.no_grad():
        x[1, 2] = x[0, 2]  # some inputs are the same
    with Substituted(Rescale(references)) as mode:
        y = function(x)
    weights = torch.randn(y[0].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    down = gradient((y[1:] * weights).sum(), x)
    for row in range(1, 1 + references):
        whole = ((y[0] - y[row]) * weights).sum()
        torch.testing.assert_close((down[row] * (x[0] - x[row])).sum(), whole, rtol=1e-8, atol=1e-8)
    assert not mode.unruled


def test_softmax_multipliers_become_the_gradient_for_a_near_reference() -> None:
    x = rows(1, 6).detach()
    pair = torch.cat([x, x + 1e-5 * rows(1, 6, seed=2).detach()]).requires_grad_(True)
    with Substituted(Rescale(1)):
        y = pair.softmax(-1)
    torch.testing.assert_close(
        gradient(y[1, 2], pair)[1], gradient(pair.softmax(-1)[0, 2], pair)[0], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("rules", [Relevance(), Interaction()], ids=["lrp", "gim"])
def test_products_are_shared_and_norms_are_frozen(rules: Rules) -> None:
    a, b = rows(2, 4), rows(2, 4, seed=1)
    with Substituted(rules):
        y = a * b
        n = functional.layer_norm(a, (4,))
        arithmetic = a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(gradient(y.sum(), a), b / 2)
    torch.testing.assert_close(gradient(y.sum(), b), a / 2)
    spread = (a.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt().detach()
    torch.testing.assert_close(gradient(n[0, 1], a), gradient(((a - a.mean(-1, keepdim=True)) / spread)[0, 1], a))
    scale = torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-6).detach()
    torch.testing.assert_close(gradient(arithmetic.sum(), a), scale.expand_as(a))


def test_weights_are_constants_and_get_no_gradient() -> None:
    layer = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.randn(2, 4, requires_grad=True)
    with Substituted(Rescale(1)):
        layer(x).sum().backward()
    assert x.grad is not None
    assert all(weight.grad is None and weight.requires_grad for weight in layer.parameters())


def test_operations_without_a_rule_keep_their_derivative_and_are_named() -> None:
    x = rows(2, 4)
    with Substituted(Rescale(1)) as mode:
        y = torch.cumprod(x, -1)
    assert mode.unruled == {"cumprod"}
    torch.testing.assert_close(gradient(y.sum(), x), gradient(torch.cumprod(x, -1).sum(), x))


def test_going_back_inside_the_block_is_the_same_as_outside() -> None:
    a, b = rows(2, 3, 4), rows(2, 3, 4, seed=1)
    for rules in SETS:
        with Substituted(rules):
            y = ((a @ b.mT).softmax(-1) @ b).tanh()
            inside = gradient(y[1].sum(), a)
        torch.testing.assert_close(inside, gradient(y[1].sum(), a))


def test_half_precision_is_widened_and_comes_back() -> None:
    x = rows(2, 3, 8).detach().bfloat16().requires_grad_(True)
    with Substituted(Rescale(1)):
        y = functional.layer_norm(functional.gelu(x), (8,))
    assert gradient(y[1].sum(), x).dtype == torch.bfloat16
