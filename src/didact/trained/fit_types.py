"""The settings of a training and its result."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, Self, get_args, get_origin, get_type_hints

from didact.errors import ParameterError
from didact.registry import unknown
from didact.settings import allowed, fits
from didact.trained.shapes.base import Shape

Optimizer = Literal["adamw", "sgd"]
Schedule = Literal["linear", "constant"]
Precision = Literal["no", "bf16", "fp16"]
Device = Literal["auto", "cpu"]


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """How a shape is trained; the defaults train a small scorer within minutes.

    The published training of L2E is ``FitConfig(epochs=50, batch_tokens=3000, batch_rows=500, optimizer="sgd",
    learning_rate=1e-4, weight_decay=0, warmup=0, schedule="constant", clip=25, patience=None)``.

    Args:
        epochs: most passes over all texts.
        batch_tokens: largest size of a batch, rows times padded length; a longer text is a batch of its own.
        batch_rows: most texts of a batch. With several processes each takes its share of every batch.
        optimizer: "adamw", or "sgd" without momentum.
        learning_rate: its largest value.
        weight_decay: of the optimizer.
        warmup: share of the training in which the rate rises from 0.
        schedule: afterwards the rate is "constant" or falls to 0 in a straight line.
        clip: largest norm of a gradient; None for no limit.
        average: share of the training so far over whose weights a running mean is taken; the mean is then what epochs
            are compared by and what is kept. 0 keeps the weights as they are.
        precision: "no" for float32 throughout; "bf16" or "fp16" (on a GPU) for mixed precision.
        checks: how often in an epoch the shape is validated; the weights of the best check are kept.
        patience: stop after so many epochs without a better value; None for never.
        higher_is_better: of the monitor that ``fit`` is given. A loss is always better when lower.
        seed: decides everything random.
        initialisations: train so many times, from seed, seed + 1 and so on, and keep the best.
        checkpoint_every: write a checkpoint after so many steps and after each epoch; None for each epoch only.
        checkpoint_seconds: but none sooner than so long after the one before, for trainings whose state is large. What
            was done since then is done again after a kill. Several processes do not go by it.
        device: "cpu", or "auto" for what Accelerate finds.
    """

    epochs: int = 10
    batch_tokens: int = 4096
    batch_rows: int = 32
    optimizer: Optimizer = "adamw"
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    warmup: float = 0.1
    schedule: Schedule = "linear"
    clip: float | None = 25.0
    average: float = 0.0
    precision: Precision = "no"
    checks: int = 1
    patience: int | None = 3
    higher_is_better: bool = True
    seed: int = 0
    initialisations: int = 1
    checkpoint_every: int | None = None
    checkpoint_seconds: float = 0.0
    device: Device = "auto"

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(FitConfig).items():
            value = getattr(self, name)
            words = get_origin(hint) is Literal  # named with what is allowed below, as are numbers out of range
            if not words and not isinstance(value, float) and not fits(value, hint):
                raise ParameterError(f"{name} of fit must be {' or '.join(allowed(hint))}, got {value!r}")
        chosen = {"optimizer": Optimizer, "schedule": Schedule, "precision": Precision, "device": Device}
        for name, options in chosen.items():
            if getattr(self, name) not in get_args(options):
                raise ParameterError(f"{name} of fit must be one of {get_args(options)}, got {getattr(self, name)!r}")
        counts = ("epochs", "batch_tokens", "batch_rows", "checks", "patience", "initialisations", "checkpoint_every")
        for name in counts:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ParameterError(f"{name} of fit must be at least 1, got {value!r}")
        for name in ("learning_rate", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ParameterError(f"{name} of fit must be above 0, got {value!r}")
        for name in ("weight_decay", "seed", "checkpoint_seconds"):
            if not getattr(self, name) >= 0:
                raise ParameterError(f"{name} of fit must not be negative, got {getattr(self, name)!r}")
        if not 0 <= self.warmup < 1:
            raise ParameterError(f"warmup of fit is a share, at least 0 and below 1; got {self.warmup!r}")
        if not 0 <= self.average <= 1:
            raise ParameterError(f"average of fit is a share, from 0 to 1; got {self.average!r}")

    @classmethod
    def configured(cls, **settings: object) -> Self:
        """An instance with these settings; the error for an unknown one names it."""
        names = [item.name for item in dataclasses.fields(cls)]
        for name in settings:
            if name not in names:
                raise ParameterError(unknown("setting of fit", name, names))
        return cls(**settings)  # type: ignore[arg-type] # checked when it is made

    def deciding(self) -> dict[str, object]:
        """The settings that decide the result of a training; how often it is stored does not."""
        settings = {**dataclasses.asdict(self), "checkpoint_every": None}
        del settings["checkpoint_seconds"]
        return settings

    def rate(self, progress: float) -> float:
        """The learning rate when ``progress``, from 0 to 1, of the training is done."""
        rising = progress / self.warmup if progress < self.warmup else 1.0
        falling = (1 - progress) / (1 - self.warmup) if self.schedule == "linear" else 1.0
        return self.learning_rate * min(rising, falling)


@dataclass(frozen=True)
class Epoch:
    """Losses and time of one epoch, or of a part of it where it is validated several times.

    Attributes:
        number: of the epoch, counted from 1.
        train_loss: mean per text, each with the weights of its step.
        validation_loss: mean per text afterwards; None without validation texts.
        monitor: what the monitor returned afterwards; None without one.
        seconds: wall time, validation and monitor included.
    """

    number: int
    train_loss: float
    validation_loss: float | None
    monitor: float | None
    seconds: float

    @property
    def value(self) -> float | None:
        """What epochs are compared by: the monitor's value, or the validation loss where there is no monitor."""
        return self.validation_loss if self.monitor is None else self.monitor


@dataclass(frozen=True)
class TrainingRun:
    """One training from its first weights to its end.

    Attributes:
        seed: that decided it.
        history: its epochs.
        best: the epoch whose weights were kept.
    """

    seed: int
    history: tuple[Epoch, ...]
    best: Epoch


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained shape and the history of its training.

    Attributes:
        shape: with the weights of the best epoch of the best run.
        run: the run they come from.
        runs: all runs, one per initialisation.
        data_hash: of the training samples (of the first epoch, where each has its own).
    """

    shape: Shape
    run: TrainingRun
    runs: tuple[TrainingRun, ...]
    data_hash: str

    @property
    def history(self) -> tuple[Epoch, ...]:
        """The epochs of the kept run."""
        return self.run.history

    @property
    def seconds(self) -> float:
        """Wall time of all runs together."""
        return sum(epoch.seconds for run in self.runs for epoch in run.history)
