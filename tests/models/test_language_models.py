"""Language models from LoRA adapters and GGUF files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from didact.errors import ModelError
from didact.models.encoders import Placement
from didact.models.language_models import read_gguf, without_peft
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.prompting.prompts import Prompt
from didact.testing.tiny import tiny_language_model
from didact.types import Example

PROMPT = Prompt("Review: {text}\nIt is", ["good", "dull"])
TEXT = [Example("a warm film")]


def adapted(folder: Path) -> tuple[object, object]:
    """A tiny language model with a LoRA adapter that changes its answers, both saved."""
    import peft

    network, tokenizer = tiny_language_model("llama")
    network.save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    network.name_or_path = str(folder / "base")
    settings = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = peft.get_peft_model(network, settings)
    model.save_pretrained(folder / "lora")
    return model.eval(), tokenizer


@pytest.mark.filterwarnings("ignore")  # peft's own
def test_adapters_are_part_of_the_model(tmp_path: Path) -> None:
    given = adapted(tmp_path)
    model = load_model(given, prompt=PROMPT)
    from_folder = load_model(str(tmp_path / "lora"), prompt=PROMPT)
    plain = load_model(str(tmp_path / "base"), prompt=PROMPT)
    assert isinstance(model, NetworkModel)
    shares = [np.array(own.predict(TEXT)[0].probabilities) for own in (model, from_folder, plain)]
    np.testing.assert_allclose(shares[0], shares[1], atol=1e-5)
    assert np.abs(shares[0] - shares[2]).max() > 1e-3
    assert model.fingerprint() != plain.fingerprint()
    assert model.traits.reuses_prefix
    assert "differentiable" in model.capabilities


@pytest.mark.filterwarnings("ignore")
def test_learned_prompts_are_refused() -> None:
    import peft

    network, tokenizer = tiny_language_model("llama")
    settings = peft.PromptTuningConfig(num_virtual_tokens=2, task_type="CAUSAL_LM")
    with pytest.raises(ModelError, match="PROMPT_TUNING adds learned vectors to the inputs"):
        without_peft((peft.get_peft_model(network, settings), tokenizer))


def test_an_adapter_without_its_network_is_named(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(tmp_path / "none")}))
    with pytest.raises(ModelError, match=r"holds no adapter_model.safetensors"):
        load_model(str(tmp_path), prompt=PROMPT)
    save_file({}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ModelError, match=r"changes the network '.*none', and there is no such directory; put that"):
        load_model(str(tmp_path), prompt=PROMPT)
    (tmp_path / "none").mkdir()
    with pytest.raises(ModelError, match=r"cannot load the base '.*none': .* needs this network"):
        load_model(str(tmp_path), prompt=PROMPT)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"a file of weights, damaged"):
        load_model(str(tmp_path), prompt=PROMPT)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"names no base_model_name_or_path"):
        load_model(str(tmp_path), prompt=PROMPT)


def test_a_damaged_gguf_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelError, match=r"cannot load .*model.gguf"):
        read_gguf(file, Placement("cpu"))
