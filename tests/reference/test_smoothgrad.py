"""SmoothGrad against a loop over its own copies, captum's noise tunnel in the mean, and the methods it contains."""

import numpy as np
import pytest
import torch
from captum.attr import NoiseTunnel, Saliency
from torch import Tensor

from didact.attribution.gradient_norm import GradientNorm
from didact.attribution.gradient_x_input import GradientXInput
from didact.attribution.smoothgrad import SmoothGrad
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS
from didact.types import Example
from tests.reference.plain import TEXT, encoded, per_unit, read, special, text_model, word_vectors

ARCHITECTURES = ["bert", "distilbert", "roberta", "electra", "gpt2"]


def gradient_at(model: NetworkModel, point: Tensor, index: int, scale: str) -> Tensor:
    """Autograd by hand at one point (tokens, dim)."""
    inputs = encoded(model, TEXT)
    inputs.pop("input_ids")
    at = point[None].clone().requires_grad_(True)
    (found,) = torch.autograd.grad(read(model.network(inputs_embeds=at, **inputs).logits, index, scale).sum(), at)
    return found[0]


@pytest.mark.parametrize("scale", ["logit", "log_probability", "probability"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_equals_a_loop_over_the_copies(architecture: str, scale: str) -> None:
    model = text_model(architecture)
    method = SmoothGrad(samples=7, scale=scale)
    (units,) = model.units([Example(TEXT)])
    vectors = word_vectors(model, encoded(model, TEXT)["input_ids"])[0]
    copies = method.copies(units, vectors)
    mean = sum(gradient_at(model, copies[k : k + 1][0], 1, scale) for k in range(7)) / 7
    (found,) = method.explain(model, [TEXT], [1])
    np.testing.assert_allclose(found.array, per_unit(units, (mean * vectors).sum(-1)), atol=1e-4)
    (norms,) = SmoothGrad(samples=7, scale=scale, aggregate="norm").explain(model, [TEXT], [1])
    np.testing.assert_allclose(norms.array, per_unit(units, mean.norm(dim=-1)), atol=1e-4)
    assert found.signed
    assert not norms.signed


def test_the_noise_is_normal_relative_to_the_range_and_spares_special_tokens() -> None:
    model = text_model("bert")
    (units,) = model.units([Example(TEXT)])
    (vectors,) = model.embed([units])
    own = vectors[~special(model, TEXT)]
    noise = SmoothGrad(samples=400, noise=0.2).copies(units, vectors)[0:400] - vectors
    assert not noise[:, special(model, TEXT)].any()
    drawn = noise[:, ~special(model, TEXT)]
    wanted = 0.2 * float(own.max() - own.min())
    assert float(drawn.std()) == pytest.approx(wanted, rel=0.01)
    assert float(drawn.mean()) == pytest.approx(0, abs=0.01 * wanted)
    assert float((drawn.abs() < wanted).double().mean()) == pytest.approx(0.6827, abs=0.005)


def test_agrees_with_captums_noise_tunnel_in_the_mean() -> None:
    """Both are means over random draws: they agree within four standard errors of their difference."""
    model = text_model("distilbert")
    ids = encoded(model, TEXT)["input_ids"]
    vectors = word_vectors(model, ids)
    (units,) = model.units([Example(TEXT)])
    own = vectors[0, ~special(model, TEXT)]
    deviation = 0.02 * float(own.max() - own.min())
    noisy = ~special(model, TEXT)[None, :, None].expand_as(vectors)

    def forward(given: Tensor) -> Tensor:
        return model.network(inputs_embeds=torch.where(noisy, given, vectors)).logits[:, 1]

    torch.manual_seed(0)
    tunnel = NoiseTunnel(Saliency(forward))
    theirs = []
    for _ in range(20):
        gradient = tunnel.attribute(vectors, nt_type="smoothgrad", nt_samples=100, stdevs=deviation, abs=False)
        theirs.append(per_unit(units, (gradient * vectors)[0].sum(-1)))
    method = [SmoothGrad(samples=100, noise=0.02, seed=seed) for seed in range(20)]
    ours = [own.explain(model, [TEXT], [1])[0].array for own in method]
    error = np.sqrt((np.var(ours, axis=0, ddof=1) + np.var(theirs, axis=0, ddof=1)) / 20)
    assert (np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0)) < 4 * error).all()
    assert (np.abs(np.mean(ours, axis=0)) > 10 * error).any()  # or anything would agree


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_without_noise_it_is_the_plain_gradient(architecture: str) -> None:
    model = text_model(architecture)
    (smooth,) = SmoothGrad(noise=0, samples=3).explain(model, [TEXT])
    (plain,) = GradientXInput().explain(model, [TEXT])
    np.testing.assert_allclose(smooth.array, plain.array, atol=1e-4)
    (smooth,) = SmoothGrad(noise=0, samples=3, aggregate="norm").explain(model, [TEXT])
    (plain,) = GradientNorm().explain(model, [TEXT])
    np.testing.assert_allclose(smooth.array, plain.array, atol=1e-4)


def test_the_batch_and_its_size_do_not_change_the_noise() -> None:
    whole = SmoothGrad(samples=9).explain(text_model("bert"), list(TEXTS))
    pieces = SmoothGrad(samples=9).explain(text_model("bert", batch_tokens=60), list(TEXTS))
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(one.array, other.array, rtol=1e-4, atol=1e-4)
