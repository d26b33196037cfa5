"""What an absent unit may be replaced by when replacements are sampled: tokens or words that occur in texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from didact.errors import InputError
from didact.models.tokens.encoding import settings_kept
from didact.ops.units import word_spans

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ints = NDArray[np.int64]

SIZE = 5000
"""Words taken from a vocabulary; vocabularies list frequent pieces first."""

COMMON = (
    "the a an this that these those some any every each and or but so if when while because in on at by with from to "
    "of for about into over under after before between without he she it they we you his her its their our your who "
    "which what where there here is are was were be been has have had does did will would can could may might must "
    "go goes went come came take took make made see saw say said tell told ask asked look looked find found keep kept "
    "day week month year time hour morning evening house room door street city country school table book story page "
    "letter word name number part side end start way place people man woman child friend group hand head water paper "
    "one two three four ten first second last next other same another again also then now today later still often "
    "only just even never always once almost rather quite very more most less few many several both half whole"
)
"""Frequent English words, for a function that shows no vocabulary."""


def token_pool(tokenizer: PreTrainedTokenizerBase, file: str | None) -> Ints:
    """Token ids to draw from.

    Args:
        tokenizer: the model's.
        file: a text whose tokens are the pool, as often as they occur in it. Without one, the first ``SIZE`` tokens of
            the vocabulary that are a whole word by themselves, each once.
    """
    with settings_kept(tokenizer):
        if file is not None:
            ids = _ids(tokenizer, _lines(file))
            pool = [token for row in ids for token in row if token not in tokenizer.all_special_ids]
        else:
            pool = _whole_words(tokenizer)
    if not pool:
        raise InputError(f"there is no token to draw replacements from in {file or 'the vocabulary'}")
    return np.array(pool, dtype=np.int64)


def word_pool(file: str | None) -> list[str]:
    """Words to draw from: those of a text, as often as they occur, or frequent English ones."""
    if file is None:
        return COMMON.split()
    words = [line[span.start : span.end] for line in _lines(file) for span in word_spans(line)]
    if not words:
        raise InputError(f"there is no word to draw replacements from in {file}")
    return words


def _whole_words(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Tokens that are a word of letters: those that the word is split into again, whatever marks the token bears."""
    regular = [i for i in range(len(tokenizer)) if i not in set(tokenizer.all_special_ids)]
    lead = len(_ids(tokenizer, ["a"])[0])
    whole: list[int] = []
    for start in range(0, len(regular), SIZE):
        ids = regular[start : start + SIZE]
        pieces = [str(tokenizer.decode([i])).strip("\u2581 ") for i in ids]
        words = [(i, piece) for i, piece in zip(ids, pieces, strict=True) if piece.isalpha()]
        split = _ids(tokenizer, [f"a {word}" for _, word in words])
        whole += [i for (i, _), row in zip(words, split, strict=True) if len(row) == lead + 1 and row[-1] == i]
        if len(whole) >= SIZE:
            break
    return whole[:SIZE] or regular


def _ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    if not texts:
        return []
    batch = tokenizer(list(texts), add_special_tokens=False, padding=False, truncation=False, verbose=False)
    return [list(row) for row in batch["input_ids"]]


def _lines(file: str) -> list[str]:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"cannot read replacements from {file}: it is not UTF-8 text") from None
    except (OSError, ValueError) as problem:  # a name that no file can have is a ValueError
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise InputError(f"cannot read replacements from {file}: {reason}") from None
    return [line for line in text.splitlines() if line.strip()]
