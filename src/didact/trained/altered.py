"""Texts unlike those of a training, made from some of them: what an explainer does there is to be expected elsewhere.

Texts of one kind say nothing about texts of another. Altered ones differ from them in all that an estimate of
disagreement looks at: words that the training did not have, other lengths, models that are less sure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didact.errors import InputError
from didact.models.network import NetworkModel
from didact.protocols import Model
from didact.types import Example

LEAST = 0.2
"""Share of the words of an altered text that are replaced, from this one to all of them."""
FRAGMENT = 2
"""Letters up to which an entry of a vocabulary is no word."""


def altered(model: Model, examples: Sequence[Example], seed: int = 0) -> list[Example]:
    """Each text altered, in turns: words replaced by others that the model knows, or another text joined to its end.

    Args:
        model: its vocabulary is where words come from; where it has none, texts are only joined.
        examples: texts or pairs; nothing is made of images, and what grows too long for the model is left out.
        seed: decides which words are replaced, and by which.
    """
    texts = [example for example in examples if example.is_textual]
    words = known_words(model)
    rng = np.random.default_rng(seed)
    made = (
        _replaced(example, words, rng) if words and number % 2 else _joined(example, texts[number - 1])
        for number, example in enumerate(texts)
    )
    return [example for example in made if _is_readable(model, example)]


def known_words(model: Model) -> list[str]:
    """Whole words of the model's vocabulary, in alphabetical order; none of a model without a tokenizer."""
    if not isinstance(model, NetworkModel) or model.reader.tokenizer is None:
        return []
    entries = (entry.lstrip("Ġ▁") for entry in model.reader.tokenizer.get_vocab())
    return sorted({entry for entry in entries if entry.isalpha() and len(entry) > FRAGMENT})


def _replaced(example: Example, words: Sequence[str], rng: np.random.Generator) -> Example:
    share = rng.uniform(LEAST, 1.0)

    def text(given: str) -> str:
        return " ".join(str(rng.choice(words)) if rng.random() < share else word for word in given.split())

    return Example(*map(text, example.texts))


def _joined(example: Example, other: Example) -> Example:
    """The first text stays whole: a question keeps its passage, and a pair its source."""
    *first, last = example.texts
    return Example(*first, f"{last} {other.texts[-1]}")


def _is_readable(model: Model, example: Example) -> bool:
    try:
        model.units([example])
    except InputError:
        return False
    return True
