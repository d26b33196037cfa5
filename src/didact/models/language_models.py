"""Language models in the forms in which they are passed on: GGUF files and LoRA adapters."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import torch

from didact.errors import ModelError
from didact.models.encoders import Loaded, check_weights, first_line, pretrained, reading

GGUF = ".gguf"
ADAPTER = "adapter_config.json"
"""What marks a directory as one that peft wrote."""
WEIGHTS = "adapter_model.safetensors"


def read_gguf(path: Path, device: torch.device) -> Loaded:
    """Network, in float32, and tokenizer of a GGUF file; quantised weights become the numbers that they stand for."""
    place = str(path.parent)
    needs = "(GGUF files are read with the package gguf: pip install 'didact[llm]')"
    with reading(repr(str(path)), needs), contextlib.redirect_stderr(io.StringIO()):  # a bar of its own
        tokenizer = pretrained("AutoTokenizer", place, gguf_file=path.name)
        network, report = pretrained(
            "AutoModelForCausalLM", place, gguf_file=path.name, dtype=torch.float32, output_loading_info=True
        )
    check_weights(report, repr(str(path)), lambda key: True)
    network.name_or_path = path.stem
    return network.to(device).eval(), tokenizer


def is_adapter(folder: Path) -> bool:
    """Whether peft wrote an adapter here, without the network that it adapts."""
    return (folder / ADAPTER).is_file() and not (folder / "config.json").is_file()


def read_adapter(folder: Path, device: torch.device, trust: bool) -> Loaded:
    """The network that an adapter was trained on, with the adapter in it, and the tokenizer of either."""
    if not (folder / WEIGHTS).is_file():
        raise ModelError(f"{folder} holds no {WEIGHTS}; weights of adapters are read from safetensors only")
    with reading(repr(str(folder)), "(is the network that it adapts where adapter_config.json says?)"):
        entries = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
        base, task = str(entries["base_model_name_or_path"]), entries.get("task_type")
        kind = "AutoModelForSequenceClassification" if task == "SEQ_CLS" else "AutoModelForCausalLM"
        own = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
        tokenizer = pretrained("AutoTokenizer", str(folder) if own else base, trust=trust)
        network = pretrained(kind, base, trust=trust, use_safetensors=True)
        adapted = _peft().PeftModel.from_pretrained(network, str(folder))
    return without_peft(adapted).to(device).eval(), tokenizer


def without_peft(source: Any) -> Any:
    """The network itself where peft is wrapped around it, with its adapters inside; anything else as it is."""
    if isinstance(source, tuple) and len(source) == 2:
        return without_peft(source[0]), source[1]
    module = sys.modules.get("peft")
    if module is None or not isinstance(source, module.PeftModel):
        return source
    if source.active_peft_config.is_prompt_learning:
        raise ModelError(
            f"{source.active_peft_config.peft_type.value} adds learned vectors to the inputs, which are not explained; "
            "only adapters inside the layers, such as LoRA, can be"
        )
    return source.get_base_model()


def _peft() -> Any:
    try:
        import peft
    except ImportError as problem:
        raise ModelError(f"adapters need the package peft ({first_line(problem)}): pip install 'didact[llm]'") from None
    return peft
