"""Tokenizers that cannot be a model's own are refused, and tokens that they do not know are counted."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer, pipeline

import didact
from didact.errors import ModelError
from didact.models.encoders import load_encoder
from didact.models.load import load_model
from didact.render import facts
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example


def without_tokenizer(folder: Path, architecture: str) -> Path:
    network, _ = tiny_model(architecture)
    network.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta", "electra", "distilbert", "gpt2", "llama"])
def test_a_directory_without_tokenizer_files_is_refused(tmp_path: Path, architecture: str) -> None:
    folder = without_tokenizer(tmp_path, architecture)
    with pytest.raises(ModelError) as refused:
        load_model(folder)
    assert "tokenizer" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_refusal_names_the_folder_and_the_files_that_belong_there(tmp_path: Path) -> None:
    folder = without_tokenizer(tmp_path, "bert")
    with pytest.raises(
        ModelError, match=r"knows \d+ tokens, but the model embeds \d+.*holds no tokenizer files.*\.json"
    ):
        load_model(folder)
    with pytest.raises(ModelError, match="holds no tokenizer files"):
        load_encoder(folder)


def test_a_made_up_tokenizer_is_refused_in_pairs_and_pipelines(tmp_path: Path) -> None:
    network, _ = tiny_model("bert")
    empty = AutoTokenizer.from_pretrained(without_tokenizer(tmp_path, "bert"))
    with pytest.raises(ModelError, match="cannot be the one that the model was trained with"):
        load_model((network, empty))
    with pytest.raises(ModelError, match="cannot be the one that the model was trained with"):
        load_model(pipeline("text-classification", model=network, tokenizer=empty, device="cpu"))


def test_a_vocabulary_with_ids_beyond_the_table_is_refused() -> None:
    network, tokenizer = tiny_model("bert")
    load_model((network, tokenizer))
    tokenizer.add_tokens(["neverseen"])
    with pytest.raises(ModelError, match=r"ids up to \d+, but the model embeds only \d+ tokens"):
        load_model((network, tokenizer))


def test_a_vocabulary_of_less_than_half_the_table_is_refused_and_resizing_is_a_way_out() -> None:
    network, tokenizer = tiny_model("bert")
    before = load_model((network, tokenizer)).predict([Example(TEXTS[0])])[0]
    network.resize_token_embeddings(2 * len(tokenizer) + 2)
    with pytest.raises(ModelError, match="resize_token_embeddings"):
        load_model((network, tokenizer))
    network.resize_token_embeddings(len(tokenizer) + 30)  # rows that no token uses, as many models have
    after = load_model((network, tokenizer)).predict([Example(TEXTS[0])])[0]
    assert after.outputs == pytest.approx(before.outputs, abs=1e-6)


def test_unknown_tokens_are_counted_and_every_output_shows_their_share() -> None:
    model = load_model(tiny_model("bert"))
    known, some, none = model.units([Example(TEXTS[0]), Example("good Ω Ω good"), Example("Ω Ж")])
    assert (known.unknown, some.unknown, none.unknown) == (0.0, 0.5, 1.0)
    (tokens,) = model.units([Example("good Ω Ω good")], "token")
    assert tokens.unknown == 0.5
    explanation = didact.explain("good Ω Ω good", model, "occlusion")
    assert any("50 % of the text's tokens are unknown" in line for line in facts.warnings(explanation))
    again = didact.Explanation.from_dict(explanation.to_dict())
    assert again.units.unknown == 0.5


def test_special_tokens_of_the_model_are_no_unknown_ones() -> None:
    network, tokenizer = tiny_model("bert")
    tokenizer.unk_token = tokenizer.cls_token  # added to every text, and never part of it
    (units,) = load_model((network, tokenizer)).units([Example(TEXTS[0])])
    assert units.unknown == 0.0
