"""Occlusion against captum, and every absence operator against inputs re-made by hand and passed one by one."""

import numpy as np
import pytest
import torch
from captum.attr import FeatureAblation
from torch import Tensor

from didact.attribution.occlusion import Occlusion
from didact.errors import ParameterError
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS
from didact.types import Example, Explanation, Target
from tests.reference.plain import TEXT, encoded, read, special, text_model, value, without, word_vectors

MASKED = ["bert", "distilbert", "roberta", "xlm-roberta", "electra", "albert", "modernbert", "deberta-v2"]
DECODERS = ["llama", "mistral", "gpt2"]
POSITIVE = Target(1, "positive")


def losses(model: NetworkModel, found: Explanation, variants: list[dict[str, Tensor]]) -> list[float]:
    """The target of the whole text minus that of each variant, by plain passes."""
    index, scale = found.target.index, found.target.scale
    full = value(model, index, scale, **encoded(model, found.example.text))
    return [full - value(model, index, scale, **variant) for variant in variants]


@pytest.mark.parametrize("scale", ["logit", "probability"])
@pytest.mark.parametrize("architecture", MASKED)
def test_equals_captum_with_pieces_grouped_into_words(architecture: str, scale: str) -> None:
    model = text_model(architecture)
    (found,) = Occlusion(absence="mask", scale=scale).explain(model, [TEXT])
    inputs = encoded(model, TEXT)
    ids = inputs.pop("input_ids")
    groups = torch.full_like(ids, len(found.units))  # special tokens: one group of their own, not looked at
    for number, positions in enumerate(found.units.positions):
        groups[0, list(positions)] = number
    ablation = FeatureAblation(lambda rows: read(model.network(rows, **inputs).logits, found.target.index, scale))
    with torch.no_grad():
        theirs = ablation.attribute(ids, baselines=model.tokenizer.mask_token_id, feature_mask=groups)
    wanted = [float(theirs[0, positions[0]]) for positions in found.units.positions]
    np.testing.assert_allclose(found.array, wanted, atol=1e-5)
    assert np.abs(found.array).max() > 1e-2


@pytest.mark.parametrize("architecture", [*MASKED, *DECODERS])
def test_delete_is_the_text_without_the_words_tokens(architecture: str) -> None:
    model = text_model(architecture)
    (found,) = Occlusion(absence="delete").explain(model, [TEXT])
    inputs = encoded(model, TEXT)
    stays = [without(found.units, [i], inputs["input_ids"].shape[1]) for i in range(len(found.units))]
    shorter = [{name: given[:, kept] for name, given in inputs.items()} for kept in stays]
    np.testing.assert_allclose(found.array, losses(model, found, shorter), atol=1e-5)


@pytest.mark.parametrize("architecture", [*MASKED, "llama", "gpt2"])
def test_drop_is_attention_mask_zero(architecture: str) -> None:
    model = text_model(architecture)
    (found,) = Occlusion(absence="drop").explain(model, [TEXT])
    inputs = encoded(model, TEXT)
    stays = [without(found.units, [i], inputs["input_ids"].shape[1]) for i in range(len(found.units))]
    hidden = [inputs | {"attention_mask": kept.long()[None]} for kept in stays]
    wanted = losses(model, found, hidden)
    # A decoder's classifier reads the last token, which must be there to be read.
    readable = len(found.units) - 1 if architecture in DECODERS else len(found.units)
    np.testing.assert_allclose(found.array[:readable], wanted[:readable], atol=1e-5)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "distilbert", "electra", "albert", "llama", "gpt2"])
def test_drop_of_several_words_at_once(architecture: str) -> None:
    model = text_model(architecture)
    units = model.units([Example(TEXT)])
    keep = np.random.default_rng(0).random((20, len(units[0]))) < 0.5
    keep[:, -1] = True
    (values,) = model.score(units, [POSITIVE], [keep], "drop")
    inputs = encoded(model, TEXT)
    for row, found in zip(keep, values, strict=True):
        kept = without(units[0], np.flatnonzero(~row), inputs["input_ids"].shape[1])
        assert found == pytest.approx(value(model, 1, **inputs | {"attention_mask": kept.long()[None]}), abs=1e-5)


@pytest.mark.parametrize(
    ("architecture", "absence"),
    [
        ("llama", "delete"),
        ("llama", "drop"),
        ("gpt2", "delete"),
        ("gpt2", "drop"),
        ("mistral", "delete"),
    ],
)
def test_a_decoder_without_any_word_answers_the_same_for_all_texts(architecture: str, absence: str) -> None:
    model = text_model(architecture)
    units = model.units([Example("a warm film"), Example("a warm plot")])
    nothing = [np.zeros((1, len(unit)), dtype=bool) for unit in units]
    first, second = model.score(units, [POSITIVE] * 2, nothing, absence)
    assert first == pytest.approx(second, abs=1e-6)


