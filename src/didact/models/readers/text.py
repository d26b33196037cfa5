"""Single texts, cut into tokens."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from didact.errors import InputError
from didact.models.batch import Inputs, Ints
from didact.models.encoder_decoder import check_ends, embedded_twice, is_encoder_decoder
from didact.models.identity import tokenizer_identity
from didact.models.readers._token_rows import pad, token_rows
from didact.models.readers.base import READERS, Columns, Masked, Reader, ReaderCard, ReaderOptions
from didact.models.tokens.encoding import Encoder, Encoding, length_limit
from didact.models.tokens.special import SpecialTokens
from didact.ops.masking import KINDS, Absence
from didact.types import Example, Level, Units

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PAIR_LABELS = ("entail", "contradict", "duplicate", "paraphrase", "equivalent")
"""Parts of the names that labels have where a network was trained on pairs."""
PAIR_NUMBERS = ("quality", "similarity")
"""Names of the only output of a network that measures how well two texts go together."""


@READERS.register(
    ReaderCard(name="text", family="text", summary="A single text, as tokens of a fast tokenizer.", fields=("text",))
)
class TextReader(Reader[Encoding]):
    """Feeds token ids, or embeddings of them, with an attention mask; units are words or tokens.

    Words of the level "whitespace" are what stands between blanks, as tokenised corpora count them.

    Args:
        network: a Transformers network, or one that takes the same inputs.
        tokenizer: its fast tokenizer.
        options: length limits.
    """

    levels: tuple[Level, ...] = ("word", "token", "whitespace")
    tokenizer: PreTrainedTokenizerBase

    def __init__(
        self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, options: ReaderOptions | None = None
    ) -> None:
        given = options or ReaderOptions()
        self.network = network
        self.tokenizer = tokenizer
        self.special = SpecialTokens(tokenizer, network)
        self.options = ReaderOptions(length_limit(network, tokenizer, given.max_length), given.max_truncated)
        self.encoder = Encoder(
            tokenizer, self.options.max_length, self.options.max_truncated, typed=takes_segments(network)
        )
        self.default_absence = "drop" if tokenizer.mask_token_id is None else "mask"

    @classmethod
    def serves(cls, network: nn.Module, processor: object) -> bool:
        """Networks with a tokenizer whose labels do not speak of pairs."""
        return has_tokenizer(processor) and not names_pairs(network)

    @classmethod
    def of(cls, network: nn.Module, processor: object, options: ReaderOptions) -> Self:
        """With the network's tokenizer."""
        return cls(cast("PreTrainedModel", network), cast("PreTrainedTokenizerBase", processor), options)

    def identity(self) -> object:
        """The tokenizer with all its rules, and the length at which texts are cut."""
        return [self.options.max_length, tokenizer_identity(self.tokenizer)]

    def check(self, example: Example) -> None:
        """Refuse pairs."""
        if example.text_pair is not None:
            raise InputError(
                f"{self.special.owner} explains single texts, but a pair was given; if it was trained on pairs, "
                "load it with inputs='pair' (command line: --inputs pair)"
            )

    def probe(self) -> Example:
        """A short text."""
        return Example("a short probe")

    def encode(self, examples: Sequence[Example]) -> list[Encoding]:
        """Token ids, special tokens included."""
        codes = self.encoder.encode(examples)
        if is_encoder_decoder(self.network):
            check_ends(self.network, codes)
        return codes

    def units(self, examples: Sequence[Example], level: Level) -> list[Units]:
        """Words or tokens by character offsets."""
        return self.encoder.units(examples, level)

    def whole(self, codes: Sequence[Encoding]) -> Inputs:
        """Padded batches of token ids with an attention mask, and segment ids where the network has them."""
        return self._filled(codes, max(len(code) for code in codes))

    def absence(self, name: str) -> Absence:
        """Any operator that the vocabulary has a token for."""
        operator = Absence.parse(name, KINDS)
        self.special.check(operator)
        return operator

    def masked(self, part: Masked[Encoding]) -> Columns:
        """Token ids of the variants, with absent tokens replaced, hidden from attention or taken out."""
        return token_rows(part, self.special)

    def vectors(self, codes: Sequence[Encoding]) -> list[Tensor]:
        """The word embeddings that the network looks up."""
        table = self._table
        with torch.no_grad():
            return [table(self.tensor(code.ids)).detach() for code in codes]

    def absent_vector(self, name: str, like: Tensor) -> Tensor:
        """Embedding of the mask token, or else of padding, or else "zero"; or of a named token ("token:X")."""
        if name == "mask" and self.tokenizer.mask_token_id is None:
            name = "pad"
        if name == "zero" or (name == "pad" and self.tokenizer.pad_token_id is None):
            return like.new_zeros(like.shape[-1])
        operator = Absence("token", "pad") if name == "pad" else Absence.parse(name, KINDS)
        index = torch.tensor(self.special.absent_id(operator), device=like.device)
        vector: Tensor = self._table(index).detach()
        return vector

    def embedded(self, codes: Sequence[Encoding], vectors: Tensor) -> Inputs:
        """Embeddings in place of token ids; beside them where a decoder reads the text once more."""
        if is_encoder_decoder(self.network):
            return embedded_twice(self.network, self._filled(codes, vectors.shape[1]), vectors)
        return {**self._around(codes, vectors.shape[1]), "inputs_embeds": vectors}

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return cast("PreTrainedModel", self.network).device

    @property
    def _table(self) -> nn.Module:
        return cast("PreTrainedModel", self.network).get_input_embeddings()

    def _filled(self, codes: Sequence[Encoding], width: int) -> Inputs:
        """Token ids up to a width, and what goes with them."""
        ids = np.stack([pad(code.ids, width, self.special.pad_id) for code in codes])
        return {**self._around(codes, width), "input_ids": self.tensor(ids)}

    def _around(self, codes: Sequence[Encoding], width: int) -> Inputs:
        """Attention mask and segment ids."""
        mask: Ints = (np.arange(width) < np.array([len(code) for code in codes])[:, None]).astype(np.int64)
        batch = {"attention_mask": self.tensor(mask)}
        if codes[0].types is not None:
            types = [code.types for code in codes if code.types is not None]
            batch["token_type_ids"] = self.tensor(np.stack([pad(row, width, 0) for row in types]))
        return batch


def takes_segments(network: nn.Module) -> bool:
    """Whether any module of the network reads segment ids; a tokenizer may make them for one that has none."""
    kinds = {type(module) for module in network.modules()}
    return any("token_type_ids" in inspect.signature(kind.forward).parameters for kind in kinds)


def names_pairs(network: nn.Module) -> bool:
    """Whether label names such as "entailment" mean that the network compares two texts."""
    names = getattr(getattr(network, "config", None), "id2label", None) or {}
    labels = [str(label).lower() for label in names.values()]
    return any(word in label for label in labels for word in PAIR_LABELS) or labels in [[name] for name in PAIR_NUMBERS]


def has_tokenizer(processor: object) -> bool:
    """Whether what came along with a network is a tokenizer."""
    from transformers import PreTrainedTokenizerBase

    return isinstance(processor, PreTrainedTokenizerBase)
