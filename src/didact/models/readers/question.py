"""A question about a passage of any length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor, nn

from didact.errors import CapabilityError, InputError
from didact.models.batch import Inputs
from didact.models.passes import WINDOWS, in_windows
from didact.models.readers._token_rows import pad
from didact.models.readers.base import READERS, ReaderCard, ReaderOptions
from didact.models.readers.pair import PairReader
from didact.models.readers.text import has_tokenizer
from didact.models.tokens.encoding import Encoding
from didact.models.tokens.windows import WindowEncoder
from didact.types import Example, Level

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@READERS.register(
    ReaderCard(
        name="question",
        family="text",
        summary="A question and a passage; a long passage is read in overlapping windows.",
        fields=("text", "text"),
    )
)
class QuestionReader(PairReader):
    """Like the reader of pairs, but a passage that does not fit into one pass is read in several.

    Each window is a pass of its own with the whole question. Perturbations and gradients reach all of them at once;
    what looks into one pass (attention, hidden layers) is refused where there are several.

    Args:
        network: a Transformers network with outputs for every position.
        tokenizer: its fast tokenizer.
        options: length of a window, and the share of text that may lie behind the last one.
    """

    levels: tuple[Level, ...] = (*PairReader.levels, "question", "passage")

    def __init__(
        self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, options: ReaderOptions | None = None
    ) -> None:
        super().__init__(network, tokenizer, options)
        plain = self.encoder
        self.encoder = WindowEncoder(tokenizer, plain.limit, plain.max_truncated, typed=plain.typed)

    @classmethod
    def serves(cls, network: nn.Module, processor: object) -> bool:
        """Networks made for questions."""
        return has_tokenizer(processor) and "ForQuestionAnswering" in type(network).__name__

    def check(self, example: Example) -> None:
        """Refuse a question without a passage."""
        if example.text_pair is None:
            raise InputError(
                f"{self.special.owner} answers questions about a passage, but only one text was given; give "
                "(question, passage) (command line: --question Q --passage P)"
            )

    def probe(self) -> Example:
        """A question and a passage that are read in one pass wherever windows are possible."""
        return Example("a", "b c d e")

    def run(self, inputs: Inputs, forward: Callable[[Inputs], Tensor]) -> Tensor:
        """A pass for every window, put together to rows."""
        return in_windows(inputs, forward)

    def check_single_pass(self, codes: Sequence[Encoding]) -> None:
        """Refuse passages of several windows."""
        most = max(int(code.passes.max()) for code in codes) + 1
        if most > 1:
            raise CapabilityError(
                f"the passage is read in {most} windows of {self.options.max_length} tokens, and this method looks "
                "into a single pass; use one that needs scores or gradients alone, such as occlusion or "
                "integrated_gradients, or shorten the passage"
            )

    def _around(self, codes: Sequence[Encoding], width: int) -> Inputs:
        around = super()._around(codes, width)
        if any(code.passes.any() for code in codes):
            around[WINDOWS] = self.tensor(np.stack([pad(code.passes, width, -1) for code in codes]))
        return around
