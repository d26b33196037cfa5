"""Language models in the forms in which they are passed on: GGUF files and LoRA adapters."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from didact.errors import ModelError
from didact.models.encoders import (
    Loaded,
    Placement,
    check_weights,
    first_line,
    local_folder,
    pretrained,
    read_config,
    read_network,
    reading,
)

GGUF = ".gguf"
ADAPTER = "adapter_config.json"
"""What marks a directory as one that peft wrote."""
WEIGHTS = "adapter_model.safetensors"
TASKS = {
    "CAUSAL_LM": "AutoModelForCausalLM",
    "SEQ_CLS": "AutoModelForSequenceClassification",
    "TOKEN_CLS": "AutoModelForTokenClassification",
    "QUESTION_ANS": "AutoModelForQuestionAnswering",
}
"""What loads the network of an adapter, by the adapter's task."""
_PREFIX = "base_model.model."
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_CHANGES = re.compile(r"\.(lora|ia3|hada|lokr|oft|boft|vera|vblora|randlora|fourierft)_|\bprompt")
"""Names of weights that change a module, rather than being one."""


def read_gguf(path: Path, placement: Placement) -> Loaded:
    """Network, in float32 unless another type is wanted, and tokenizer of a GGUF file.

    Quantised weights become the numbers that they stand for.
    """
    place, dtype = str(path.parent), placement.dtype or torch.float32
    needs = "(GGUF files are read with the package gguf: pip install 'didact[llm]')"
    with reading(repr(str(path)), needs), contextlib.redirect_stderr(io.StringIO()):  # a bar of its own
        tokenizer = pretrained("AutoTokenizer", place, gguf_file=path.name)
        network, report = pretrained(
            "AutoModelForCausalLM", place, gguf_file=path.name, dtype=dtype, output_loading_info=True
        )
    check_weights(report, repr(str(path)), lambda key: True)
    network.name_or_path = path.stem
    return network.to(placement.device).eval(), tokenizer


def is_adapter(folder: Path) -> bool:
    """Whether peft wrote an adapter here, without the network that it adapts."""
    return (folder / ADAPTER).is_file() and not (folder / "config.json").is_file()


def read_adapter(folder: Path, placement: Placement) -> Loaded:
    """The network that an adapter was trained on, with the adapter in it, and the tokenizer of either."""
    if not (folder / WEIGHTS).is_file():
        raise ModelError(f"{folder} holds no {WEIGHTS}; weights of adapters are read from safetensors only")
    with reading(repr(str(folder)), "(is its adapter_config.json, or a file of weights, damaged?)"):
        entries = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
        base, kind = _base(folder, entries), _auto_class(entries)
        brought = _brought(folder)
    hint = f"(the adapter in {folder} needs this network: put it where {ADAPTER} says, or give (PeftModel, tokenizer))"
    with reading(f"the base {base!r}", hint):
        config = read_config(base, trust=placement.trust)
        if brought:  # the outputs of a new head are its smallest dimension
            config.num_labels = min(shape[0] for shape in brought.values())
        network, report = read_network(kind, base, config, placement)
        own = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
        tokenizer = pretrained("AutoTokenizer", str(folder) if own else base, trust=placement.trust)
    check_weights(
        report, repr(base), lambda key: key not in brought, f", and the adapter in {folder} does not bring them"
    )
    with reading(repr(str(folder)), "(does the adapter belong to this base?)"):
        adapted = _peft().PeftModel.from_pretrained(network, str(folder))
    return without_peft(adapted).to(placement.device).eval(), tokenizer


def _base(folder: Path, entries: Mapping[str, Any]) -> str:
    """What the adapter was trained on: a directory, also one beside the adapter, or a Hub id."""
    base = entries.get("base_model_name_or_path")
    if not base:
        raise ModelError(
            f"{ADAPTER} in {folder} names no base_model_name_or_path; load that network yourself and give "
            "(PeftModel, tokenizer)"
        )
    places = [place for place in (str(base), str(folder / str(base))) if local_folder(place) is not None]
    if not places and not _HUB_ID.fullmatch(str(base)):
        raise ModelError(
            f"the adapter in {folder} changes the network {base!r}, and there is no such directory; put that network "
            f"there, correct {ADAPTER}, or give (PeftModel, tokenizer)"
        )
    return places[0] if places else str(base)


def _auto_class(entries: Mapping[str, Any]) -> str:
    task = entries.get("task_type") or "CAUSAL_LM"
    if task not in TASKS:
        raise ModelError(f"the adapter's task_type is {task!r}; allowed: {', '.join(TASKS)}")
    return TASKS[task]


def _brought(folder: Path) -> dict[str, list[int]]:
    """Shapes of the weights of whole modules that the adapter has in place of the network's own, such as its head."""
    from safetensors import safe_open

    with safe_open(folder / WEIGHTS, framework="pt") as stored:
        names = [name for name in stored.keys() if not _CHANGES.search(name)]  # noqa: SIM118 - no mapping
        return {name.removeprefix(_PREFIX): list(stored.get_slice(name).get_shape()) for name in names}


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
