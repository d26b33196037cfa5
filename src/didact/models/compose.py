"""Puts a network together with the reader and the head that serve it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from torch import nn

from didact.errors import ModelError, ParameterError
from didact.models.heads.base import HEADS, Head
from didact.models.network import NetworkModel
from didact.models.readers.base import READERS, AnyReader, ReaderOptions
from didact.models.readers.prompt import PromptReader

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


def compose(
    network: nn.Module,
    processor: object,
    *,
    inputs: str | None = None,
    options: ReaderOptions | None = None,
    labels: Sequence[str] | None = None,
    batch_tokens: int | None = None,
) -> NetworkModel:
    """The adapter of a network, with the registered reader and head that serve it.

    Args:
        network: the user's, borrowed and never changed.
        processor: what came along with it: a fast tokenizer for texts, an image processor for images.
        inputs: name of the reader; chosen by what the network is like when not given.
        options: length limits.
        labels: names of the outputs; as configured when not given.
        batch_tokens: positions per batch, if the default does not suit the machine.
    """
    options = options or ReaderOptions()
    reader = choose_reader(network, processor) if inputs is None else READERS.get(inputs)
    if options.prompt is not None and not issubclass(reader, PromptReader):
        raise ParameterError(
            f"a prompt is for language models, and {type(network).__name__} is read as {reader.card.name}; leave it out"
        )
    config = cast("PreTrainedConfig", network.config)
    made = reader.of(network, processor, options)
    head = choose_head([type(network).__name__], config).beside(made, config).named(labels)
    model = NetworkModel(network, made, head, batch_tokens=batch_tokens)
    model.head = head.fitted(model.predict)
    return model


def choose_head(architectures: Sequence[str], config: PreTrainedConfig) -> type[Head]:
    """The head that serves networks of one of these classes; of any class that has a head, where none is known."""
    cards = HEADS.cards()
    kinds = list(dict.fromkeys(kind for card in cards for kind, _ in card.served))
    heads = [HEADS.get(card.name) for card in cards]
    for name in architectures or kinds:
        for head in heads:
            if head.serves(name, config):
                return head
    raise ModelError(
        f"there is no head for {architectures[0]}; only networks of these kinds can be explained: "
        f"{', '.join('...' + kind for kind in kinds)}"
    )


def choose_reader(network: nn.Module, processor: object) -> type[AnyReader]:
    """The reader that serves a network with this processor; of several the one that derives from the others."""
    readers = [READERS.get(name) for name in READERS.names()]
    serving = [reader for reader in readers if reader.serves(network, processor)]
    serving = [
        reader for reader in serving if not any(issubclass(other, reader) for other in serving if other != reader)
    ]
    if len(serving) != 1:
        names = ", ".join(reader.card.name for reader in serving or readers)
        which = "several readers serve" if serving else "no reader serves"
        raise ModelError(
            f"{which} {type(network).__name__} with a {type(processor).__name__}; choose by inputs={names}"
        )
    return serving[0]
