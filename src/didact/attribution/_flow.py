"""What the methods share that follow tokens through the layers of one observed pass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from didact.attribution.base import Attribution, Outcome
from didact.models.layers import Trace
from didact.ops.units import sum_to_units
from didact.protocols import Layered
from didact.types import Cost, Target, Units


@dataclass(frozen=True, kw_only=True)
class Flow(Attribution):
    """Base of methods that need nothing but the trace of one pass."""

    @abstractmethod
    def flow(self, trace: Trace) -> Tensor:
        """Shares of the tokens in the first position of the last layer: (tokens,)."""

    def attribute(self, model: Layered, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Take one observed pass per example apart."""
        outcomes = []
        with torch.inference_mode():
            for unit, target in zip(units, targets, strict=True):
                prediction, trace = model.trace(unit)
                outcomes.append(Outcome(sum_to_units(unit, self.flow(trace)), prediction.value(target)))
        return outcomes

    def cost(self, units: Units) -> Cost:
        """The plain prediction and one observed pass."""
        return Cost(forwards=2)
