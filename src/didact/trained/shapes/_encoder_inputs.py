"""What the backbone of an encoder is fed: texts as tokens of its own tokenizer, with a place for the prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import FormatError, InputError, ModelError
from didact.models.readers.text import takes_segments
from didact.models.tokens.encoding import Encoder, length_limit
from didact.trained.shapes._encoder_backbone import FOLDER
from didact.trained.shapes._encoder_config import EncoderConfig
from didact.trained.shapes._token_map import token_table
from didact.types import Example, Units

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Arrays = dict[str, NDArray[np.generic]]

PLACES = "places"
"""Column of an item: per unit the positions that the backbone has for it, (units, most), filled up with -1."""


class BackboneInputs(ABC):
    """Turns examples into what a backbone takes, and back from its positions to units."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def of(cls, network: PreTrainedModel, processor: object, config: EncoderConfig) -> Self:
        """For a network with what came along with it; one that cannot be fed so is refused."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, network: PreTrainedModel, config: EncoderConfig) -> Self:
        """What ``save`` wrote, for a configuration that ``settled`` made."""

    def settled(self, config: EncoderConfig) -> EncoderConfig:
        """The configuration with what depends on the network and its tokenizer."""
        return config

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what ``load`` needs besides the network."""

    @abstractmethod
    def read(self, units: Sequence[Units]) -> list[Arrays]:
        """The network's inputs for each example, and ``PLACES``."""

    @abstractmethod
    def collate(self, items: Sequence[Mapping[str, NDArray[np.generic]]]) -> dict[str, Tensor]:
        """The network's inputs of several examples, padded."""

    @abstractmethod
    def width(self, network: PreTrainedModel) -> int:
        """Size of the vector that is given to the network beside its inputs."""

    @abstractmethod
    def states(self, network: PreTrainedModel, batch: Mapping[str, Tensor], vector: Tensor) -> Tensor:
        """The network's last states, (rows, positions, dim), with a further vector (rows, width) behind its inputs."""

    @abstractmethod
    def length(self, item: Mapping[str, NDArray[np.generic]]) -> int:
        """Positions of an example."""


