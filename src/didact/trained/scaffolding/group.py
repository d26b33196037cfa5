"""What the scaffold signal needs of students, whether they make steps or are solved in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from didact.students.base import Ints, LabelledExample
from didact.students.tokenized import TokenizedTexts


@dataclass(frozen=True, eq=False)
class GroupTexts:
    """Texts of students with the teacher's answers, in three parts that have nothing in common.

    Attributes:
        pool: students learn from these.
        outer: the loss on these is what hints are to make small.
        validation: the loss on these compares explainers; no gradient comes from them.
    """

    pool: Sequence[LabelledExample]
    outer: Sequence[LabelledExample]
    validation: Sequence[LabelledExample] = ()

    @property
    def all(self) -> list[LabelledExample]:
        """One after another."""
        return [*self.pool, *self.outer, *self.validation]


class StudentGroup(Protocol):
    """Students that learn from hints, and know what each hint did to their outer loss."""

    @property
    def device(self) -> torch.device:
        """Where the students are."""

    @property
    def layout(self) -> tuple[int, int, int]:
        """Students, steps at a time, and texts per step."""

    @property
    def tokens(self) -> TokenizedTexts:
        """All texts as the students read them: those of the pool first."""

    def windows(self, epoch: int) -> list[Ints]:
        """Places in the pool of the texts of each call of ``window`` in an epoch, in the order of the layout."""

    def window(self, places: Ints, hints: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Let the students learn; then the derivative of each student's outer loss with respect to its hints.

        Args:
            places: of the texts in the pool (S, steps, B).
            hints: weights of positions (S, steps, B, L).
            generator: draws what is random.

        Returns:
            The derivatives (S, steps, B, L) and the outer losses (S,).
        """

    def validation_losses(self, numbers: Ints) -> Tensor:
        """Mean over the students of the loss of validation texts, given by number from 0: (texts,)."""
