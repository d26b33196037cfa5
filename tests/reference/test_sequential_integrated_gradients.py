"""Sequential integrated gradients against captum token by token, and against what each token's line adds up to."""

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients as CaptumIntegratedGradients
from torch import Tensor

from didact.attribution.occlusion import Occlusion
from didact.attribution.sequential_integrated_gradients import SequentialIntegratedGradients
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS
from didact.types import Example
from tests.reference.plain import TEXT, encoded, per_unit, read, special, text_model, word_vectors

ENCODERS = ["bert", "distilbert", "roberta"]
RULES = {"gauss_legendre": "gausslegendre", "midpoint": "riemann_middle", "right": "riemann_right"}


def slowly(model: NetworkModel, text: str, baseline: Tensor, rule: str, steps: int, scale: str) -> Tensor:
    """The paper's definition: for every token captum's integrated gradients from the text without it, its own part."""
    inputs = encoded(model, text)
    vectors = word_vectors(model, inputs.pop("input_ids"))

    def forward(given: Tensor) -> Tensor:
        rest = {name: row.expand(len(given), -1) for name, row in inputs.items()}
        return read(model.network(inputs_embeds=given, **rest).logits, 1, scale)

    method = CaptumIntegratedGradients(forward)
    parts = torch.zeros_like(vectors[0])
    for position in range(vectors.shape[1]):
        start = vectors.clone()
        start[0, position] = baseline
        found = method.attribute(vectors, start, n_steps=steps, method=RULES[rule])
        parts[position] = found[0, position]
    return parts


@pytest.mark.parametrize("scale", ["logit", "log_probability", "probability"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("architecture", ENCODERS)
def test_equals_captum_on_each_tokens_line(architecture: str, rule: str, scale: str) -> None:
    model = text_model(architecture)
    mask = word_vectors(model, torch.tensor(model.tokenizer.mask_token_id))
    parts = slowly(model, TEXT, mask, rule, 4, scale)
    method = SequentialIntegratedGradients(steps=4, rule=rule, scale=scale)
    (words,) = method.explain(model, [TEXT], [1])
    np.testing.assert_allclose(words.array, per_unit(words.units, parts.sum(-1)), atol=1e-4)
    (tokens,) = SequentialIntegratedGradients(steps=4, rule=rule, scale=scale, level="token").explain(
        model, [TEXT], [1]
    )
    np.testing.assert_allclose(tokens.array, parts.sum(-1)[~special(model, TEXT)].numpy(), atol=1e-4)
    assert any(len(positions) > 1 for positions in words.units.positions)


@pytest.mark.parametrize("baseline", ["zero", "pad"])
def test_other_baselines_and_the_norm_equal_captum_too(baseline: str) -> None:
    model = text_model("bert")
    pad = word_vectors(model, torch.tensor(model.tokenizer.pad_token_id))
    parts = slowly(model, TEXT, torch.zeros(32) if baseline == "zero" else pad, "gauss_legendre", 4, "logit")
    method = SequentialIntegratedGradients(steps=4, baseline=baseline, aggregate="norm")
    (found,) = method.explain(model, [TEXT], [1])
    np.testing.assert_allclose(found.array, per_unit(found.units, parts.norm(dim=-1)), atol=1e-4)
    assert not found.signed


@pytest.mark.parametrize("architecture", ENCODERS)
def test_a_tokens_score_tends_to_what_masking_it_takes_away(architecture: str) -> None:
    model = text_model(architecture)
    (exact,) = Occlusion(level="token", absence="mask").explain(model, [TEXT])
    gaps = []
    for steps in (2, 10, 100):
        (found,) = SequentialIntegratedGradients(level="token", steps=steps).explain(model, [TEXT])
        gaps.append(np.abs(found.array - exact.array).max())
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.02 * np.abs(exact.array).max()


def test_pairs_and_a_small_budget_change_nothing() -> None:
    whole, small = text_model("bert", inputs="pair"), text_model("bert", inputs="pair", batch_tokens=100)
    examples = [Example(TEXTS[0], TEXTS[1]), Example("warm heart", TEXTS[3])]
    method = SequentialIntegratedGradients(steps=3)
    for one, other in zip(method.explain(whole, examples), method.explain(small, examples), strict=True):
        np.testing.assert_allclose(one.array, other.array, rtol=1e-4, atol=1e-4)
