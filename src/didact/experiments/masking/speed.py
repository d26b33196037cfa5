"""How long the explainers of a study take on this machine, with nothing else running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from didact.experiments.engine.timing import device_name, seconds_of
from didact.experiments.engine.toml import Plain
from didact.protocols import Explainer, Model
from didact.types import Example

SINGLE = 8
"""Texts that are explained one at a time."""


def measure_speed(model: Model, texts: Sequence[Example], explainers: Mapping[str, Explainer]) -> Plain:
    """Per explainer: seconds per text together and one at a time, and passes of the explained model per text."""
    given = list(texts)
    prediction = seconds_of(lambda: model.predict(given)) / len(given)
    rows: dict[str, dict[str, float]] = {}
    for name, explainer in explainers.items():
        explainer.explain(model, given[:2])  # kernels are chosen and memory is taken when something is first run
        together = seconds_of(lambda own=explainer: own.explain(model, given)) / len(given)  # type: ignore[misc]
        single = [seconds_of(lambda own=explainer, text=text: own.explain(model, [text])) for text in given[:SINGLE]]  # type: ignore[misc]
        costs = [explainer.cost(units) for units in model.units(given, getattr(explainer, "level", None))]
        rows[name] = {
            "seconds": together,
            "seconds alone": float(np.median(single)),
            "forwards": float(np.mean([cost.forwards for cost in costs])),
            "backwards": float(np.mean([cost.backwards for cost in costs])),
        }
    return {
        "device": device_name(),
        "torch": torch.__version__,
        "texts": len(given),
        "seconds of a prediction": float(f"{prediction:.4g}"),
        "explainers": {name: {key: float(f"{v:.4g}") for key, v in row.items()} for name, row in rows.items()},
    }
