"""A signal turns what is known of a text into targets for its units, and a shape's outputs into a loss and scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from didact.types import Explanation, Floats


class Signal(ABC):
    """What a shape learns from.

    A loss is given per document, as the papers define it; ``fit`` averages over the documents of a batch.
    """

    name: ClassVar[str]
    """Registered name, written into the saved configuration."""

    @classmethod
    def suited(cls, *, signed: bool, **settings: Any) -> Self:
        """One that fits a teacher whose scores have a sign or not; what ``settings`` say stands."""
        return cls(**settings)

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Numbers per unit that the shape must give."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All settings as plain JSON values; ``Signal(**settings)`` makes it again."""

    @abstractmethod
    def targets(self, explanation: Explanation) -> Floats:
        """What the units of one explained text should be given: (units,)."""

    @abstractmethod
    def loss(
        self, outputs: Tensor, targets: Tensor, present: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Loss per document: outputs (rows, units, outputs), targets and present (rows, units) -> (rows,).

        ``generator`` draws what is sampled (pairs of long documents).
        """

    @abstractmethod
    def scores(self, outputs: Tensor) -> Tensor:
        """A score per unit, larger for stronger evidence: (..., outputs) -> (...)."""

    @property
    @abstractmethod
    def signed(self) -> bool:
        """Whether a negative score means evidence against the target."""
