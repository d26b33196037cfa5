"""How fast references and learned explainers are on this machine, with nothing else running."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from didact.experiments.engine.study_texts import StudyTexts
from didact.experiments.engine.timing import device_name, seconds_of
from didact.experiments.engine.toml import Plain
from didact.models.network import NetworkModel
from didact.protocols import Explainer
from didact.trained.explainer import LearnedExplainer
from didact.types import Example, Prediction

BULK = 10_000
"""Training texts, all different, by which documents per second are measured on a GPU."""
MOST = 1_000
"""Test texts: the first ones."""


def measure_speed(
    model: NetworkModel,
    texts: StudyTexts,
    references: Mapping[str, Explainer],
    learned: Mapping[str, LearnedExplainer],
) -> Plain:
    """Seconds per text, a few texts at a time, and documents per second of learned explainers in bulk."""
    test = list(texts["test"][:MOST])
    few = test[: 16 if len(test) > 16 else 4]
    known = model.predict(test)
    many = list(texts["train"][:BULK] if model.network.device.type == "cuda" else test)
    predicted = model.predict(many)
    rows = {"prediction": seconds_of(lambda: model.predict(few)) / len(few)}
    for name, reference in references.items():
        reference.explain(model, few[:2])
        rows[name] = seconds_of(lambda made=reference: made.explain(model, few)) / len(few)  # type: ignore[misc]
    rates: Plain = {}
    for name, explainer in learned.items():
        explainer.explain(model, test, predictions=known)
        rows[name] = _explaining(explainer, model, few, known[: len(few)]) / len(few)
        single = [_explaining(explainer, model, [t], [p]) for t, p in zip(few, known, strict=False)]
        rows[f"{name}, one text at a time"] = float(np.median(single))
        rates[name] = _rates(explainer, model, many, predicted)
    return {
        "device": device_name(),
        "torch": torch.__version__,
        "texts at a time": len(few),
        "seconds per text": {name: float(f"{value:.4g}") for name, value in rows.items()},
        "documents per second": rates,
    }


def _rates(
    explainer: LearnedExplainer, model: NetworkModel, texts: list[Example], predictions: list[Prediction]
) -> dict[str, float]:
    """Documents per second in bulk: everything, with predictions known, and the network alone on texts read before."""
    explainer.explain(model, texts[:64], predictions=predictions[:64])
    even, odd = texts[::2], texts[1::2]  # not the same ones twice: those would be tokenised already
    rates = {
        "prediction made": len(even) / seconds_of(lambda: explainer.explain(model, even)),
        "prediction known": len(odd) / _explaining(explainer, model, odd, predictions[1::2]),
    }
    items = explainer.shape.read(model, model.units(texts), [known.index for known in predictions], predictions)
    explainer._scores(items)
    rates["texts read"] = len(items) / seconds_of(lambda: explainer._scores(items))
    return {name: round(rate, 1) for name, rate in rates.items()}


def _explaining(
    explainer: LearnedExplainer, model: NetworkModel, texts: list[Example], predictions: list[Prediction]
) -> float:
    return seconds_of(lambda: explainer.explain(model, texts, predictions=predictions))
