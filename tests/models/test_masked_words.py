"""Words that a masked language model proposes."""

from pathlib import Path

import pytest
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerBase

import didact
from didact.errors import ModelError
from didact.models.load import load_model
from didact.models.masked_words import MaskedWords
from didact.testing.tiny import TEXTS, tiny_language_model, tiny_model, tiny_tokenizer
from didact.types import Example


@pytest.fixture(scope="module")
def masked() -> tuple[BertForMaskedLM, PreTrainedTokenizerBase]:
    tokenizer = tiny_tokenizer("bert")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **sizes)), tokenizer


def test_every_word_gets_other_whole_words(masked: tuple[BertForMaskedLM, PreTrainedTokenizerBase]) -> None:
    (units,) = load_model(tiny_model("bert")).units([Example(TEXTS[0])])
    network = masked[0].train()
    proposed = MaskedWords(masked, words=3)(units)
    assert network.training  # as it was given
    assert list(proposed) == list(range(len(units)))
    for unit, words in proposed.items():
        assert len(words) <= 3
        assert all(word.isalpha() and word.casefold() != units.texts[unit].casefold() for word in words)
    assert any(proposed.values())


def test_a_flip_may_replace_words(masked: tuple[BertForMaskedLM, PreTrainedTokenizerBase]) -> None:
    model = load_model(tiny_model("bert"))
    flip = didact.flip(TEXTS[2], model, budget=60, masked_lm=masked)
    assert flip.prediction_after.probabilities == pytest.approx(model.predict([flip.after])[0].probabilities, abs=1e-5)


def test_what_cannot_fill_a_mask_is_refused() -> None:
    with pytest.raises(ModelError, match="has no mask token"):
        MaskedWords(tiny_language_model("llama"))
    with pytest.raises(ModelError, match="is a Hub id, a directory or"):
        MaskedWords(7)
    with pytest.raises(ModelError, match=r"cannot load the masked language model '\./nowhere'"):
        MaskedWords("./nowhere")


def test_one_on_disk_needs_its_head(masked: tuple[BertForMaskedLM, PreTrainedTokenizerBase], tmp_path: Path) -> None:
    network, tokenizer = masked
    for folder, saved in (("whole", network), ("headless", network.bert)):
        saved.save_pretrained(tmp_path / folder)
        tokenizer.save_pretrained(tmp_path / folder)
    (units,) = load_model(tiny_model("bert")).units([Example(TEXTS[0])])
    assert MaskedWords(str(tmp_path / "whole"))(units) == MaskedWords(masked)(units)
    with pytest.raises(ModelError, match=r"lack cls\..*cannot propose words"):
        MaskedWords(str(tmp_path / "headless"))
