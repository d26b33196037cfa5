"""Gradient SHAP against a loop over its own draws, captum in the mean, and integrated gradients."""

import numpy as np
import pytest
import torch
from captum.attr import GradientShap as CaptumGradientShap
from torch import Tensor

from didact.attribution.gradient_shap import GradientShap
from didact.attribution.integrated_gradients import IntegratedGradients
from didact.testing.tiny import TEXTS
from didact.types import Example
from tests.reference.plain import TEXT, encoded, per_unit, read, special, text_model, value, word_vectors

ARCHITECTURES = ["bert", "distilbert", "roberta", "gpt2"]


@pytest.mark.parametrize("scale", ["logit", "log_probability", "probability"])
@pytest.mark.parametrize("baseline", ["mask", "zero"])
def test_equals_a_loop_over_the_draws(baseline: str, scale: str) -> None:
    model = text_model("bert")
    method = GradientShap(samples=6, baseline=baseline, scale=scale)
    (units,) = model.units([Example(TEXT)])
    inputs = encoded(model, TEXT)
    text = word_vectors(model, inputs.pop("input_ids"))[0]
    centre = text.clone()
    mask = word_vectors(model, torch.tensor(model.tokenizer.mask_token_id))
    centre[~special(model, TEXT)] = mask if baseline == "mask" else torch.zeros(32)
    drawn = method._ways(units, centre, text)
    total = torch.zeros_like(text)
    for k in range(6):
        start, alpha = drawn.ways.starts[k : k + 1][0], float(drawn.alphas[k])
        at = (start + alpha * (text - start))[None].requires_grad_(True)
        (gradient,) = torch.autograd.grad(read(model.network(inputs_embeds=at, **inputs).logits, 0, scale).sum(), at)
        total += (text - start) * gradient[0] / 6
    (found,) = method.explain(model, [TEXT], [0])
    np.testing.assert_allclose(found.array, per_unit(units, total.sum(-1)), atol=1e-4)


def test_distances_are_spread_over_the_whole_way() -> None:
    model = text_model("bert")
    (units,) = model.units([Example(TEXT)])
    (text,) = model.embed([units])
    alphas = GradientShap(samples=10)._ways(units, text, text).alphas
    assert sorted(np.floor(alphas * 10).astype(int)) == list(range(10))
    many = [GradientShap(samples=10, seed=seed)._ways(units, text, text).alphas for seed in range(300)]
    assert np.mean(many, axis=0) == pytest.approx(np.full(10, 0.5), abs=0.07)


def test_agrees_with_captum_in_the_mean() -> None:
    """Both are means over random draws: they agree within four standard errors of their difference."""
    model = text_model("distilbert")
    text = word_vectors(model, encoded(model, TEXT)["input_ids"])
    (units,) = model.units([Example(TEXT)])
    moving = ~special(model, TEXT)
    deviation = 0.1 * float(text[0, moving].max() - text[0, moving].min())
    centre = text[0].clone()
    centre[moving] = word_vectors(model, torch.tensor(model.tokenizer.mask_token_id))
    torch.manual_seed(0)
    np.random.seed(0)  # captum draws from it
    theirs = []

    def forward(given: Tensor) -> Tensor:
        return model.network(inputs_embeds=given).logits[:, 1]

    for _ in range(20):
        baselines = centre + torch.randn(200, *centre.shape) * deviation * moving[:, None]
        found = CaptumGradientShap(forward).attribute(text, baselines, n_samples=100, stdevs=0.0)
        theirs.append(per_unit(units, found[0].sum(-1)))
    methods = [GradientShap(samples=100, noise=0.1, seed=seed) for seed in range(20)]
    ours = [method.explain(model, [TEXT], [1])[0].array for method in methods]
    error = np.sqrt((np.var(ours, axis=0, ddof=1) + np.var(theirs, axis=0, ddof=1)) / 20)
    assert (np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0)) < 4 * error).all()
    assert (np.abs(np.mean(ours, axis=0)) > 10 * error).any()  # or anything would agree
    assert np.var(ours, axis=0).sum() < np.var(theirs, axis=0).sum()  # what drawing from intervals is for


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_without_noise_it_tends_to_integrated_gradients(architecture: str) -> None:
    model = text_model(architecture)
    (exact,) = IntegratedGradients(steps=300).explain(model, [TEXT])
    gaps = []
    for samples in (10, 1000):
        (found,) = GradientShap(samples=samples, noise=0).explain(model, [TEXT])
        gaps.append(np.abs(found.array - exact.array).max())
    assert gaps[1] < 0.01 * (1 + np.abs(exact.array).max())
    assert gaps[1] < gaps[0] / 5


def test_scores_add_up_in_the_mean() -> None:
    model = text_model("bert")
    (units,) = model.units([Example(TEXT)])
    (found,) = GradientShap(samples=3000, noise=0.05).explain(model, [TEXT], [1])
    inputs = encoded(model, TEXT)
    text = word_vectors(model, inputs.pop("input_ids"))[0]
    (centre,) = model.embed([units], absent="mask")
    baselines = GradientShap(samples=3000, noise=0.05, seed=1)._ways(units, centre, text).ways.starts[0:3000]
    rest = {name: given.expand(3000, -1) for name, given in inputs.items()}
    with torch.no_grad():
        empty = float(model.network(inputs_embeds=baselines, **rest).logits[:, 1].mean())
    full = value(model, 1, **encoded(model, TEXT))
    assert found.array.sum() == pytest.approx(full - empty, abs=0.05)


def test_the_batch_and_its_size_do_not_change_the_draws() -> None:
    whole = GradientShap(samples=9).explain(text_model("bert"), list(TEXTS))
    pieces = GradientShap(samples=9).explain(text_model("bert", batch_tokens=60), list(TEXTS))
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(one.array, other.array, rtol=1e-4, atol=1e-4)
