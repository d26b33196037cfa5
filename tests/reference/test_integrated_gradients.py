"""Integrated gradients against captum on the same path, and against their axiom."""

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients as CaptumIntegratedGradients
from captum.attr import LayerIntegratedGradients
from torch import Tensor

from didact.attribution.integrated_gradients import IntegratedGradients
from didact.meter import metered
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS
from tests.reference.plain import TEXT, encoded, per_unit, read, special, text_model, value, word_vectors

ENCODERS = ["bert", "distilbert", "roberta"]
RULES = {"gauss_legendre": "gausslegendre", "midpoint": "riemann_middle", "right": "riemann_right"}


def baseline_ids(model: NetworkModel, text: str, token_id: int | None) -> Tensor:
    """The text with every token but the special ones replaced."""
    ids = encoded(model, text)["input_ids"]
    return torch.where(special(model, text), ids, torch.tensor(token_id))


def fixed(steps: int, **settings: object) -> IntegratedGradients:
    """With just so many steps, however much they miss."""
    return IntegratedGradients(steps=steps, max_steps=steps, **settings)  # type: ignore[arg-type]


def captum_scores(model: NetworkModel, text: str, baseline: Tensor, rule: str, steps: int, scale: str) -> Tensor:
    """Attributions of the predicted class per token, from captum."""
    inputs = encoded(model, text)
    ids = inputs.pop("input_ids")
    index = int(model.network(ids, **inputs).logits.argmax())

    def forward(vectors: Tensor) -> Tensor:
        rest = {name: given.expand(len(vectors), -1) for name, given in inputs.items()}
        return read(model.network(inputs_embeds=vectors, **rest).logits, index, scale)

    found = CaptumIntegratedGradients(forward).attribute(
        word_vectors(model, ids), baseline, n_steps=steps, method=RULES[rule]
    )
    return found[0].sum(-1)


