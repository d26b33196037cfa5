"""Models of few words whose answers can be worked out in the head, and explanations written down by hand."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from didact.models.functions.blackbox import BlackBox
from didact.protocols import Evidence, Model
from didact.types import Example, Explanation, Floats, Scale, Target

TEXT = "a good warm film"
WEIGHTS = {"good": 0.5, "warm": 0.2, "film": 0.1, "a": 0.0}


def additive(weights: Mapping[str, float] = WEIGHTS, base: float = 0.1) -> BlackBox:
    """p(yes) = base + the sum of the weights of the words in the text."""

    def predict(texts: list[str]) -> Floats:
        yes = np.array([base + sum(weights.get(word, 0.0) for word in text.split()) for text in texts])
        return np.stack([1 - yes, yes], axis=1)

    return BlackBox(predict, labels=("no", "yes"))


def answering(function: Callable[[str], float]) -> BlackBox:
    """p(yes) is any function of the text."""

    def predict(texts: list[str]) -> Floats:
        yes = np.array([function(text) for text in texts])
        return np.stack([1 - yes, yes], axis=1)

    return BlackBox(predict, labels=("no", "yes"))


def explain(
    model: Model, text: str, scores: Sequence[float], target: int = 1, scale: Scale = "probability"
) -> Explanation:
    """An explanation with these scores, as if a method had found them."""
    example = Example.of(text)
    (units,), (prediction,) = model.units([example]), model.predict([example])
    return Explanation(
        "by hand", units, tuple(scores), Target(target, model.labels[target], scale), prediction, signed=True
    )


def evidence(model: Model, text: str, scores: Sequence[float], target: int = 1) -> Evidence:
    """The same, ready to be measured."""
    return Evidence([explain(model, text, scores, target)], model)
