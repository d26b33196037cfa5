"""Deep SHAP against a slow average over backgrounds laid out by hand, and the defects of its published use."""

from pathlib import Path

import numpy as np
import pytest
import torch

from didact.attribution.deep_shap import BACKGROUND, DeepShap
from didact.attribution.deeplift import DeepLift
from didact.errors import InputError
from didact.models.compose import compose
from didact.models.network import NetworkModel
from didact.ops.backward import Rescale, Substituted
from didact.testing.tiny import TEXTS
from didact.types import Example
from tests.reference.plain import TEXT, encoded, per_unit, special, text_model, word_vectors

ENCODERS = ["bert", "distilbert", "roberta"]
LONG = " ".join(TEXTS[:2])


def laid_out(model: NetworkModel, text: str, background: str) -> torch.Tensor:
    """Embeddings of ``text`` with its words replaced by the background's, repeated or cut: (1, tokens, dim)."""
    vectors = word_vectors(model, encoded(model, text)["input_ids"])
    given = model.tokenizer(background, add_special_tokens=False, return_tensors="pt")["input_ids"][0]
    places = (~special(model, text)).nonzero().ravel()
    for number, place in enumerate(places):
        vectors[0, place] = word_vectors(model, given[number % len(given)])
    return vectors


def slow(model: NetworkModel, text: str, backgrounds: list[str], target: int) -> tuple[torch.Tensor, float, float]:
    """Token scores, the mean output of the backgrounds and the output of the text, one background at a time."""
    inputs = encoded(model, text)
    x = word_vectors(model, inputs.pop("input_ids"))
    both = {name: given.expand(2, -1) for name, given in inputs.items()}
    scores, outputs = [], []
    for background in backgrounds:
        rows = torch.cat([x, laid_out(model, text, background)]).requires_grad_(True)
        with Substituted(Rescale(1)):
            logits = model.network(inputs_embeds=rows, **both).logits[:, target]
        multipliers = torch.autograd.grad(logits[1], rows)[0][1]
        scores.append((multipliers * (rows[0] - rows[1]).detach()).sum(-1))
        outputs.append(logits.tolist())
    return torch.stack(scores).mean(0), float(np.mean([o[1] for o in outputs])), outputs[0][0]


@pytest.fixture
def texts(tmp_path: Path) -> str:
    file = tmp_path / "background.txt"
    file.write_text("\n".join([*TEXTS, "", " a dull film ", "good", "it was old", TEXT]), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("text", [TEXT, LONG])
@pytest.mark.parametrize("architecture", ENCODERS)
def test_equals_the_mean_over_all_backgrounds(architecture: str, text: str, target: int, texts: str) -> None:
    """Tolerance 1e-4; also for the class that is not output 0."""
    model = text_model(architecture)
    (found,) = DeepShap(background=texts, samples=99).explain(model, [text], [target])
    used = [line for line in [*TEXTS, "a dull film", "good", "it was old", TEXT] if line != text]
    theirs, base, full = slow(model, text, used, target)
    np.testing.assert_allclose(found.array, per_unit(found.units, theirs), atol=1e-4)
    assert found.details["base_value"] == pytest.approx(base, abs=1e-5)
    assert sum(found.scores) == pytest.approx(full - base, abs=2e-5)
    rows = len(used) + -(-len(used) // 4)
    assert (found.cost.forwards, found.cost.backwards) == (rows, rows)


def test_the_target_is_explained_and_not_the_first_output() -> None:
    model = text_model("bert")
    negative, positive = (DeepShap().explain(model, [TEXT], [label])[0] for label in ("negative", "positive"))
    assert np.abs(negative.array - positive.array).max() > 1e-2


def test_differences_of_embeddings_count_and_not_of_token_ids() -> None:
    """An embedding table of zeros makes all texts alike, whatever their ids are."""
    model = text_model("bert")
    with torch.no_grad():
        model.network.get_input_embeddings().weight.zero_()
    (found,) = DeepShap().explain(model, [TEXT])
    np.testing.assert_allclose(found.array, 0, atol=1e-7)


def test_one_background_text_is_deeplift_with_that_text(tmp_path: Path) -> None:
    file = tmp_path / "one.txt"
    file.write_text("good\n", encoding="utf-8")
    model = text_model("bert")
    (found,) = DeepShap(background=str(file)).explain(model, [TEXT])
    (single,) = DeepLift(baseline="token:good").explain(model, [TEXT])
    np.testing.assert_allclose(found.array, single.array, atol=1e-5)


def test_pairs_take_a_background_for_each_text() -> None:
    single = text_model("bert")
    both = compose(single.network, single.tokenizer, inputs="pair")
    (found,) = DeepShap().explain(both, [Example(TEXTS[0], TEXTS[1])])
    gap = found.prediction.value(found.target) - found.details["base_value"]
    assert sum(found.scores) == pytest.approx(gap, abs=2e-5)
    second = np.array([span.field == 1 for span in found.units.spans])
    assert np.abs(found.array[second]).max() > 1e-3 < np.abs(found.array[~second]).max()


def test_a_text_is_not_its_own_background() -> None:
    model = text_model("bert")
    assert DeepShap(samples=16).cost(model.units([Example(TEXT)])[0]).forwards == 20
    assert DeepShap(samples=16).cost(model.units([Example(BACKGROUND[3])])[0]).forwards == 19


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read"), ("\n \n", "is empty"), (TEXT, "no text besides")]
)
def test_a_useless_background_file_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "texts.txt"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        DeepShap(background=str(file)).explain(text_model("bert"), [TEXT])
