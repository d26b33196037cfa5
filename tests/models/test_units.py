"""Words by character offsets in every tokenizer's manner, and what the length limit cuts off."""

import numpy as np
import pytest

from didact.errors import InputError
from didact.models.load import load_model
from didact.models.tokens import encoding
from didact.testing.tiny import ARCHITECTURES, TEXTS, tiny_model, tiny_tokenizer
from didact.types import Example

ODD = "Don't miss it: a wonderful-ish, naïve 😀 film..."


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_same_words_whatever_the_tokenizer(architecture: str) -> None:
    model = load_model(tiny_model(architecture))
    (units,) = model.units([Example(ODD)])
    assert units.texts == ("Don't", "miss", "it", ":", "a", "wonderful-ish", ",", "naïve", "😀", "film", "...")
    assert units.truncated == 0.0


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_tokens_are_pieces_of_the_source(architecture: str) -> None:
    model = load_model(tiny_model(architecture))
    (units,) = model.units([Example("wonderful unforgettable")], "token")
    assert len(units) > 2
    assert "".join(text.strip() for text in units.texts) == "wonderfulunforgettable"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_words_between_blanks_are_those_given(architecture: str) -> None:
    model = load_model(tiny_model(architecture))
    (units,) = model.units([Example(ODD)], "whitespace")
    assert units.texts == tuple(ODD.split())
    (words,) = model.units([Example(ODD)])
    assert {p for own in units.positions for p in own} == {p for own in words.positions for p in own}


def test_a_pair_has_units_in_both_fields() -> None:
    model = load_model(tiny_model("bert"), inputs="pair")
    (units,) = model.units([Example("good food", "dull plot")])
    assert [(span.field, text) for span, text in zip(units.spans, units.texts, strict=True)] == [
        (0, "good"),
        (0, "food"),
        (1, "dull"),
        (1, "plot"),
    ]


@pytest.mark.parametrize("room", [1, 12, 1_000])
def test_texts_are_tokenised_together_as_each_alone(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs among single texts, more of them than fit into a call, and a memory for none, some or all of them."""
    monkeypatch.setattr(encoding, "TOGETHER", 2)
    monkeypatch.setattr(encoding, "RECENT", room)
    texts = [Example(TEXTS[0]), Example("good food", "dull plot"), Example(ODD), Example(TEXTS[0]), Example("dull")]
    texts += [Example("a", "film"), Example("a film"), Example(TEXTS[1], TEXTS[2])]
    tokenizer = tiny_tokenizer("bert")
    together, alone = encoding.Encoder(tokenizer, 9, 1.0), encoding.Encoder(tokenizer, 9, 1.0)
    wanted = [alone.encode([one])[0] for one in texts]
    for _ in range(2):
        for mine, other in zip(together.encode(texts), wanted, strict=True):
            assert (mine.ids.tolist(), mine.tokens) == (other.ids.tolist(), other.tokens)
            np.testing.assert_array_equal(mine.types, other.types)  # type: ignore[arg-type]
    assert together.units(texts, "word") == [alone.units([one], "word")[0] for one in texts]
    assert together.encode([]) == together.units([], "word") == []


def test_what_is_cut_off_is_recorded_as_a_share_of_characters() -> None:
    model = load_model(tiny_model("bert"), max_length=7)  # five words and two special tokens
    (units,) = model.units([Example("good good good good good film film")])
    assert len(units) == 5
    assert units.truncated == pytest.approx(8 / 28)


def test_the_cut_of_a_pair_counts_both_texts() -> None:
    model = load_model(tiny_model("bert"), inputs="pair", max_length=7)
    (units,) = model.units([Example("good good good good", "film film")])
    assert units.truncated == pytest.approx(8 / 24)


def test_a_text_that_mostly_does_not_fit_is_refused_unless_allowed() -> None:
    text = "good film " * 10_000
    with pytest.raises(InputError, match=r"100,000 characters, but the model's limit of 128 tokens cuts off 99 %|9\d%"):
        load_model(tiny_model("bert")).units([Example(text)])
    (units,) = load_model(tiny_model("bert"), max_truncated=1.0).units([Example(text)])
    assert units.truncated > 0.99
    assert len(units) == 126


def test_length_limits_come_from_the_model() -> None:
    roberta, tokenizer = tiny_model("roberta")
    tokenizer.model_max_length = 10**30
    model = load_model((roberta, tokenizer), max_truncated=1.0)
    (units,) = model.units([Example("good film " * 200)])
    assert len(units) == 127  # 130 positions, of which RoBERTa skips pad_token_id + 1 = 1, and two special tokens
    assert len(model.predict([units.example])) == 1


def test_the_tokenizer_keeps_its_own_settings() -> None:
    network, tokenizer = tiny_model("bert")
    tokenizer.backend_tokenizer.enable_padding(length=64)
    tokenizer.backend_tokenizer.enable_truncation(max_length=64)
    before = (tokenizer.backend_tokenizer.padding, tokenizer.backend_tokenizer.truncation)
    model = load_model((network, tokenizer))
    (units,) = model.units([Example(TEXTS[0])])
    assert len(units) == 8
    assert (tokenizer.backend_tokenizer.padding, tokenizer.backend_tokenizer.truncation) == before