class BackboneTexts(BackboneInputs):
    """Token ids, special tokens included, and behind the last one the vector.

    Args:
        tokenizer: a fast tokenizer.
        limit: length in tokens, the place of the vector included.
        segments: whether the network takes segment ids.
    """

    name = "text"

    def __init__(self, tokenizer: PreTrainedTokenizerBase, limit: int | None, *, segments: bool) -> None:
        self.tokenizer = tokenizer
        self.limit = limit
        self.segments = segments
        self.tokens = Encoder(tokenizer, None if limit is None else limit - 1, 1.0)
        self.pad = 0 if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)

    @classmethod
    def of(cls, network: PreTrainedModel, processor: object, config: EncoderConfig) -> Self:
        """For an encoder with its tokenizer; a network that reads from left to right is refused."""
        tokenizer: PreTrainedTokenizerBase = processor  # type: ignore[assignment]
        limit = length_limit(network, tokenizer, config.max_length)
        segments = "token_type_ids" in tokenizer.model_input_names and takes_segments(network)
        made = cls(tokenizer, limit, segments=segments)
        if not made._sees_ahead(network):
            raise ModelError(
                f"{type(network).__name__} reads from left to right, so its words do not see the prediction behind "
                "them; give backbone= an encoder, such as 'sentence-transformers/all-MiniLM-L6-v2'"
            )
        return made

    @classmethod
    def load(cls, folder: Path, network: PreTrainedModel, config: EncoderConfig) -> Self:
        """With the stored tokenizer."""
        from transformers import PreTrainedTokenizerFast

        try:
            tokenizer = PreTrainedTokenizerFast.from_pretrained(str(folder / FOLDER), local_files_only=True)
        except (OSError, ValueError) as problem:
            raise FormatError(f"{folder / FOLDER} does not hold a tokenizer: {problem!s:.200}") from None
        return cls(tokenizer, config.max_length, segments=config.segments)

    def settled(self, config: EncoderConfig) -> EncoderConfig:
        """With the length limit, and whether there are segment ids."""
        return replace(config, max_length=self.limit, segments=self.segments)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # nothing in it is trained

    def save(self, folder: Path) -> None:
        """Write the tokenizer."""
        self.tokenizer.save_pretrained(str(folder / FOLDER))

    def read(self, units: Sequence[Units]) -> list[Arrays]:
        """Token ids, segment ids where there are any, and the tokens of each unit."""
        for own in units:
            _check_texts(own.example)
        read = []
        for own, code in zip(units, self.tokens.encode([own.example for own in units]), strict=True):
            item: Arrays = {"input_ids": code.ids.astype(np.int32), PLACES: token_table(own, code.tokens)}
            if self.segments:
                types = np.zeros_like(code.ids) if code.types is None else code.types
                item["token_type_ids"] = types.astype(np.int32)
            read.append(item)
        return read

    def collate(self, items: Sequence[Mapping[str, NDArray[np.generic]]]) -> dict[str, Tensor]:
        """Pad at the end, with one more column for the vector, whose place is ``slot``."""
        lengths = np.array([len(item["input_ids"]) for item in items])
        ids = np.full((len(items), lengths.max() + 1), self.pad, dtype=np.int64)
        columns = {"input_ids": ids, "slot": lengths}
        if "token_type_ids" in items[0]:
            columns["token_type_ids"] = np.zeros_like(ids)
        for row, item in enumerate(items):
            ids[row, : lengths[row]] = item["input_ids"]
            if "token_type_ids" in item:
                types = item["token_type_ids"]
                columns["token_type_ids"][row, : len(types) + 1] = [*types, types[-1]]
        return {name: torch.from_numpy(column) for name, column in columns.items()}

    def width(self, network: PreTrainedModel) -> int:
        """As wide as a word's embedding."""
        return _table(network).embedding_dim

    def states(self, network: PreTrainedModel, batch: Mapping[str, Tensor], vector: Tensor) -> Tensor:
        """States of all columns; units have no place at the vector's."""
        ids, slot = batch["input_ids"], batch["slot"][:, None]
        columns = torch.arange(ids.shape[1], device=ids.device)[None]
        embedded = torch.where((columns == slot)[..., None], vector[:, None], _table(network)(ids))
        inputs = {"token_type_ids": batch["token_type_ids"]} if "token_type_ids" in batch else {}
        made = network(inputs_embeds=embedded, attention_mask=(columns <= slot).long(), **inputs)
        states: Tensor = made.last_hidden_state
        return states

    def length(self, item: Mapping[str, NDArray[np.generic]]) -> int:
        """Tokens and the vector."""
        return len(item["input_ids"]) + 1

    def _sees_ahead(self, network: PreTrainedModel) -> bool:
        """Whether what stands behind a token changes its state."""
        vectors = torch.randn(2, self.width(network), generator=torch.Generator().manual_seed(0))
        row = {"input_ids": torch.full((2, 3), self.pad), "slot": torch.tensor([2, 2])}
        if self.segments:
            row["token_type_ids"] = torch.zeros_like(row["input_ids"])
        with torch.no_grad():
            first, second = self.states(network, row, vectors)[:, 0]
        return bool((first - second).abs().max() > 1e-6)


def _check_texts(example: Example) -> None:
    if not example.is_textual:
        raise InputError(
            f"the encoder's backbone reads texts, and {example.preview} was given; use a backbone for images, or "
            "'explained'"
        )
    if len(example.fields) > 2:
        raise InputError(
            f"the encoder's backbone reads a text or a pair, and {len(example.fields)} texts were given; explain words "
            "or tokens, not shots, or train another shape, such as the probe"
        )


def _table(network: PreTrainedModel) -> nn.Embedding:
    table = network.get_input_embeddings()
    if not isinstance(table, nn.Embedding):
        raise ModelError(f"{type(network).__name__} has no table of word embeddings; give an encoder of texts")
    return table
