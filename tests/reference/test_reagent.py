"""ReAGent against its definition with replacements made by hand, and the pools that words are drawn from."""

from pathlib import Path

import numpy as np
import pytest
import torch

from didact.attribution.occlusion import Occlusion
from didact.attribution.reagent import Reagent
from didact.errors import InputError, ParameterError
from didact.models.load import load_model
from didact.models.tokens.replacements import COMMON, token_pool, word_pool
from didact.testing.tiny import TEXTS, keyword_predict, tiny_tokenizer
from didact.types import Example, Target
from tests.reference.plain import TEXT, encoded, text_model, value, without

LABELS = ["negative", "positive"]


def update(before: float, after: float) -> float:
    """The published update: the difference moved from [-1, 1] to [0, 1], as a log-odds."""
    moved = (1 + before - after) / 2
    return float(np.log(moved / (1 - moved)))


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_equals_the_updates_added_up_one_by_one(architecture: str) -> None:
    """The order is that of the published softmax of added-up updates; scores are differences of mean updates."""
    model = text_model(architecture)
    method = Reagent(rounds=5, seed=3)
    (found,) = method.explain(model, [TEXT], ["positive"])
    n = len(found.units)
    inputs = encoded(model, TEXT)
    pool = token_pool(model.tokenizer, None)
    fingerprint = int(found.example.fingerprint, 16)
    before = value(model, 1, "probability", **inputs)
    assert found.target == Target(1, "positive", "probability")
    groups_rng = np.random.default_rng([3, fingerprint])
    importance = np.zeros(n)
    up: list[list[float]] = [[] for _ in range(n)]
    down: list[list[float]] = [[] for _ in range(n)]
    row = 0
    for _ in range(5):
        for group in np.array_split(groups_rng.permutation(n), 3):
            row += 1  # row 0 is the text itself
            drawn = np.random.default_rng([3, fingerprint, row]).integers(len(pool), size=inputs["input_ids"].shape[1])
            kept = without(found.units, group, len(drawn))
            ids = torch.where(kept, inputs["input_ids"], torch.from_numpy(pool[drawn]))
            step = update(before, value(model, 1, "probability", **inputs | {"input_ids": ids}))
            for unit in range(n):
                importance[unit] += step if unit in group else -step
                (up if unit in group else down)[unit].append(step)
    wanted = [np.mean(a) - np.mean(b) for a, b in zip(up, down, strict=True)]
    np.testing.assert_allclose(found.array, wanted, atol=2e-5)
    softmax = np.exp(importance) / np.exp(importance).sum()
    assert np.argsort(softmax).tolist() == np.argsort(found.array).tolist()


def test_every_round_replaces_every_unit_once() -> None:
    method = Reagent(rounds=7, share=0.25)
    (units,) = load_model(keyword_predict, labels=LABELS).units([Example("a b c d e f g h i")])
    groups = method._groups(units)
    assert groups.reshape(7, 4, 9).sum(axis=1).tolist() == [[1] * 9] * 7
    assert groups.sum(axis=1).max() == 3


def test_finds_planted_words_in_a_black_box() -> None:
    model = load_model(keyword_predict, labels=LABELS)
    (found,) = Reagent().explain(model, ["a truly wonderful film with a warm but dull heart"], ["positive"])
    scores = dict(zip(found.units.texts, found.scores, strict=True))
    assert max(scores, key=scores.__getitem__) == "wonderful"
    assert min(scores, key=scores.__getitem__) == "dull"
    assert scores["wonderful"] > scores["warm"] > 0.1 > abs(scores["film"])


def test_one_word_is_compared_with_the_text_itself() -> None:
    model = load_model(keyword_predict, labels=LABELS)
    (found,) = Reagent(rounds=4).explain(model, ["wonderful"])
    full, none = 1 / (1 + np.exp(-2)), 0.5  # no common word counts
    assert found.scores[0] == pytest.approx(update(full, none))


