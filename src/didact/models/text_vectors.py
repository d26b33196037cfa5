"""Vectors of whole texts: the mean of an encoder's last token states."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from didact.errors import CapabilityError, ModelError
from didact.meter import count
from didact.models.encoding import Encoder, Encoding
from didact.models.eval_mode import evaluating, quiet
from didact.models.native import NativeBert
from didact.models.planner import Budget, run
from didact.models.text import CPU_FIXED, CPU_TOKENS, GPU_FIXED, GPU_TOKENS, TextModel
from didact.models.variants import pad
from didact.protocols import Model
from didact.types import Example, Floats

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Ints = NDArray[np.int64]


def sentence_vectors(source: Model | str, examples: Sequence[Example]) -> Floats:
    """One vector per example, (examples, dim): the mean of the last layer's states over all tokens.

    The cosine of two such vectors is that of the sums, since lengths do not matter to it. What else is in the batch
    changes nothing beyond rounding; texts beyond the encoder's limit are cut.

    Args:
        source: an explained Transformers model, whose own states are taken, or a directory or Hub id of a Transformers
            encoder, which is loaded once and kept for the next call.
        examples: texts, or pairs, which are read as pairs.
    """
    reader = _of_name(source) if isinstance(source, str) else _of_model(source)
    codes = reader.encoder.encode(examples)
    lengths = np.array([len(code.ids) for code in codes], dtype=np.int64)
    found: list[Floats] = [np.zeros(0)] * len(codes)

    def evaluate(rows: Ints) -> None:
        batch = _inputs([codes[row] for row in rows], int(lengths[rows[0]]), reader)
        mask = batch["attention_mask"][..., None]
        states = reader.states(batch).float() * mask  # (rows, tokens, dim)
        means = (states.sum(1) / mask.sum(1)).double().cpu().numpy()
        for row, mean in zip(rows, means, strict=True):
            found[row] = mean

    with evaluating(reader.network), torch.inference_mode():
        run("reading sentences", lengths, reader.budget, True, evaluate)
    return np.stack(found)


@dataclass(frozen=True, eq=False)
class _Reader:
    """A network with what it takes to feed it."""

    network: Any
    encoder: Encoder
    pad_id: int
    budget: Budget
    states: Callable[[dict[str, Tensor]], Tensor]


def _of_model(model: Model) -> _Reader:
    """The explained model's own encoder."""
    if not isinstance(model, TextModel):
        raise CapabilityError(
            f"{model.name} shows no states of its own; name an encoder instead (encoder='directory or Hub id')"
        )
    _ = model.traits  # sets how many rows a batch may have

    def states(batch: dict[str, Tensor]) -> Tensor:
        rows = len(batch["input_ids"])
        count(forwards=rows, evaluated=rows)
        network: Any = model.hf
        if isinstance(network, NativeBert):
            return _last_layer(network, batch)
        found: Tensor = network.base_model(**batch).last_hidden_state
        return found

    return _Reader(model.hf, model.encoder, model.vocabulary.pad_id, model.budget, states)


def _last_layer(network: NativeBert, batch: dict[str, Tensor]) -> Tensor:
    seen: list[Tensor] = []
    handle = network.bert.encoder.layer[-1].register_forward_hook(lambda module, given, output: seen.append(output))
    try:
        network(**batch)
    finally:
        handle.remove()
    return seen[0]


@functools.lru_cache(maxsize=1)
def _of_name(name: str) -> _Reader:
    """A Transformers encoder from a directory or the Hub."""
    network, tokenizer = _load(name)
    if not tokenizer.is_fast:
        raise ModelError(f"{name!r} has no fast tokenizer; give an encoder that has one")
    if network.config.is_encoder_decoder:
        raise ModelError(f"{name!r} is an encoder-decoder; give an encoder")
    known = [tokenizer.model_max_length, getattr(network.config, "max_position_embeddings", None)]
    limits = [limit for limit in known if limit is not None and 0 < limit < 1_000_000]
    padding = getattr(getattr(network, "embeddings", None), "padding_idx", None)
    if padding is not None and len(limits) > 0:  # RoBERTa's positions start behind the padding's
        limits.append(network.config.max_position_embeddings - padding - 1)
    gpu = network.device.type == "cuda"
    budget = Budget(GPU_TOKENS if gpu else CPU_TOKENS, fixed=GPU_FIXED if gpu else CPU_FIXED)
    encoder = Encoder(tokenizer, min(limits) if limits else None, 1.0)

    def states(batch: dict[str, Tensor]) -> Tensor:
        found: Tensor = network(**batch).last_hidden_state
        return found

    return _Reader(network, encoder, tokenizer.pad_token_id or 0, budget, states)


def _load(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    from transformers import AutoModel, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(name)
            network = AutoModel.from_pretrained(name, use_safetensors=True)
    except (OSError, ValueError, KeyError, ImportError) as problem:
        where = "is a directory without an encoder" if Path(name).is_dir() else "is no directory here, nor at the Hub"
        raise ModelError(f"cannot load the encoder {name!r}: it {where} ({str(problem).splitlines()[0]})") from problem
    return network.to(device).eval(), tokenizer


def _inputs(codes: Sequence[Encoding], width: int, reader: _Reader) -> dict[str, Tensor]:
    ones = [np.ones(len(code.ids), dtype=np.int64) for code in codes]
    columns = {
        "input_ids": [pad(code.ids, width, reader.pad_id) for code in codes],
        "attention_mask": [pad(row, width, 0) for row in ones],
    }
    if codes[0].types is not None:
        columns["token_type_ids"] = [pad(code.types, width, 0) for code in codes if code.types is not None]
    device = reader.network.device
    return {name: torch.from_numpy(np.stack(rows)).to(device) for name, rows in columns.items()}
