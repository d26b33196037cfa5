"""Classifiers with ``predict_proba``, such as scikit-learn's, as functions from inputs to probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from didact.errors import ModelError

CALIBRATED = "sklearn.calibration.CalibratedClassifierCV"


def is_classifier(source: object) -> bool:
    """Whether it predicts in the manner of scikit-learn; networks have ways of their own."""
    if isinstance(source, (nn.Module, type)):
        return False
    return hasattr(source, "predict_proba") or (hasattr(source, "predict") and hasattr(source, "fit"))


def probabilities_of(classifier: Any) -> Callable[[list[Any]], object]:
    """Its ``predict_proba``; one that has none is refused."""
    if not hasattr(classifier, "predict_proba"):
        raise ModelError(
            f"{classifier_name(classifier)} has no predict_proba, so there is no probability to explain; choose a "
            f"classifier that has one, wrap it in {CALIBRATED}, or give a function from a list of texts to "
            "probabilities"
        )
    predict: Callable[[list[Any]], object] = classifier.predict_proba
    return predict


def class_names(classifier: Any) -> tuple[str, ...] | None:
    """Names of its classes in the order of its probabilities, where it has them."""
    classes = getattr(classifier, "classes_", None)
    return tuple(str(label) for label in classes) if isinstance(classes, Iterable) else None


def classifier_name(classifier: Any) -> str:
    """Its class, or those of the steps of a pipeline."""
    steps = getattr(classifier, "steps", None)
    parts = [step for _, step in steps] if isinstance(steps, list) else [classifier]
    return " + ".join(type(part).__name__ for part in parts)
