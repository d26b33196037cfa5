"""LRP against relevance propagated explicitly, layer by layer, through a written-out BERT; and its conservation."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from didact.attribution.deep_shap import BACKGROUND
from didact.attribution.lrp import Lrp
from didact.models.compose import compose
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.ops.backward import Relevance, Substituted
from didact.testing.tiny import TEXTS
from tests.reference.plain import TEXT, per_unit, special, text_model
from tests.reference.written_out import Bert


def double(architecture: str = "bert") -> NetworkModel:
    single = text_model(architecture)
    return compose(single.network.double(), single.tokenizer)


class Explicit:
    """The propagation rules as they stand in the paper, for relevances themselves."""

    def __init__(self, pass_: Bert, epsilon: float) -> None:
        self.bert, self.epsilon = pass_, epsilon

    def linear(self, relevance: Tensor, x: Tensor, name: str) -> Tensor:
        """R_i = sum_j x_i w_ji / (z_j + epsilon sign z_j) R_j, the bias being a term of z_j."""
        z = self.bert.linear(x, name)
        terms = x[:, None, :] * self.bert.weight(name + ".weight")
        return (terms * (relevance / (z + self.epsilon * z.sign()))[..., None]).sum(1)

    def norm(self, relevance: Tensor, x: Tensor, name: str) -> Tensor:
        """A linear map: y_j = sum_i w_j (1[i = j] - 1/d) / deviation x_i + b_j."""
        size = x.shape[-1]
        eps = self.bert.model.network.config.layer_norm_eps
        deviation = (x.var(-1, unbiased=False) + eps).sqrt()
        centring = torch.eye(size).double() - 1 / size
        terms = self.bert.weight(name + ".weight")[:, None] * centring * x[:, None, :] / deviation[:, None, None]
        return (terms * (relevance / self.bert.norm(x, name))[..., None]).sum(1)

    def product(self, relevance: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """z_tu = sum_i a_ti b_iu: half of each term's relevance to either factor."""
        terms = a[..., :, :, None] * b[..., None, :, :]  # t, i, u
        shares = terms * (relevance / (a @ b))[..., :, None, :] / 2
        return shares.sum(-1), shares.sum(-3)

    def layer(self, relevance: Tensor, number: int) -> Tensor:
        at = f"bert.encoder.layer.{number}"
        k = {name.removeprefix(at + "."): kept for name, kept in self.bert.kept.items() if name.startswith(at + ".")}
        summed = k["narrow"] + k["middle"]
        relevance = self.norm(relevance, summed, f"{at}.output.LayerNorm")
        wide = self.linear(relevance * k["narrow"] / summed, k["active"], f"{at}.output.dense")  # identity at gelu
        middle = relevance * k["middle"] / summed + self.linear(wide, k["middle"], f"{at}.intermediate.dense")
        summed = k["out"] + k["in"]
        relevance = self.norm(middle, summed, f"{at}.attention.output.LayerNorm")
        context = self.linear(relevance * k["out"] / summed, k["context"], f"{at}.attention.output.dense")
        for_p, for_v = self.product(self.bert.heads(context), k["p"], k["v"])
        for_z = k["z"] * (for_p - k["p"] * for_p.sum(-1, keepdim=True))
        for_q, for_k = self.product(for_z, k["q"], k["k"].mT)
        below = relevance * k["in"] / summed
        for name, heads in {"query": for_q, "key": for_k.mT, "value": for_v}.items():
            joined = heads.transpose(0, 1).reshape(k["in"].shape)
            below = below + self.linear(joined, k["in"], f"{at}.attention.self.{name}")
        return below

    def words(self, target: int) -> tuple[Tensor, float]:
        """Relevance of every token, and the logit it started from."""
        words = self.bert.words()
        logits, kept = self.bert.logits(words), self.bert.kept
        start = torch.zeros_like(logits)
        start[target] = logits[target]
        pooled = self.linear(start[None], kept["pooled"].tanh()[None], "classifier")  # identity at tanh
        relevance = torch.zeros_like(kept["top"])
        relevance[0] = self.linear(pooled, kept["top"][:1], "bert.pooler.dense")[0]
        for number in reversed(range(self.bert.model.network.config.num_hidden_layers)):
            relevance = self.layer(relevance, number)
        relevance = self.norm(relevance, kept["sum"], "bert.embeddings.LayerNorm")
        return (relevance * words / kept["sum"]).sum(-1), float(logits[target])


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("text", [TEXT, TEXTS[1]])
def test_equals_relevance_propagated_explicitly(text: str, target: int, epsilon: float) -> None:
    """Tolerance 1e-6, in double precision: relevances divide by activations near 0."""
    model = double()
    with torch.no_grad():
        theirs, logit = Explicit(Bert(model, text), epsilon).words(target)
    (found,) = Lrp(epsilon=epsilon).explain(model, [text], [target])
    np.testing.assert_allclose(found.array, per_unit(found.units, theirs), rtol=1e-6, atol=1e-6)
    assert found.details["conservation_gap"] == pytest.approx(sum(found.scores) - logit, abs=1e-6)
    elsewhere = float(theirs[special(model, text)].sum())
    assert found.details["special_relevance"] == pytest.approx(elsewhere, abs=1e-6)
    assert np.abs(found.array).max() > 1e-2


