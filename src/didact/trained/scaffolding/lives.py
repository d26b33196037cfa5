"""When students of a population are replaced by fresh ones, which texts each learns, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from didact.students.base import Ints
from didact.students.batches import epoch_order

Ages = Literal["mixed", "equal"]


@dataclass(frozen=True, kw_only=True)
class Lives:
    """The lives of all students of a population, decided by the seed alone.

    With ages "mixed", births are spread evenly over a life, so that at any time there are students at every stage
    of learning; the first lives are shorter for that. With "equal", all are born at once.

    Args:
        students: how many live at a time.
        examples: training texts of each student, drawn from the pool.
        batch: texts per step.
        window: steps that are made at a time.
        resets: a student is replaced by a fresh one after so many passes over its texts; 0 for never.
        ages: "mixed" or "equal".
        seed: decides first weights, texts and orders.
    """

    students: int
    examples: int
    batch: int
    window: int = 1
    resets: int = 0
    ages: Ages = "mixed"
    seed: int = 0

    @property
    def passes(self) -> int:
        """Passes over its texts that a student makes in an epoch: enough for one window at least."""
        return -(-self.window // (self.examples // self.batch))

    @property
    def windows(self) -> int:
        """Windows in an epoch."""
        return self.passes * (self.examples // self.batch) // self.window

    @property
    def life(self) -> int:
        """Epochs that a student lives; 0 for ever."""
        return -(-self.resets // self.passes)

    def generation(self, student: int, epoch: int) -> int:
        """How many students have had this place before."""
        return (epoch + self._offset(student)) // self.life if self.life else 0

    def born(self, epoch: int) -> list[int]:
        """Places whose student is replaced before the epoch."""
        if not self.life or not epoch:
            return []
        return [s for s in range(self.students) if self.generation(s, epoch) != self.generation(s, epoch - 1)]

    def age(self, student: int, epoch: int) -> int:
        """Epochs since the student was born."""
        if not self.life:
            return epoch
        return epoch - max(0, self.generation(student, epoch) * self.life - self._offset(student))

    def student_seed(self, student: int, epoch: int) -> int:
        """Of the first weights of the student that lives in this place in the epoch."""
        key = [self.seed, student, self.generation(student, epoch)]
        return int(np.random.SeedSequence(key).generate_state(1)[0])

    def places(self, lengths: Ints, epoch: int) -> Ints:
        """Texts of all students in every step of an epoch: (windows, students, window, batch).

        Args:
            lengths: tokens of the texts of the pool.
            epoch: counted from 0.
        """
        seeds = [self.student_seed(student, epoch) for student in range(self.students)]
        steps = np.stack([self._steps(lengths, seed, epoch) for seed in seeds])  # (S, steps, B)
        kept = steps[:, : self.windows * self.window]
        return kept.reshape(self.students, self.windows, self.window, self.batch).swapaxes(0, 1)

    def _steps(self, lengths: Ints, seed: int, epoch: int) -> Ints:
        """One student's batches of an epoch (steps, batch); what does not fill a batch is left to another pass."""
        own = np.random.default_rng(seed).choice(len(lengths), self.examples, replace=False)
        numbers = range(epoch * self.passes, (epoch + 1) * self.passes)
        orders = [epoch_order(lengths[own], seed, number, self.batch) for number in numbers]
        return np.stack([own[rows] for order in orders for rows in order if len(rows) == self.batch])

    def _offset(self, student: int) -> int:
        return student * self.life // self.students if self.ages == "mixed" else 0
