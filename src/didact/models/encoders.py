"""Pretrained encoders with their tokenizers, for everything that reads texts with a network of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from didact.errors import ModelError
from didact.models.eval_mode import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

Loaded = tuple["PreTrainedModel", "PreTrainedTokenizerBase"]


def embedded_path() -> Path:
    """Directory of the embedded model."""
    return Path(str(files("didact.embedded"))) / "sentiment"


def load_encoder(
    name: str | Path | None, *, dropout: float | None = None, labels: Sequence[str] = (), seed: int = 0
) -> Loaded:
    """Network and fast tokenizer, in float32 on the CPU and in evaluation mode.

    Args:
        name: a directory or a Hub id; None for the encoder of the embedded sentiment model.
        dropout: everywhere in the network; as configured when not given.
        labels: with names, a new classification head for them is put on; without, the encoder comes without any head
            and pooler.
        seed: decides the first weights of such a head.
    """
    from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer

    place = str(embedded_path() if name is None else name)
    try:
        config = AutoConfig.from_pretrained(place)
        _configure(config, dropout, labels)
        tokenizer = AutoTokenizer.from_pretrained(place)
        with quiet(), _seeded(seed) if labels else contextlib.nullcontext():
            network = (AutoModelForSequenceClassification if labels else AutoModel).from_pretrained(
                place, config=config, use_safetensors=True, ignore_mismatched_sizes=bool(labels)
            )
    except (OSError, ValueError, KeyError, ImportError) as problem:
        raise ModelError(
            f"cannot load the encoder {name!r}: {first_line(problem)} (give a directory with config.json, a tokenizer "
            "and safetensors, a Hub id, or leave it out for the embedded one)"
        ) from problem
    if not tokenizer.is_fast:
        raise ModelError(f"{name!r} has no fast tokenizer, which is needed to know the characters of a token")
    if network.config.is_encoder_decoder:
        raise ModelError(f"{name!r} is an encoder-decoder; give an encoder")
    if not labels and getattr(network, "pooler", None) is not None:
        network.pooler = None  # nothing reads it
    return network.float().eval(), tokenizer


def first_line(problem: BaseException) -> str:
    """The first line of an error's message that is not blank, shortened."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return (lines[0] if lines else type(problem).__name__)[:200]


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """New weights depend on the seed alone, and the caller's random numbers do not change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _configure(config: PreTrainedConfig, dropout: float | None, labels: Sequence[str]) -> None:
    if dropout is not None:
        for key, value in config.to_dict().items():
            if "drop" in key and isinstance(value, float):
                setattr(config, key, dropout)
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: number for number, label in enumerate(labels)}
        config.problem_type = "single_label_classification"
