"""A model that computes in half precision and has the fingerprint of the full one."""

from __future__ import annotations

from didact.models.network import NetworkModel
from didact.types import Card


class HalfPrecision(NetworkModel):
    """The same model with its weights rounded to float16, for methods that evaluate it thousands of times.

    Explanations of it are taken for explanations of the full model: LIME's own draws move its scores hundreds of times
    further than the rounding does. Methods that take gradients should use the full model.

    Args:
        full: the model; its weights are rounded in place, so nothing else may use it.

    Example:
        >>> from didact.models.load import load_model
        >>> quick = HalfPrecision(load_model())
        >>> quick.fingerprint() == load_model().fingerprint()
        True
    """

    def __init__(self, full: NetworkModel) -> None:
        self._full = full.fingerprint()
        super().__init__(full.network.half(), full.reader, full.head, batch_tokens=full.budget.tokens)

    def fingerprint(self) -> str:
        """Of the model before it was rounded."""
        return self._full


def suits(card: Card) -> bool:
    """Whether explanations by this method may come from it: the method compares outputs and takes no gradients."""
    return card.family == "perturbation"
