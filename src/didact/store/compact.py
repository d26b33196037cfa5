"""Explanations as a small table: scores and predictions only, for whoever has the texts and the model at hand again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from didact.protocols import Model
from didact.types import Cost, Explanation, JsonValue, Prediction, Target, Units

COLUMNS = (
    ("text", pa.string()),
    ("scores", pa.list_(pa.float32())),
    ("signed", pa.bool_()),
    ("target", pa.int32()),
    ("outputs", pa.list_(pa.float64())),
    ("probabilities", pa.list_(pa.float64())),
    ("method", pa.string()),
    ("forwards", pa.int32()),
    ("seconds", pa.float64()),
)
"""Columns of a row; ``text`` is the fingerprint of the explained text."""


def packed(one: Explanation) -> dict[str, Any]:
    """A row of the table."""
    return {
        "text": one.example.fingerprint,
        "scores": one.scores,
        "signed": one.signed,
        "target": one.target.index,
        "outputs": one.prediction.outputs,
        "probabilities": one.prediction.probabilities,
        "method": one.method,
        "forwards": one.cost.forwards,
        "seconds": one.cost.seconds or 0.0,
    }


def unpacked(
    rows: Sequence[Mapping[str, Any]],
    units: Sequence[Units],
    model: Model,
    parameters: Mapping[str, JsonValue] | None = None,
) -> list[Explanation]:
    """The explanations of some rows, given the units of their texts and the explained model."""
    source = {"name": model.name, "fingerprint": model.fingerprint()}  # computed once: it looks at every weight
    scale = model.scales[0]
    return [
        Explanation(
            method=row["method"],
            units=own,
            scores=tuple(row["scores"]),
            target=Target(row["target"], model.labels[row["target"]], scale),
            prediction=Prediction(model.labels, tuple(row["outputs"]), tuple(row["probabilities"])),
            parameters=parameters or {},
            signed=row["signed"],
            cost=Cost(row["forwards"], 0, None, row["seconds"]),
            model=source,
        )
        for row, own in zip(rows, units, strict=True)
    ]
