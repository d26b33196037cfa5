"""Pairs of texts that are read together: premise and hypothesis, question and passage."""

from __future__ import annotations

from torch import nn

from didact.errors import InputError
from didact.models.readers.base import READERS, ReaderCard
from didact.models.readers.text import TextReader, has_tokenizer, names_pairs
from didact.types import Example


@READERS.register(
    ReaderCard(name="pair", family="text", summary="Two texts, as one sequence of tokens.", fields=("text", "text"))
)
class PairReader(TextReader):
    """Like the reader of single texts; units lie in both texts."""

    @classmethod
    def serves(cls, network: nn.Module, processor: object) -> bool:
        """Networks with a tokenizer whose labels speak of pairs."""
        return has_tokenizer(processor) and names_pairs(network)

    def check(self, example: Example) -> None:
        """Refuse single texts."""
        if example.text_pair is None:
            raise InputError(
                f"{self.special.owner} explains pairs of texts, but a single text was given; give (text, text_pair); "
                "if it was trained on single texts, load it with inputs='text' (command line: --inputs text)"
            )

    def probe(self) -> Example:
        """Two short texts."""
        return Example("a short probe", "of two")