@pytest.mark.parametrize("scale", ["logit", "log_probability", "probability"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("architecture", ENCODERS)
def test_equals_captum_on_the_same_path(architecture: str, rule: str, scale: str) -> None:
    model = text_model(architecture)
    baseline = word_vectors(model, baseline_ids(model, TEXT, model.tokenizer.mask_token_id))
    theirs = captum_scores(model, TEXT, baseline, rule, 7, scale)
    (words,) = fixed(7, rule=rule, scale=scale).explain(model, [TEXT])
    (tokens,) = fixed(7, rule=rule, scale=scale, level="token").explain(model, [TEXT])
    np.testing.assert_allclose(words.array, per_unit(words.units, theirs), atol=1e-4)
    np.testing.assert_allclose(tokens.array, theirs[~special(model, TEXT)].numpy(), atol=1e-4)
    assert any(len(positions) > 1 for positions in words.units.positions)
    assert np.abs(words.array).max() > 1e-3


@pytest.mark.parametrize("architecture", ENCODERS)
def test_equals_captums_layer_version_that_starts_from_token_ids(architecture: str) -> None:
    model = text_model(architecture)
    inputs = encoded(model, TEXT)
    ids = inputs.pop("input_ids")
    layer = LayerIntegratedGradients(
        lambda rows: model.network(rows, **{k: v.expand(len(rows), -1) for k, v in inputs.items()}).logits,
        model.network.get_input_embeddings(),
    )
    masked = baseline_ids(model, TEXT, model.tokenizer.mask_token_id)
    theirs = layer.attribute(ids, masked, target=1, n_steps=9)[0].sum(-1)
    (found,) = fixed(9).explain(model, [TEXT], ["positive"])
    np.testing.assert_allclose(found.array, per_unit(found.units, theirs.detach()), atol=1e-4)


@pytest.mark.parametrize("architecture", ENCODERS)
@pytest.mark.parametrize("baseline", ["pad", "zero", "token:good"])
def test_other_baselines_equal_captum_too(architecture: str, baseline: str) -> None:
    model = text_model(architecture)
    word = baseline.removeprefix("token:")
    if architecture == "roberta" and word == "good":
        baseline, word = "token:Ġgood", "Ġgood"
    known = {"pad": model.tokenizer.pad_token_id, "zero": 0}
    ids = baseline_ids(model, TEXT, known.get(word, model.tokenizer.convert_tokens_to_ids(word)))
    vectors = word_vectors(model, ids)
    if baseline == "zero":
        vectors[0, ~special(model, TEXT)] = 0
    theirs = captum_scores(model, TEXT, vectors, "gauss_legendre", 5, "logit")
    (found,) = fixed(5, baseline=baseline).explain(model, [TEXT])
    np.testing.assert_allclose(found.array, per_unit(found.units, theirs), atol=1e-4)


def test_a_model_without_mask_token_starts_from_the_pad_embedding() -> None:
    model = text_model("gpt2")
    (default,) = fixed(5).explain(model, [TEXTS[0]])
    (pad,) = fixed(5, baseline="pad").explain(model, [TEXTS[0]])
    (zero,) = fixed(5, baseline="zero").explain(model, [TEXTS[0]])
    assert default.scores == pad.scores
    assert np.abs(default.array - zero.array).max() > 1e-3


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("architecture", ENCODERS)
def test_scores_come_nearer_to_the_difference_as_steps_grow(architecture: str, rule: str) -> None:
    model = text_model(architecture)
    gaps = []
    for steps in (4, 64, 1024):
        found = fixed(steps, rule=rule).explain(model, list(TEXTS[:2]))
        gaps.append(max(abs(e.details["completeness_gap"]) for e in found))
    assert gaps[0] > gaps[1] > gaps[2] - 1e-5  # single precision ends there
    assert gaps[2] < 0.01


@pytest.mark.parametrize("scale", ["logit", "probability"])
@pytest.mark.parametrize("baseline", ["mask", "zero"])
def test_the_recorded_gap_is_the_sum_minus_the_difference(baseline: str, scale: str) -> None:
    model = text_model("bert")
    (found,) = fixed(3, baseline=baseline, scale=scale).explain(model, [TEXT])
    inputs = encoded(model, TEXT)
    full = value(model, found.target.index, scale, **inputs)
    ids = inputs.pop("input_ids")
    vectors = word_vectors(model, ids)
    absent = torch.zeros(32) if baseline == "zero" else word_vectors(model, torch.tensor(model.tokenizer.mask_token_id))
    vectors[0, ~special(model, TEXT)] = absent
    base = value(model, found.target.index, scale, inputs_embeds=vectors, **inputs)
    assert found.details["base_value"] == pytest.approx(base, abs=1e-5)
    assert found.details["completeness_gap"] == pytest.approx(sum(found.scores) - (full - base), abs=1e-5)
    assert abs(found.details["completeness_gap"]) > 1e-4  # three steps miss visibly, or nothing would be tested


@pytest.mark.parametrize("steps", [10, 50])
@pytest.mark.parametrize("baseline", ["zero", "mask"])
def test_the_norm_of_each_tokens_parts_equals_captum(baseline: str, steps: int) -> None:
    model = text_model("bert")
    inputs = encoded(model, TEXT)
    vectors = word_vectors(model, inputs.pop("input_ids"))
    start = vectors.clone()
    mask = word_vectors(model, torch.tensor(model.tokenizer.mask_token_id))
    start[0, ~special(model, TEXT)] = torch.zeros(32) if baseline == "zero" else mask

    def forward(given: Tensor) -> Tensor:
        rest = {name: row.expand(len(given), -1) for name, row in inputs.items()}
        return model.network(inputs_embeds=given, **rest).logits[:, 1]

    theirs = CaptumIntegratedGradients(forward).attribute(vectors, start, n_steps=steps)[0]
    (found,) = fixed(steps, baseline=baseline, aggregate="norm").explain(model, [TEXT], [1])
    (summed,) = fixed(steps, baseline=baseline).explain(model, [TEXT], [1])
    np.testing.assert_allclose(found.array, per_unit(found.units, theirs.norm(dim=-1)), atol=1e-4)
    np.testing.assert_allclose(summed.array, per_unit(found.units, theirs.sum(-1)), atol=1e-4)
    assert summed.signed
    assert not found.signed
    assert found.details["completeness_gap"] == pytest.approx(summed.details["completeness_gap"], abs=1e-5)


def test_the_ends_of_the_line_are_not_differentiated() -> None:
    model = text_model("bert")
    (found,) = fixed(10).explain(model, [TEXT])
    assert (found.cost.forwards, found.cost.backwards) == (13, 10)


def test_steps_are_doubled_for_the_texts_that_miss_much() -> None:
    model = text_model("bert")
    texts = list(TEXTS)
    method = IntegratedGradients(steps=3, baseline="zero")
    with metered() as meter:
        found = method.explain(model, texts)
    plain = fixed(3, baseline="zero").explain(model, texts)
    raised = 0
    for one, few in zip(found, plain, strict=True):
        difference = model.predict([one.example])[0].value(one.target) - one.details["base_value"]
        allowed = max(0.05 * abs(difference), 1e-3 * (1 + abs(difference)))
        if abs(few.details["completeness_gap"]) <= allowed:
            assert one.scores == few.scores
            assert "steps" not in one.details
            assert (one.cost.forwards, one.cost.backwards) == (6, 3)
        else:
            raised += 1
            steps = int(one.details["steps"])
            spent = [3 * 2**power for power in range(10) if 3 * 2**power <= steps]
            assert spent[-1] == steps
            assert (one.cost.forwards, one.cost.backwards) == (sum(spent) + 2 * len(spent) + 1, sum(spent))
            assert few.warnings
            np.testing.assert_allclose(
                one.array, fixed(steps, baseline="zero").explain(model, [one.example])[0].array, atol=1e-4
            )
        assert abs(one.details["completeness_gap"]) <= allowed
        assert one.warnings == ()
    assert raised > 0
    assert sum(one.cost.forwards for one in found) == meter.forwards
    assert sum(one.cost.backwards for one in found) == meter.backwards


def test_what_the_most_steps_still_miss_is_a_warning() -> None:
    model = text_model("bert")
    found = IntegratedGradients(steps=1, max_steps=1, baseline="zero").explain(model, list(TEXTS))
    warned = [one for one in found if one.warnings]
    assert warned
    for one in warned:
        assert "missed): 1 steps are too few; raise max_steps, or use another baseline" in one.warnings[0]
