"""Everything a model may come as, and clear errors for what it may not."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import pipeline

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
