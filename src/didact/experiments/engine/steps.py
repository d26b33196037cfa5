"""What an experiment consists of: steps under content-hash keys, planned in rounds by a job.

A step's key is a hash of all that decides its result, and its result is a part (``didact.store.parts``) under that key:
what was done once is never done again, by this run, a later one, or another process that shares the folder.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from didact.store.parts import Parts


@dataclass(frozen=True)
class RunOptions:
    """Where and how long an experiment is carried out; plain values, so that worker processes get them too.

    Attributes:
        out: folder of the run.
        store: folder of the parts, if runs are to share them; inside ``out`` when not given.
        device: "cpu" or "cuda"; the GPU when there is one.
        workers: processes that share the steps; 1 does them in this process.
        deadline: ``time.time()`` after which no step is begun; None for no limit.
        command: the command that started the run, for the manifest.
        overwrite: whether results of another recipe in ``out`` are replaced; otherwise they are refused.
        trust_remote_code: whether the explained model may run code of its own: a choice of the person who starts the
            run, never of a recipe.
    """

    out: Path
    store: Path | None = None
    device: str | None = None
    workers: int = 1
    deadline: float | None = None
    command: str = ""
    overwrite: bool = False
    trust_remote_code: bool = False

    @property
    def parts(self) -> Parts:
        """Where results are kept."""
        return Parts(self.store or self.out / "parts")

    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.time() > self.deadline


@dataclass(frozen=True)
class KeyedStep:
    """A piece of work for one process.

    Attributes:
        name: unique within the run; shown while it is worked on, and logged.
        key: hash of all that decides the result.
        call: the job's method that computes it; it returns the table to keep under the key, or None where it has
            kept it itself or was stopped by the deadline.
        arguments: of that method; plain values.
        after: names of the steps that must be done before.
    """

    name: str
    key: str
    call: str
    arguments: tuple[object, ...] = ()
    after: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Round:
    """Steps whose keys can be computed at the same time; each stands behind the steps that it needs."""

    title: str
    steps: Sequence[KeyedStep]


class RecipeJob(ABC):
    """A recipe being carried out: plans the steps, computes them and writes the run's files.

    Every process has a job of its own, so what several steps need (a model, texts) is loaded once per process, when it
    is first used, and results pass between steps through ``parts`` alone.
    """

    closing_seconds: ClassVar[float] = 0.0
    """Time kept for ``closing`` when a run has a deadline."""

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.parts = options.parts
        self.results = options.out
        """Where ``begin`` and ``finish`` write; the engine moves it all into ``options.out`` at once."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Of the experiment."""

    @abstractmethod
    def identity(self) -> Mapping[str, object]:
        """What decides the results, as plain values by name, such as the recipe's entries and the model's fingerprint.

        A folder holds the results of one identity: another one is refused, with the names of what differs.
        """

    def begin(self) -> None:
        """Write what is known of the run before the first round, such as its recipe; by default nothing."""
        return

    @abstractmethod
    def rounds(self) -> Iterator[Round]:
        """The steps, round by round; a round is planned when all steps of the earlier ones are done."""

    def closing(self) -> Sequence[KeyedStep]:
        """Steps that come last and have the machine to themselves, such as measurements of speed."""
        return ()

    @abstractmethod
    def finish(self, *, complete: bool) -> None:
        """Write records and reports' data from the parts; of what there is where the run is not complete."""

    def is_done(self, step: KeyedStep) -> bool:
        """Whether the result of a step is there."""
        return self.parts.has(step.key)

    def do(self, step: KeyedStep) -> None:
        """Compute a step and keep its result."""
        table: pa.Table | None = getattr(self, step.call)(*step.arguments)
        if table is not None:
            self.parts.write(step.key, table)
