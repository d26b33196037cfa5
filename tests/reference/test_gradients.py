"""Gradient norm and gradient times input against autograd by hand, captum and finite differences."""

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient
from torch import Tensor

from didact.attribution.gradient_norm import GradientNorm
from didact.attribution.gradient_x_input import GradientXInput
from didact.attribution.integrated_gradients import IntegratedGradients
from didact.models.network import NetworkModel
from didact.ops.paths import single
from didact.testing.tiny import TEXTS
from didact.types import Example, Target
from tests.reference.plain import TEXT, encoded, per_unit, read, special, text_model, word_vectors

ARCHITECTURES = ["bert", "distilbert", "roberta", "electra", "modernbert", "deberta-v2", "gpt2"]
SCALES = ["logit", "log_probability", "probability"]


def by_hand(model: NetworkModel, text: str, index: int, scale: str) -> tuple[Tensor, Tensor]:
    """Embeddings and their gradient, both (tokens, dim)."""
    inputs = encoded(model, text)
    vectors = word_vectors(model, inputs.pop("input_ids")).requires_grad_(True)
    read(model.network(inputs_embeds=vectors, **inputs).logits, index, scale).sum().backward()
    model.network.zero_grad()
    assert vectors.grad is not None
    return vectors.detach()[0], vectors.grad[0]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_equal_autograd_by_hand(architecture: str, scale: str) -> None:
    model = text_model(architecture)
    for index in (0, 1):
        vectors, gradient = by_hand(model, TEXT, index, scale)
        wanted = {
            GradientNorm(scale=scale): (gradient**2).sum(-1).sqrt(),
            GradientNorm(scale=scale, norm="l1"): gradient.abs().sum(-1),
            GradientXInput(scale=scale): (gradient * vectors).sum(-1),
        }
        for method, tokens in wanted.items():
            (found,) = method.explain(model, [TEXT], [index])
            wanted_words = per_unit(found.units, tokens)
            np.testing.assert_allclose(found.array, wanted_words, atol=1e-4 * float(gradient.norm(dim=-1).max()))


@pytest.mark.parametrize("scale", SCALES)
def test_gradient_times_input_equals_captum(scale: str) -> None:
    model = text_model("bert")
    inputs = encoded(model, TEXT)
    vectors = word_vectors(model, inputs.pop("input_ids")).requires_grad_(True)
    method = InputXGradient(lambda v: read(model.network(inputs_embeds=v, **inputs).logits, 1, scale))
    theirs = method.attribute(vectors)[0].sum(-1).detach()
    (words,) = GradientXInput(scale=scale).explain(model, [TEXT], [1])
    (tokens,) = GradientXInput(scale=scale, level="token").explain(model, [TEXT], [1])
    np.testing.assert_allclose(words.array, per_unit(words.units, theirs), atol=1e-5)
    np.testing.assert_allclose(tokens.array, theirs[~special(model, TEXT)].numpy(), atol=1e-5)


@pytest.mark.parametrize("scale", SCALES)
def test_the_gradient_equals_finite_differences_in_double_precision(scale: str) -> None:
    model = text_model("bert")
    model.network.double()
    target = Target(1, "positive", scale)
    units = model.units([Example(TEXT)], "token")
    (vectors,) = model.embed(units)
    ((values, gradient),) = model.gradients(units, [target], [single(vectors)], [np.ones(1)])
    inputs = encoded(model, TEXT)
    del inputs["input_ids"]
    step = 1e-6
    position, dims = units[0].positions[3][0], vectors.shape[1]
    nudges = torch.zeros(2 * dims, *vectors.shape, dtype=torch.float64)
    nudges[torch.arange(dims), position, torch.arange(dims)] = step
    nudges[dims + torch.arange(dims), position, torch.arange(dims)] = -step
    rest = {name: given.expand(2 * dims, -1) for name, given in inputs.items()}
    with torch.no_grad():
        moved = read(model.network(inputs_embeds=vectors + nudges, **rest).logits, 1, scale)
    slopes = (moved[:dims] - moved[dims:]) / (2 * step)
    assert values.shape == (1,)
    np.testing.assert_allclose(gradient[position].numpy(), slopes.numpy(), rtol=1e-6, atol=1e-8)
    (norms,) = GradientNorm(scale=scale, level="token").explain(model, [TEXT], [1])
    assert norms.scores[3] == pytest.approx(float(slopes.norm()), rel=1e-6)


@pytest.mark.parametrize(
    "method", [GradientNorm(), GradientXInput(), IntegratedGradients(steps=3)], ids=lambda method: method.card.name
)
@pytest.mark.parametrize("architecture", ["bert", "roberta", "distilbert", "modernbert", "deberta-v2"])
def test_padding_in_a_batch_does_not_change_them(
    method: GradientNorm, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = text_model(architecture)
    model.budget.fixed = 1 << 30  # never cut a batch to save padding
    alone = [method.explain(model, [text])[0] for text in ("warm heart", TEXTS[3])]
    padded = []
    forward = model.network.forward

    def spy(**inputs: Tensor) -> object:
        if "inputs_embeds" in inputs:
            padded.append(bool((inputs["attention_mask"] == 0).any()))
        return forward(**inputs)

    monkeypatch.setattr(model.network, "forward", spy)
    together = method.explain(model, ["warm heart", TEXTS[3]])
    assert any(padded)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one.array, other.array, rtol=1e-4, atol=1e-5)
