"""Which attention heads an explainer uses, where it is made of them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from didact.experiments.engine.toml import Plain
from didact.trained.explainer import LearnedExplainer
from didact.types import Floats


@runtime_checkable
class MixesHeads(Protocol):
    """A shape that mixes the explained model's heads."""

    def weights(self) -> Floats:
        """How much each head counts (layers, heads)."""


def head_weights(explainer: LearnedExplainer) -> Plain | None:
    """The layers and the weights of their heads; None for explainers of another shape."""
    shape = explainer.shape
    if not isinstance(shape, MixesHeads):
        return None
    weights = shape.weights()
    return {"layers": shape.settings["layers"], "weights": weights.tolist()}
