"""Students that are networks: what a kind of them needs in order to be trained, apart from the training runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from didact.students.base import LabelledExample, Student, StudentOutcome, StudentRun, TaskSetup
from didact.students.batches import CohortData
from didact.students.cohort_training import CohortFactory, train_students
from didact.students.matching import check_setup
from didact.students.optimization import Schedule
from didact.types import Example


@dataclass(frozen=True, eq=False)
class NetworkTraining:
    """Students of one kind, before they are trained.

    Attributes:
        make: makes untrained students from their seeds.
        data: training pool and test texts as these students read them.
        schedule: of the training.
        together: how many of so many students can train as one cohort.
    """

    make: CohortFactory
    data: CohortData
    schedule: Schedule
    together: Callable[[int], int]


@dataclass(frozen=True, kw_only=True)
class NetworkStudent(Student):
    """A kind of network. ``training`` is the seam for whoever trains students in a way of their own."""

    @abstractmethod
    def training(self, pool: Sequence[LabelledExample], test: Sequence[Example], setup: TaskSetup) -> NetworkTraining:
        """What training needs: texts are read, and a pretrained network is loaded.

        Args:
            pool: examples that runs refer to by their places.
            test: examples to be answered.
            setup: kind of answer, channel and device.
        """

    def train_and_predict(
        self, pool: Sequence[LabelledExample], runs: Sequence[StudentRun], test: Sequence[Example], setup: TaskSetup
    ) -> list[StudentOutcome]:
        """One outcome per run, each as if it were the only one."""
        check_setup(self, setup)
        own = self.training(pool, test, setup)
        return train_students(own.make, own.data, runs, setup, own.schedule, own.together(len(runs)))
