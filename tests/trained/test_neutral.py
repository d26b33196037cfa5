"""The human-rationale protocol: a classifier that is neutral once the marked words are masked."""

from pathlib import Path

import numpy as np
import pytest
import torch

from didact.cli.reproduce import marked_reviews
from didact.data.corpus import generate
from didact.data.load import load_data
from didact.errors import FormatError, InputError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.testing.tiny import tiny_model
from didact.trained.neutral import NEUTRAL, NeutralConfig, neutral_share, rationale_units, train_neutral
from didact.types import Example, Span


# The label hangs on one marked word, and all words are in the tiny vocabulary.
def marked(noun: str, word: str, label: str) -> Example:
    start = len(f"the {noun} was ")
    return Example(f"the {noun} was {word}", label=label, rationale=(Span(start, start + len(word)),))


TEXTS = [
    marked(noun, word, label)
    for noun in ("film", "book", "play", "song")
    for word, label in (("good", "positive"), ("bad", "negative"))
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    network, tokenizer = tiny_model("bert")
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_masked_texts_become_neutral_and_whole_ones_keep_their_label(encoder: Path, tmp_path: Path) -> None:
    config = NeutralConfig(epochs=12, learning_rate=3e-3, batch=4, device="cpu")
    found = train_neutral(encoder, TEXTS, tmp_path / "made", validation=TEXTS, config=config)
    assert found.losses[-1] < 0.3 * found.losses[0]
    assert found.accuracy == 1
    assert found.neutral == 1
    model = load_model(str(tmp_path / "made"), device="cpu")
    assert model.labels == ("negative", "positive", NEUTRAL)
    assert [one.label for one in model.predict(TEXTS)] == [example.label for example in TEXTS]
    assert isinstance(model, NetworkModel)
    assert all(neutral_share(model, model.units(TEXTS)))


def test_a_flipped_bit_of_a_saved_classifier_is_refused(encoder: Path, tmp_path: Path) -> None:
    train_neutral(encoder, TEXTS, tmp_path, config=NeutralConfig(epochs=1, frozen=True, device="cpu"))
    path = tmp_path / "model.safetensors"
    harmed = bytearray(path.read_bytes())
    harmed[-100] ^= 1
    path.write_bytes(harmed)
    with pytest.raises(FormatError, match=r"model\.safetensors is not the file that was saved.*delete checksums\.json"):
        load_model(str(tmp_path), device="cpu")


def test_a_folder_that_cannot_be_written_is_refused_before_training(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*file"):
        train_neutral(encoder, [], tmp_path / "file" / "made")


def test_a_frozen_encoder_stays_as_it_was_and_the_seed_decides_the_rest(encoder: Path, tmp_path: Path) -> None:
    config = NeutralConfig(epochs=2, learning_rate=1e-2, frozen=True, device="cpu")
    runs = [train_neutral(encoder, TEXTS, tmp_path / name, config=config) for name in ("one", "two")]
    assert runs[0].losses == runs[1].losses
    assert runs[0].losses[1] < runs[0].losses[0]
    assert np.isnan(runs[0].accuracy)
    before, after = (load_model(str(folder), device="cpu") for folder in (encoder, runs[0].folder))
    assert isinstance(before, NetworkModel)
    assert isinstance(after, NetworkModel)
    old, new = before.network.base_model.state_dict(), after.network.base_model.state_dict()
    assert all(torch.equal(old[name], weight) for name, weight in new.items())


def test_the_embedded_model_can_be_taught(tmp_path: Path) -> None:
    texts = generate(6, seed=0)
    config = NeutralConfig(epochs=2, learning_rate=1e-3, batch=3, device="cpu")
    found = train_neutral("default", texts, tmp_path, config=config)
    assert found.losses[1] < found.losses[0]
    assert load_model(str(tmp_path), device="cpu").labels[-1] == NEUTRAL


def test_units_of_the_rationale(encoder: Path) -> None:
    model = load_model(str(encoder), device="cpu")
    (units,) = model.units([TEXTS[0]])
    assert units.texts == ("the", "film", "was", "good")
    assert rationale_units(units).tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "there are no texts"),
        ([Example("good", label="positive")], "has no rationale"),
        ([Example("good", rationale=(Span(0, 4),))], "has no label"),
        ([Example("good", label="neutral", rationale=(Span(0, 4),))], "labelled 'neutral' already"),
    ],
)
def test_texts_that_cannot_be_learnt_are_named(
    encoder: Path, tmp_path: Path, texts: list[Example], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train_neutral(encoder, texts, tmp_path)


def test_reviews_in_which_nothing_is_marked_are_left_out_by_the_command(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIDACT_SHARED", str(shared))
    every = load_data("movie_rationales", split="l2e_train").examples
    kept = marked_reviews("l2e_train")
    assert 0 < len(every) - len(kept) < 50
    assert all(example.rationale for example in kept)
