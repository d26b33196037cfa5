"""Words that a masked language model puts in the place of each word of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from didact.errors import ModelError
from didact.models.encoders import check_weights, pretrained, read_config, read_network, reading
from didact.models.eval_mode import evaluating
from didact.types import Units

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class MaskedWords:
    """Proposes the likeliest whole words for every unit, each unit masked alone in its own text.

    Args:
        source: a masked language model: Hub id or directory, or (model, tokenizer).
        words: how many are proposed per unit.
    """

    def __init__(self, source: object, words: int = 8) -> None:
        self.network, self.tokenizer = _loaded(source)
        self.words = words
        if self.tokenizer.mask_token is None:
            raise ModelError(
                f"{type(self.network).__name__} has no mask token, so it cannot propose words; give a masked language "
                "model, such as BERT or RoBERTa"
            )

    def __call__(self, units: Units) -> dict[int, list[str]]:
        """Words by the unit's number; what is there already and what is no word is left out."""
        return {unit: self._proposed(units, unit) for unit in range(len(units))}

    def _proposed(self, units: Units, unit: int) -> list[str]:
        span = units.spans[unit]
        text = units.example.texts[span.field]
        masked = f"{text[: span.start]}{self.tokenizer.mask_token}{text[span.end :]}"
        inputs = self.tokenizer(masked, return_tensors="pt", truncation=True).to(self.network.device)
        places = (inputs["input_ids"][0] == self.tokenizer.mask_token_id).nonzero().flatten()
        if not len(places):  # cut off by the length limit
            return []
        with evaluating(self.network), torch.inference_mode():
            likeliest = self.network(**inputs).logits[0, places[0]].topk(4 * self.words).indices.tolist()
        return self._written(likeliest, units.texts[unit])

    def _written(self, tokens: Sequence[int], present: str) -> list[str]:
        """The tokens that are words by themselves, as they are written."""
        pieces = [str(self.tokenizer.decode([token])).strip() for token in tokens]
        words = [word for word in dict.fromkeys(pieces) if word.isalpha() and word.casefold() != present.casefold()]
        return words[: self.words]


def _loaded(source: object) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if isinstance(source, tuple) and len(source) == 2:
        return source
    if not isinstance(source, str):
        raise ModelError(f"a masked language model is a Hub id, a directory or (model, tokenizer), got {source!r:.80}")
    with reading(f"the masked language model {source!r:.200}", "(give a directory or Hub id of one, such as BERT)"):
        tokenizer = pretrained("AutoTokenizer", source)
        network, report = read_network("AutoModelForMaskedLM", source, read_config(source))
    check_weights(report, repr(source), lambda _: True, "; without them it cannot propose words")
    return network, tokenizer
