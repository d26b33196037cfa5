"""Networks as people have them: inside of peft and torch.compile, and with a decoder behind the encoder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import didact
from didact.errors import CapabilityError, InputError, ModelError, ParameterError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.testing.tiny import ENCODER_DECODERS, TEXTS, tiny_model
from didact.types import Example

EXAMPLES = [Example(text) for text in TEXTS]
LABELS = ("bad", "so so", "good")


def adapted(labels: tuple[str, ...] = LABELS, seed: int = 0):
    """A classifier with a LoRA adapter that changes its answers, and its tokenizer."""
    import peft

    network, tokenizer = tiny_model("bert", labels)
    settings = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return peft.get_peft_model(network, settings).eval(), tokenizer


def logits(model: NetworkModel) -> np.ndarray:
    return np.array([prediction.outputs for prediction in model.predict(EXAMPLES)])


def own_logits(network, tokenizer) -> np.ndarray:
    with torch.inference_mode():
        return torch.cat([network(**tokenizer(text, return_tensors="pt")).logits for text in TEXTS]).numpy()


@pytest.mark.filterwarnings("ignore")  # peft's own
def test_a_peft_model_is_explained_with_its_adapter() -> None:
    network, tokenizer = adapted()
    model = load_model((network, tokenizer))
    np.testing.assert_allclose(logits(model), own_logits(network, tokenizer), atol=1e-5)
    assert not np.allclose(logits(model), own_logits(*tiny_model("bert", LABELS)), atol=1e-2)
    assert {"differentiable", "attentive", "heads"} <= model.capabilities
    with pytest.raises(ModelError, match=r"a model alone cannot read text; give \(model, tokenizer\)"):
        load_model(network)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["absolute", "beside"])
def test_an_adapter_folder_brings_its_own_head_and_number_of_labels(tmp_path: Path, place: str) -> None:
    network, tokenizer = adapted()
    tiny_model("bert", LABELS)[0].bert.save_pretrained(
        tmp_path / "base"
    )  # an encoder without a head, as people have it
    tokenizer.save_pretrained(tmp_path / "lora")
    network.save_pretrained(tmp_path / "lora")
    entries = json.loads((tmp_path / "lora" / "adapter_config.json").read_text())
    entries["base_model_name_or_path"] = str(tmp_path / "base") if place == "absolute" else "../base"
    (tmp_path / "lora" / "adapter_config.json").write_text(json.dumps(entries))
    model = load_model(tmp_path / "lora", labels=LABELS)
    np.testing.assert_allclose(logits(model), own_logits(network, tokenizer), atol=1e-5)
    assert model.labels == LABELS


@pytest.mark.filterwarnings("ignore")
def test_an_adapter_that_leaves_the_head_untrained_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    network, tokenizer = adapted()
    tiny_model("bert", auto_class="AutoModel")[0].save_pretrained(tmp_path / "base")
    network.save_pretrained(tmp_path / "lora")
    tokenizer.save_pretrained(tmp_path / "lora")
    entries = json.loads((tmp_path / "lora" / "adapter_config.json").read_text())
    entries |= {"base_model_name_or_path": str(tmp_path / "base"), "modules_to_save": None}
    (tmp_path / "lora" / "adapter_config.json").write_text(json.dumps(entries))
    weights = load_file(tmp_path / "lora" / "adapter_model.safetensors")
    changes = {name: value for name, value in weights.items() if "lora_" in name}
    save_file(changes, tmp_path / "lora" / "adapter_model.safetensors")
    with pytest.raises(ModelError, match=r"lack classifier.bias, .*and the adapter in .*lora does not bring them"):
        load_model(tmp_path / "lora")


def test_an_adapter_of_another_task_is_refused(tmp_path: Path) -> None:
    (tmp_path / "adapter_model.safetensors").touch()
    entries = {"base_model_name_or_path": "x", "task_type": "SEQ_2_SEQ_LM"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(entries))
    with pytest.raises(ModelError, match="task_type is 'SEQ_2_SEQ_LM'; allowed: CAUSAL_LM, SEQ_CLS"):
        load_model(tmp_path)


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # from inside torch.compile
@pytest.mark.parametrize("wrap", ["compile", "data parallel", "both"])
def test_wrappers_of_torch_are_taken_off(wrap: str) -> None:
    network, tokenizer = tiny_model()
    inner = torch.nn.DataParallel(network) if wrap != "compile" else network
    model = load_model((torch.compile(inner) if wrap != "data parallel" else inner, tokenizer))
    assert model.network is network
    assert logits(model).tolist() == logits(load_model((network, tokenizer))).tolist()


def test_a_network_compiled_in_place_runs_uncompiled_and_stays_compiled() -> None:
    network, tokenizer = tiny_model()
    calls = []
    network.compile(backend=lambda graph, inputs: calls.append(1) or graph.forward)
    compiled = network._compiled_call_impl
    model = load_model((network, tokenizer))
    assert logits(model).tolist() == logits(load_model(tiny_model())).tolist()
    assert didact.explain(TEXTS[0], model, "attention").scores
    assert network._compiled_call_impl is compiled
    assert not calls


@pytest.mark.parametrize("architecture", ENCODER_DECODERS)
def test_encoder_decoders_predict_and_score_what_the_network_does(architecture: str) -> None:
    network, tokenizer = tiny_model(architecture)
    model = load_model((network, tokenizer))
    np.testing.assert_allclose(logits(model), own_logits(network, tokenizer), atol=1e-5)
    units = model.units(EXAMPLES)
    keep = [np.arange(len(unit))[None] != 2 for unit in units]
    (target,) = {model.target("positive", model.predict(EXAMPLES)[0], "logit")}
    scores = model.score(units, [target] * len(units), keep, "delete")
    for unit, score in zip(units, scores, strict=True):
        gone = set(unit.positions[2])
        ids = tokenizer(unit.example.text)["input_ids"]
        left = torch.tensor([[index for place, index in enumerate(ids) if place not in gone]])
        with torch.inference_mode():
            assert score[0] == pytest.approx(float(network(left).logits[0, 1]), abs=1e-5)


@pytest.mark.parametrize("architecture", ENCODER_DECODERS)
def test_gradients_of_encoder_decoders_go_through_both_stacks(architecture: str) -> None:
    network, tokenizer = tiny_model(architecture)
    model = load_model((network, tokenizer))
    (units,) = model.units(EXAMPLES[:1])
    target = model.target("positive", model.predict(EXAMPLES[:1])[0], "logit")
    (vectors,) = model.embed([units])
    ((_, gradient),) = model.gradients([units], [target], [vectors[None]], [np.ones(1)])
    ids = tokenizer(TEXTS[0])["input_ids"]
    row = network.get_input_embeddings().weight[ids[3]]  # of one token, which both stacks look up
    direction, values = torch.linspace(-1, 1, len(row)), []
    for step in (1e-2, -2e-2, 1e-2):
        values.append(own_logits(network, tokenizer)[0, 1])
        with torch.no_grad():
            row += step * direction
    expected = sum(float(gradient[place] @ direction) for place, index in enumerate(ids) if index == ids[3])
    assert expected == pytest.approx((values[1] - values[2]) / 2e-2, rel=0.02, abs=1e-3)


@pytest.mark.parametrize("architecture", ENCODER_DECODERS)
def test_what_encoder_decoders_cannot_do_is_refused(architecture: str) -> None:
    model = load_model(tiny_model(architecture))
    assert model.capabilities == {"differentiable"}
    with pytest.raises(CapabilityError, match=r"attention needs|needs"):
        didact.explain(TEXTS[0], model, "attention")
    with pytest.raises(ParameterError, match="use 'delete', not 'drop'"):
        didact.explain(TEXTS[0], model, "occlusion", absence="drop")
    with pytest.raises(InputError, match=r"'</s>' at character 5 is the token that marks the end of a text"):
        didact.explain("good </s> film", model, "occlusion")


def test_without_a_mask_token_absent_words_are_deleted() -> None:
    network, tokenizer = tiny_model("t5")
    tokenizer.mask_token = None  # as T5's own
    assert load_model((network, tokenizer)).default_absence == "delete"


def test_pairs_of_an_encoder_decoder() -> None:
    labels = ("contradiction", "neutral", "entailment")
    model = load_model(tiny_model("bart", labels))
    explanation = didact.explain(("a warm film", "a good heart"), model)
    assert model.inputs == "pair"
    assert {region.field for region in explanation.units.regions} == {0, 1}


def test_a_network_that_writes_text_from_text_is_refused() -> None:
    with pytest.raises(ModelError, match="there is no head for T5ForConditionalGeneration"):
        load_model(tiny_model("t5", auto_class="AutoModelForSeq2SeqLM"))


def test_dtype_of_what_is_loaded_here(tmp_path: Path) -> None:
    network, tokenizer = tiny_model()
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    half = load_model(tmp_path, dtype="bfloat16")
    assert half.dtype == torch.bfloat16
    np.testing.assert_allclose(logits(half), logits(load_model(tmp_path)), atol=0.2)
    assert load_model(dtype=torch.float64).dtype == torch.float64
    assert load_model((network, tokenizer), dtype="float32").dtype == torch.float32
    with pytest.raises(ParameterError, match="dtype must be one of float32, bfloat16, float16, float64, got 'int8'"):
        load_model(tmp_path, dtype="int8")
    with pytest.raises(ModelError, match=r"weights of the model are torch.float32 and are never changed"):
        load_model((network, tokenizer), dtype="bfloat16")
    with pytest.raises(ParameterError, match="dtype is for networks that are loaded here"):
        load_model(lambda texts: [[0.5, 0.5]] * len(texts), dtype="bfloat16")
