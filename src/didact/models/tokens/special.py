"""The token ids that masking and padding need, as a tokenizer and its model name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from didact.errors import ParameterError
from didact.models.tokens.replacements import Ints, token_pool
from didact.ops.masking import Absence

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class SpecialTokens:
    """Special ids of one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
        self.tokenizer = tokenizer
        self.owner = str(getattr(model, "name_or_path", "") or type(model).__name__)
        self.pad_id = _first(getattr(model.config, "pad_token_id", None), tokenizer.pad_token_id)
        # What an empty input consists of where the tokenizer adds no special tokens of its own.
        self.filler_id = _first(tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id)
        self._pools: dict[str | None, Ints] = {}

    def check(self, operator: Absence) -> None:
        """Refuse an operator that this vocabulary has no token for."""
        if operator.kind == "sample":
            self.pool(operator)
        elif not operator.removes:
            self.absent_id(operator)

    def pool(self, operator: Absence) -> Ints:
        """Ids that replacements are drawn from."""
        if operator.token not in self._pools:
            self._pools[operator.token] = token_pool(self.tokenizer, operator.token)
        return self._pools[operator.token]

    def absent_id(self, operator: Absence) -> int:
        """Id of the token that stands for an absent unit."""
        if operator.kind in ("mask", "blend"):
            return self._mask_id()
        if operator.kind == "sample":
            raise ParameterError(
                "'sample' draws another token each time, and here one is needed; use 'mask' or 'token:X'"
            )
        token = str(operator.token)
        named = {"unk": self.tokenizer.unk_token_id, "pad": self.tokenizer.pad_token_id}.get(token)
        index = named if named is not None else self.tokenizer.convert_tokens_to_ids(token)
        if index is None or (index == self.tokenizer.unk_token_id and token not in ("unk", self.tokenizer.unk_token)):
            raise ParameterError(f"{token!r} is not one token of {self.owner}'s vocabulary; give one that is, or 'unk'")
        return int(index)  # type: ignore[arg-type] # one token gives one id

    def _mask_id(self) -> int:
        if self.tokenizer.mask_token_id is None:
            raise ParameterError(
                f"the tokenizer of {self.owner} has no mask token; use 'delete', 'drop' or 'token:X' instead"
            )
        return int(self.tokenizer.mask_token_id)


def _first(*ids: int | None) -> int:
    return next((int(index) for index in ids if index is not None), 0)
