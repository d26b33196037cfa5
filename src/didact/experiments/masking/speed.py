"""How long the explainers of a study take on this machine, with nothing else running."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from didact.experiments.engine.toml import Plain
from didact.protocols import Explainer, Model
from didact.types import Example

SINGLE = 8
"""Texts that are explained one at a time."""


def measure_speed(model: Model, texts: Sequence[Example], explainers: Mapping[str, Explainer]) -> Plain:
    """Per explainer: seconds per text together and one at a time, and passes of the explained model per text."""
    given = list(texts)
    prediction = _timed(lambda: model.predict(given)) / len(given)
    rows: dict[str, dict[str, float]] = {}
    for name, explainer in explainers.items():
        explainer.explain(model, given[:2])  # kernels are chosen and memory is taken when something is first run
        together = _timed(lambda own=explainer: own.explain(model, given)) / len(given)  # type: ignore[misc]
        single = [_timed(lambda own=explainer, text=text: own.explain(model, [text])) for text in given[:SINGLE]]  # type: ignore[misc]
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


def device_name() -> str:
    """What computes."""
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else f"CPU, {os.cpu_count()} cores"


def _timed(call: Callable[[], object]) -> float:
    """Seconds of a call; a GPU has finished its work before the clock is read."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began
