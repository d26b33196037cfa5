"""Everything a model may come as, and clear errors for what it may not."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import pipeline

import didact
from didact.errors import InputError, ModelError, ParameterError, TargetError
from didact.models.load import load_model
from didact.models.outputs import resolve_target
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.types import Example, Target

EXAMPLE = Example(TEXTS[0])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    network, tokenizer = tiny_model("bert")
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_every_door_leads_to_the_same_model(directory: Path) -> None:
    network, tokenizer = tiny_model("bert")
    pipe = pipeline("text-classification", model=network, tokenizer=tokenizer, device="cpu")
    answers = [load_model(x).predict([EXAMPLE])[0] for x in (directory, str(directory), (network, tokenizer), pipe)]
    for answer in answers:
        np.testing.assert_allclose(answer.outputs, answers[0].outputs, atol=1e-6)
    again = load_model(load_model(directory))
    assert again.labels == ("negative", "positive")


def test_a_directory_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no model: there is no config\.json"):
        load_model(tmp_path)
    with pytest.raises(ModelError, match=r"cannot load 'no-such-owner/no-such-model'.*not a directory here"):
        load_model("no-such-owner/no-such-model")
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(ModelError, match="is a file"):
        load_model(tmp_path / "file.txt")


def test_weights_that_are_not_safetensors_are_refused(directory: Path) -> None:
    network, _ = tiny_model("bert")
    (directory / "model.safetensors").unlink()
    torch.save(network.state_dict(), directory / "pytorch_model.bin")
    with pytest.raises(ModelError, match="safetensors"):
        load_model(directory)


def test_a_model_without_a_classification_head(tmp_path: Path) -> None:
    network, tokenizer = tiny_model("bert")
    network.base_model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="there is no head for BertModel"):
        load_model(tmp_path)
    with pytest.raises(ModelError, match="there is no head for BertModel"):
        load_model((network.base_model, tokenizer))


def test_weights_that_lack_the_head(directory: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(directory / "model.safetensors")
    del weights["classifier.weight"]
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lack classifier\.weight"):
        load_model(directory)


def test_a_tokenizer_that_is_not_fast() -> None:
    from transformers import PythonBackend

    class Slow(PythonBackend):
        vocab_size = 1

        def get_vocab(self) -> dict[str, int]:
            return {}

    network, _ = tiny_model("bert")
    with pytest.raises(ModelError, match="Slow is not a fast tokenizer"):
        load_model((network, Slow()))


def test_things_that_are_no_model() -> None:
    network, _ = tiny_model("bert")
    with pytest.raises(ModelError, match=r"give \(model, tokenizer\)"):
        load_model(network)
    with pytest.raises(ModelError, match="cannot load a model from int; allowed"):
        load_model(3)
    with pytest.raises(ModelError, match="must be a tokenizer, got str"):
        load_model((network, "bert"))


def test_a_pipeline_of_another_task() -> None:
    network, tokenizer = tiny_model("bert")
    pipe = pipeline("text-classification", model=network, tokenizer=tokenizer, device="cpu")
    pipe.task = "fill-mask"
    with pytest.raises(ModelError, match="task is 'fill-mask'"):
        load_model(pipe)


def test_cuda_asked_for_and_absent(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # also where there is a GPU
    with pytest.raises(ParameterError, match="no CUDA device is available here; use device='cpu'"):
        load_model(directory, device="cuda")
    with pytest.raises(ParameterError, match="unknown device 'gpu'"):
        load_model(directory, device="gpu")


def test_a_model_object_is_never_moved() -> None:
    with pytest.raises(ModelError, match="never moved"):
        load_model(tiny_model("bert"), device="meta")


def test_a_pair_given_to_a_single_text_model_and_the_other_way_round() -> None:
    single = load_model(tiny_model("bert"))
    with pytest.raises(InputError, match="explains single texts, but a pair was given"):
        single.predict([Example("a", "b")])
    entailment = load_model(tiny_model("bert", ["entailment", "neutral", "contradiction"]))
    assert len(entailment.predict([Example("a", "b")])) == 1
    with pytest.raises(InputError, match="explains pairs of texts, but a single text was given"):
        entailment.units([Example("a")])


def test_targets() -> None:
    model = load_model(tiny_model("bert"))
    prediction = model.predict([EXAMPLE])[0]
    assert resolve_target(model, None, prediction).index == prediction.index
    assert resolve_target(model, "positive", prediction) == Target(1, "positive", "logit")
    assert resolve_target(model, "Positive", prediction).index == 1
    assert resolve_target(model, 0, prediction, "probability") == Target(0, "negative", "probability")
    with pytest.raises(TargetError, match=r"unknown label 'positve' \(did you mean positive\?\); known: negative, pos"):
        resolve_target(model, "positve", prediction)
    with pytest.raises(TargetError, match=r"label index 2 does not exist; .* 0 negative, 1 positive"):
        resolve_target(model, 2, prediction)
    box = load_model(keyword_predict)
    with pytest.raises(TargetError, match="no 'logit' scale; allowed: probability, log_probability"):
        resolve_target(box, None, box.predict([EXAMPLE])[0], "logit")


def test_fingerprints_tell_models_apart() -> None:
    network, tokenizer = tiny_model("bert")
    model = load_model((network, tokenizer))
    first = model.fingerprint()
    assert model.fingerprint() == first
    assert load_model(tiny_model("bert")).fingerprint() == first
    assert load_model(tiny_model("bert", seed=1)).fingerprint() != first
    with torch.no_grad():
        network.classifier.bias.add_(1)
    assert model.fingerprint() != first


def test_labels_name_the_classes_of_every_kind_of_model(directory: Path) -> None:
    network, tokenizer = tiny_model("bert")
    pipe = pipeline("text-classification", model=network, tokenizer=tokenizer, device="cpu")
    for source in (directory, (network, tokenizer), pipe, "default", keyword_predict):
        model = load_model(source, labels=["bad", "good"])
        (prediction,) = model.predict([EXAMPLE])
        assert model.labels == prediction.labels == ("bad", "good")
        assert resolve_target(model, "good", prediction).index == 1
    assert network.config.id2label == {0: "negative", 1: "positive"}  # the user's own stays


def test_labels_that_cannot_name_the_classes_are_refused(directory: Path) -> None:
    for source in (directory, tiny_model("bert"), "default"):
        with pytest.raises(ParameterError, match="3 labels were given, but the model has 2 outputs"):
            load_model(source, labels=["a", "b", "c"])
    with pytest.raises(ModelError, match=r"returned shape \(1, 2\); expected \(1, 3\)"):
        load_model(keyword_predict, labels=["a", "b", "c"]).predict([EXAMPLE])
    for labels, refusal in (("ab", "labels of load_model"), (["a", 3], "labels of load_model"), (["a", " "], "blank")):
        with pytest.raises(ParameterError, match=refusal):
            load_model(directory, labels=labels)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="labels must differ"):
        load_model(directory, labels=["a", "a"])


def test_options_for_a_model_that_is_loaded_already_are_refused(directory: Path) -> None:
    loaded = load_model(directory)
    with pytest.raises(ParameterError, match="is loaded already, so labels, max_length cannot be set"):
        load_model(loaded, labels=["bad", "good"], max_length=20)


def test_segment_ids_go_only_to_networks_that_take_them() -> None:
    network, _ = tiny_model("distilbert")
    _, tokenizer = tiny_model("bert")
    assert "token_type_ids" in tokenizer.model_input_names
    model = load_model((network, tokenizer))
    for card in didact.list_methods(model):
        if not card.needs_rationale:
            assert len(didact.explain("good film", model, card.name, progress=False).scores) == 2
    assert {"decompx", "globenc", "alti"} <= {card.name for card in didact.list_methods(model)}
    bert = load_model(tiny_model("bert"))
    assert "token_type_ids" in bert.reader.whole(bert.reader.encode([EXAMPLE]))


def test_a_decoder_without_a_padding_token_can_be_explained_by_every_method() -> None:
    network, tokenizer = tiny_model("gpt2")
    network.config.pad_token_id = tokenizer.pad_token = None
    model = load_model((network, tokenizer))
    for card in didact.list_methods(model):
        if not card.needs_rationale:
            assert np.isfinite(didact.explain("good film", model, card.name, progress=False).array).all()
    assert network.config.pad_token_id is None


def test_a_decoder_without_a_padding_token_gets_the_scores_it_has_with_one() -> None:
    network, tokenizer = tiny_model("gpt2")
    with_pad = didact.explain(TEXTS[0], (network, tokenizer), "deeplift", progress=False)
    network.config.pad_token_id = None
    without = didact.explain(TEXTS[0], (network, tokenizer), "deeplift", progress=False)
    np.testing.assert_allclose(without.array, with_pad.array, atol=1e-5)


def test_a_network_that_returns_no_numbers_is_an_error_that_names_the_text() -> None:
    network, tokenizer = tiny_model("bert")
    with torch.no_grad():
        network.classifier.bias.fill_(float("nan"))
    for method in ("random", "occlusion"):
        with pytest.raises(ModelError, match="returns NaN for 'a truly"):
            didact.explain(TEXTS[0], (network, tokenizer), method, progress=False)
