"""A text model that counts in half precision and goes by the name of the whole one."""

from __future__ import annotations

from didact.models.text import TextModel
from didact.types import Card


class HalfPrecision(TextModel):
    """The same model with its weights rounded to float16, for methods that ask it thousands of times.

    Explanations of it are taken for explanations of the whole model: LIME's own draws move its scores hundreds of times
    further than the rounding does. Methods that take gradients should ask the whole model.

    Args:
        whole: the model; its weights are rounded in place, so it must be nobody else's.

    Example:
        >>> from didact.models.load import load_model
        >>> quick = Halved(load_model())
        >>> quick.fingerprint() == load_model().fingerprint()
        True
    """

    def __init__(self, whole: TextModel) -> None:
        self._whole = whole.fingerprint()
        super().__init__(
            whole.hf.half(),
            whole.tokenizer,
            inputs=whole.inputs,
            max_length=whole.encoder.limit,
            max_truncated=whole.encoder.max_truncated,
            batch_tokens=whole.budget.tokens,
        )

    def fingerprint(self) -> str:
        """Of the model before it was rounded."""
        return self._whole


def suits(card: Card) -> bool:
    """Whether explanations by this method may come from it: it compares answers and takes no gradients."""
    return card.family == "perturbation"