def test_single_precision_is_near_double() -> None:
    exact, found = (Lrp().explain(model, [TEXT])[0] for model in (double(), text_model("bert")))
    np.testing.assert_allclose(found.array, exact.array, rtol=1e-3, atol=1e-3)


def test_relevance_is_conserved_without_biases_and_softmax() -> None:
    """Linear layers, activations, a norm, a gate and a sum hand on all they get: tolerance 1e-9."""
    draw = torch.Generator().manual_seed(0)
    first, second, third, last = torch.randn(4, 8, 8, generator=draw, dtype=torch.float64)
    x = torch.randn(3, 8, generator=draw, dtype=torch.float64).requires_grad_(True)
    with Substituted(Relevance()):
        h = functional.layer_norm(functional.gelu(x @ first), (8,))
        y = ((functional.silu(h @ second) * (h @ third)) @ last + h).tanh()
    for column in range(8):
        (arrived,) = torch.autograd.grad(y[:, column].sum(), x, retain_graph=True)
        torch.testing.assert_close((arrived * x).sum(-1), y[:, column], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("architecture", "most"),
    [("bert", 2.0), ("distilbert", 2.0), ("roberta", 0.5), ("electra", 2.0), ("albert", 2.0), ("xlm-roberta", 2.0)],
)
def test_the_conservation_error_is_stated(architecture: str, most: float) -> None:
    """On random models the error is as large as the logit: biases, positions and softmax take or add their share."""
    for found in Lrp().explain(text_model(architecture), list(TEXTS)):
        gap = sum(found.scores) - found.prediction.value(found.target)
        assert found.details["conservation_gap"] == pytest.approx(gap, abs=1e-4)
        assert abs(gap) < most


def test_the_conservation_error_of_the_built_in_model() -> None:
    """Measured: -1.21 to 0.13 on logits of up to 3.1, median size 0.44."""
    found = Lrp().explain(load_model(), list(BACKGROUND))
    gaps = np.array([e.details["conservation_gap"] for e in found])
    assert np.abs(gaps).max() < 1.5
    assert np.median(np.abs(gaps)) < 0.6


def test_scores_are_signed_and_other_scales_multiply_by_the_derivative() -> None:
    model = text_model("bert")
    (logit,) = Lrp(scale="logit").explain(model, [TEXT], [0])
    (other,) = Lrp(scale="logit").explain(model, [TEXT], [1])
    (found,) = Lrp(scale="probability").explain(model, [TEXT], [0])
    p = found.prediction.probabilities[0]
    np.testing.assert_allclose(found.array, p * (1 - p) * (logit.array - other.array), atol=1e-5)
    assert logit.array.min() < 0 < logit.array.max()


def test_functions_without_a_rule_are_counted() -> None:
    model = text_model("bert")
    (plain,) = Lrp().explain(model, [TEXT])
    assert "unruled_operations" not in plain.details
    norm: Any = model.network.base_model.embeddings.LayerNorm
    norm.register_forward_hook(lambda _, __, found: torch.logcumsumexp(found, -1) - torch.cummax(found, -1).values)
    (told,) = Lrp().explain(model, [TEXT])
    assert told.details["unruled_operations"] == 2