def test_repeated_masks_get_other_words() -> None:
    """With two words the groups repeat in every round, but what replaces them does not."""
    seen: list[str] = []

    def remember(texts: list[str]) -> np.ndarray:
        seen.extend(texts)
        return keyword_predict(texts)

    model = load_model(remember, labels=LABELS, version="1")  # with a version it is not tried on texts of our own
    Reagent(rounds=20).explain(model, ["good film"])
    assert sum(text.startswith("good ") for text in set(seen)) > 10
    assert all(word in {*COMMON.split(), "good", "film"} for text in seen[1:] for word in text.split())


def test_a_background_text_is_what_words_are_drawn_from(tmp_path: Path) -> None:
    file = tmp_path / "reviews.txt"
    file.write_text("dull dull dull worse\n\ndull, dull\n", encoding="utf-8")
    words = word_pool(str(file))
    assert (words.count("dull"), words.count("worse")) == (5, 1)
    ids = token_pool(tiny_tokenizer("bert"), str(file))
    pieces = tiny_tokenizer("bert").convert_ids_to_tokens(ids.tolist())
    assert (pieces.count("d"), pieces.count(",")) == (5, 1)  # d ##u ##l ##l
    model = load_model(keyword_predict, labels=LABELS)
    (found,) = Reagent(background=str(file), rounds=10).explain(model, ["warm"], ["positive"])
    lowest = update(1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1.5)))  # replaced by "dull"
    assert 0 < found.scores[0] <= lowest
    assert found.parameters["background"] == str(file)
    with pytest.raises(InputError, match=r"cannot read replacements from .*nothing.txt: No such file"):
        Reagent(background=str(tmp_path / "nothing.txt")).explain(model, ["warm film"])
    for name in ("half \ud800.txt", "zero \x00.txt"):  # no file can be called so
        with pytest.raises(InputError, match="cannot read replacements from"):
            Reagent(background=name).explain(model, ["warm film"])
    (tmp_path / "blank.txt").write_text("\n")
    for given in (model, text_model()):
        with pytest.raises(InputError, match="to draw replacements from in"):
            Reagent(background=str(tmp_path / "blank.txt")).explain(given, ["warm film"])


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta", "gpt2"])
def test_without_one_whole_words_of_the_vocabulary_are(architecture: str) -> None:
    tokenizer = tiny_tokenizer(architecture)
    tokenizer.backend_tokenizer.enable_padding(length=9)
    pool = token_pool(tokenizer, None)
    assert tokenizer.backend_tokenizer.padding["length"] == 9  # the user's settings stay
    written = {str(tokenizer.decode([i])).strip("\u2581 ") for i in pool.tolist()}
    known = {word.strip(",:") for text in TEXTS for word in text.split()}
    assert "a" in written
    assert all(word.isalpha() for word in written)
    assert len(written & known) >= (20 if architecture == "bert" else 2)
    assert not {"ful", "ed"} & written if architecture == "bert" else True


def test_other_methods_can_sample_too() -> None:
    model = text_model()
    one, same, other = (
        Occlusion(absence=absence).explain(model, [TEXT])[0] for absence in ("sample", "sample:0", "sample:1")
    )
    assert one.scores == same.scores
    assert one.scores != other.scores
    (beside,) = (Occlusion(absence="sample").explain(model, [TEXTS[1], TEXT])[1],)
    np.testing.assert_allclose(one.array, beside.array, atol=1e-5)


def test_mistakes_are_told() -> None:
    model = text_model()
    with pytest.raises(ParameterError, match="share of reagent must be at most 1"):
        Reagent(share=2)
    with pytest.raises(ParameterError, match="unknown perturbation 'sample:x'"):
        Occlusion(absence="sample:x").explain(model, [TEXT])
    with pytest.raises(ParameterError, match="here one is needed"):
        model.embed(model.units([Example(TEXT)]), "sample")
