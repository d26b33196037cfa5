"""Whether a tokenizer can be the one that a network was trained with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from didact.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SMALLEST_SHARE = 0.5
"""Entries of a vocabulary per row of the embedding table, below which they cannot belong together.

Tables are made longer than vocabularies for speed, by a few percent; a tokenizer that Transformers made up because
its files are missing has a handful of entries.
"""


def check_vocabulary(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, name: str, folder: Path | None = None
) -> None:
    """Refuse a vocabulary that cannot be the network's: it would read other words than the text's.

    Args:
        network: with a table of input embeddings; without one nothing can be checked.
        tokenizer: said to be its own.
        name: of the model, for messages.
        folder: where both were read from, if they were.
    """
    rows = _rows(network)
    if rows is None:
        return
    known = tokenizer.get_vocab()
    largest = max(known.values(), default=-1)
    if largest >= rows:
        raise ModelError(
            f"the tokenizer of {name} has ids up to {largest:,}, but the model embeds only {rows:,} tokens: it is not "
            "the tokenizer that the model was trained with, or tokens were added to it and not to the model; give the "
            "model's own tokenizer"
        )
    if known.keys() <= set(tokenizer.all_special_tokens) or len(known) < SMALLEST_SHARE * rows:
        raise ModelError(
            f"the tokenizer of {name} knows {len(known):,} tokens, but the model embeds {rows:,}, so it cannot be the "
            f"one that the model was trained with; {_cure(tokenizer, folder)}"
        )


def _rows(network: PreTrainedModel) -> int | None:
    """How many tokens the network has an embedding for."""
    table = network.get_input_embeddings()
    return table.num_embeddings if isinstance(table, nn.Embedding) else None


def _cure(tokenizer: PreTrainedTokenizerBase, folder: Path | None) -> str:
    names = sorted({*getattr(tokenizer, "vocab_files_names", {}).values(), "tokenizer.json"})
    if folder is not None and not any((folder / name).is_file() for name in names):
        return f"{folder} holds no tokenizer files ({' or '.join(names)}): put the model's own there"
    return (
        "give the model's own tokenizer, or, where it is, cut the rows that are not used off with "
        "model.resize_token_embeddings(len(tokenizer))"
    )