@pytest.mark.parametrize("architecture", MASKED)
def test_a_given_token_stands_for_the_absent_word(architecture: str) -> None:
    model = text_model(architecture)
    inputs = encoded(model, TEXT)
    ids = inputs["input_ids"]
    for absence, token in (("token:unk", model.tokenizer.unk_token_id), ("token:pad", model.tokenizer.pad_token_id)):
        (found,) = Occlusion(absence=absence).explain(model, [TEXT])
        stays = [without(found.units, [i], ids.shape[1]) for i in range(len(found.units))]
        variants = [inputs | {"input_ids": torch.where(kept, ids, torch.tensor(token))} for kept in stays]
        np.testing.assert_allclose(found.array, losses(model, found, variants), atol=1e-5)


@pytest.mark.parametrize("architecture", MASKED)
def test_blend_with_weights_zero_and_one_is_mask(architecture: str) -> None:
    model = text_model(architecture)
    units = model.units([Example(TEXT), Example(TEXTS[0])])
    keep = [np.random.default_rng(0).random((6, len(unit))) < 0.5 for unit in units]
    masked = model.score(units, [POSITIVE] * 2, keep, "mask")
    blended = model.score(units, [POSITIVE] * 2, [rows.astype(np.float64) for rows in keep], "blend")
    for one, other in zip(masked, blended, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("architecture", MASKED)
def test_blend_mixes_embeddings_by_weight(architecture: str) -> None:
    model = text_model(architecture)
    units = model.units([Example(TEXT)])
    weights = np.array([[0.5] * len(units[0]), np.linspace(0, 1, len(units[0]))])
    (found,) = model.score(units, [POSITIVE], [weights], "blend")
    inputs = encoded(model, TEXT)
    vectors = word_vectors(model, inputs.pop("input_ids"))
    mask = word_vectors(model, torch.tensor(model.tokenizer.mask_token_id))
    assert bool(special(model, TEXT)[0])
    for row, got in zip(weights, found, strict=True):
        mixed = vectors.clone()
        for positions, weight in zip(units[0].positions, row, strict=True):
            for position in positions:
                mixed[0, position] = weight * vectors[0, position] + (1 - weight) * mask
        assert got == pytest.approx(value(model, 1, inputs_embeds=mixed, **inputs), abs=1e-5)


def test_a_pair_keeps_its_segments_when_words_are_deleted() -> None:
    model = text_model("bert", inputs="pair")
    pair = ("good food", "the bill was too high")
    (found,) = Occlusion(absence="delete").explain(model, [pair])
    inputs = dict(model.tokenizer(*pair, return_tensors="pt"))
    full = value(model, found.target.index, **inputs)
    for i, score in enumerate(found.scores):
        kept = without(found.units, [i], inputs["input_ids"].shape[1])
        shorter = {name: given[:, kept] for name, given in inputs.items()}
        assert score == pytest.approx(full - value(model, found.target.index, **shorter), abs=1e-5)
    assert inputs["token_type_ids"].any()


def test_a_decoder_of_local_windows_cannot_leave_others_in_place() -> None:
    model = text_model("mistral")
    assert model.default_absence == "delete"
    with pytest.raises(ParameterError, match="use 'delete', not 'drop'"):
        Occlusion(absence="drop").explain(model, [TEXT])


@pytest.mark.parametrize("span", [2, 3, 50])
def test_a_units_score_is_the_mean_drop_of_the_windows_that_cover_it(span: int) -> None:
    model = text_model("bert")
    (found,) = Occlusion(span=span).explain(model, [TEXT])
    inputs = encoded(model, TEXT)
    ids = inputs.pop("input_ids")
    full = value(model, found.target.index, input_ids=ids, **inputs)
    n = len(found.units)
    width = min(span, n)
    drops = []
    for start in range(n - width + 1):
        kept = without(found.units, range(start, start + width), ids.shape[1])
        masked = torch.where(kept, ids, torch.tensor(model.tokenizer.mask_token_id))
        drops.append(full - value(model, found.target.index, input_ids=masked, **inputs))
    for i, score in enumerate(found.scores):
        covering = [drop for start, drop in enumerate(drops) if start <= i < start + width]
        assert score == pytest.approx(np.mean(covering), abs=1e-5)
    assert found.cost.forwards == Occlusion(span=span).cost(found.units).forwards == len(drops) + 2


def test_windows_stay_within_a_text_of_a_pair() -> None:
    model = text_model("bert", inputs="pair")
    pair = ("good food", "the bill was too high")
    (found,) = Occlusion(span=2).explain(model, [pair])
    assert found.cost.forwards == (2 - 1) + (5 - 1) + 2
    assert found.scores[0] == pytest.approx(found.scores[1])
