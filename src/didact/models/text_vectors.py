"""Vectors of whole texts: the mean of an encoder's last token states."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from didact.errors import CapabilityError
from didact.models.device import choose_device
from didact.models.encoders import load_encoder
from didact.models.hidden import hidden_states
from didact.models.network import NetworkModel
from didact.models.planner import default_budget
from didact.models.readers.base import ReaderOptions
from didact.models.readers.text import TextReader
from didact.protocols import Model
from didact.types import Example, Floats


def sentence_vectors(source: Model | str, examples: Sequence[Example]) -> Floats:
    """One vector per example, (examples, dim): the mean of the last layer's states over all tokens.

    The cosine of two such vectors is that of the sums, since lengths do not matter to it. What else is in the batch
    changes nothing beyond rounding; texts beyond the encoder's limit are cut.

    Args:
        source: an explained model with a network, whose own states are taken, or a directory or Hub id of a
            Transformers encoder, which is loaded once and kept for the next call.
        examples: texts, or pairs, which are read as pairs.
    """
    if isinstance(source, str):
        reader = _reader(source)
        vectors = hidden_states(reader, reader.encode(examples), default_budget(reader.device), reduce=_mean)
    elif isinstance(source, NetworkModel):
        vectors = source.states(examples, reduce=_mean)
    else:
        raise CapabilityError(
            f"{source.name} shows no states of its own; name an encoder instead (encoder='directory or Hub id')"
        )
    return np.stack([vector.numpy() for vector in vectors])


def _mean(states: Tensor) -> Tensor:
    """Over the positions of the last layer: (layers, positions, dim) -> (dim,)."""
    return states[-1].float().mean(0).double().cpu()


@functools.lru_cache(maxsize=1)
def _reader(name: str) -> TextReader:
    """A Transformers encoder from a directory or the Hub, with its tokenizer."""
    network, tokenizer = load_encoder(name)
    return TextReader(network.to(choose_device()), tokenizer, ReaderOptions(max_truncated=1.0))  # type: ignore[arg-type]
