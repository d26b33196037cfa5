"""The one training loop of learned explainers.

The order of the texts, dropout and what a signal samples depend on the seed and the step alone, so a killed run goes on
as if nothing had happened: on a CPU it ends with equal weights.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from didact.errors import InputError, ParameterError
from didact.models.planner import Ints
from didact.progress import advance, working
from didact.provenance import content_hash
from didact.trained import checkpoints
from didact.trained._accelerating import make_accelerator, seed_dropout
from didact.trained._batching import by_length, share, shuffled
from didact.trained._collated import collated
from didact.trained._fit_state import Checkpoint, Place
from didact.trained.fit_types import Epoch, FitConfig, Fitted, TrainingRun
from didact.trained.samples import Sample, TrainingSamples, batch_of, samples_hash
from didact.trained.shapes.base import Shape
from didact.trained.signals.base import Signal

Monitor = Callable[[Shape], float]


def fit(
    shape: Shape,
    signal: Signal,
    samples: TrainingSamples,
    config: FitConfig | None = None,
    *,
    monitor: Monitor | None = None,
    folder: Path | None = None,
) -> Fitted:
    """Train a copy of the shape and return the weights that were best on validation.

    Under ``accelerate launch`` with several processes each takes its share of the rows of every batch, and gradients
    are averaged so that a step is the same as that of a single process.

    Args:
        shape: what is trained; the given one is not changed.
        signal: computes the loss.
        samples: what the signal prepared. Without validation samples and without a monitor there is nothing to compare
            epochs by, and the last weights are kept.
        config: the rest.
        monitor: called with the shape after each epoch, in evaluation mode; epochs are compared by what it returns
            instead of the validation loss; ``config.higher_is_better`` is its direction.
        folder: where checkpoints go. A killed run resumes from there, and a finished one is not run again.
    """
    config = config or FitConfig()
    if shape.outputs != signal.outputs:
        raise ParameterError(
            f"{signal.card.name} needs {signal.outputs} numbers per unit, but the {shape.card.name} gives "
            f"{shape.outputs}"
        )
    first = samples.of_epoch(0)
    if not len(first):
        raise InputError("there are no training samples; give at least one text with its targets")
    data_hash = samples_hash(first)
    marks = {
        "configuration": content_hash([config.deciding(), monitor is None]),
        "shape": content_hash([shape.card.name, shape.settings, checkpoints.tensors_hash(shape.state_dict())]),
        "signal": content_hash([signal.card.name, signal.parameters]),
        "training data": data_hash,
        "validation data": samples_hash(samples.validation),
        **samples.marks,
    }
    accelerator = make_accelerator(config)
    task = _Task(signal, samples, config, monitor, accelerator, folder, marks)
    seeded = [accelerator.device] if accelerator.device.type == "cuda" else []
    with torch.random.fork_rng(seeded), torch.inference_mode(False), torch.enable_grad():
        trained = [_trained(task, shape, number) for number in range(config.initialisations)]
    shapes, runs = zip(*trained, strict=True)
    chosen = _best_run(runs, task.higher)
    return Fitted(shapes[chosen], runs[chosen], runs, data_hash)


@dataclass(frozen=True, eq=False)
class _Task:
    """What all initialisations share."""

    signal: Signal
    samples: TrainingSamples
    config: FitConfig
    monitor: Monitor | None
    accelerator: Accelerator
    folder: Path | None
    marks: Mapping[str, str]

    @property
    def higher(self) -> bool:
        return self.monitor is not None and self.config.higher_is_better


def _trained(task: _Task, shape: Shape, number: int) -> tuple[Shape, TrainingRun]:
    trained = shape.restarted(number) if number else copy.deepcopy(shape)
    run, weights = _Training(task, copy.deepcopy(trained), number).run()
    trained.load_state_dict(weights)
    return trained.eval(), run


class _Training:
    """The training of one initialisation."""

    def __init__(self, task: _Task, shape: Shape, number: int) -> None:
        self.task = task
        self.config = task.config
        self.number = number
        self.seed = task.config.seed + number
        self.shape = shape
        self.accelerator = task.accelerator
        self.device = self.accelerator.device
        self.kept = copy.deepcopy(shape).to(self.device).eval() if self.config.average else shape
        shared = task.samples.shared
        modules = {name: copy.deepcopy(cast("nn.Module", shared[name])) for name in task.samples.trained}
        carried = {name: copy.deepcopy(cast("nn.Module", shared[name])) for name in task.samples.carried}
        self.beside, self.carried = nn.ModuleDict(modules).to(self.device), nn.ModuleDict(carried)
        self.shared: dict[str, object] = {**shared, **modules, **carried}
        trained = [*shape.parameters(), *self.beside.parameters()]
        self.model, self.optimizer = self.accelerator.prepare(shape, _optimizer(trained, task.config))
        self.collated = collated(shape, task.samples, self.device)
        self.place = Place()
        self.best: dict[str, Tensor] = {}
        self.started = self.written = time.perf_counter()
        self.checkpoint = self._checkpoint(task.folder)

    def run(self) -> tuple[TrainingRun, dict[str, Tensor]]:
        """Train to the end; what was done before a kill is not done again."""
        if self.checkpoint is not None and self.checkpoint.path.is_file():
            self.place, self.best = self.checkpoint.read()
        while not self.place.finished:
            self._epoch()
            self._judge()
            self._save()
        history = tuple(self.place.history)
        return TrainingRun(self.seed, history, history[self.place.best - 1]), self.best

    def _epoch(self) -> None:
        place = self.place
        samples = self.task.samples.of_epoch(place.epoch)
        steps = self._steps(samples)
        first, last = _part(len(steps), self.config.checks, place.part)
        self.started = time.perf_counter() - place.seconds
        self.model.train()
        with working(self._title(), sum(map(len, steps))):
            advance(sum(map(len, steps[: place.step])))
            for rows in steps[place.step : last]:
                self._step(samples, rows, (place.epoch + place.step / len(steps)) / self.config.epochs)
                place.step += 1
                self._average(place.epoch * len(steps) + place.step)
                advance(len(rows))
                every = self.config.checkpoint_every
                if every and place.step % every == 0 and place.step < last:
                    self._save()
        place.loss = self._together(place.loss) / sum(map(len, steps[first:last]))
        place.part = 0 if last == len(steps) else place.part + 1

    def _steps(self, samples: Sequence[Sample]) -> Sequence[Ints]:
        """Rows of every step of the epoch."""
        own = self.task.samples.batches
        if own is None:
            return shuffled(self.shape, samples, self.config, self.seed, self.place.epoch)
        if self.accelerator.num_processes > 1:
            raise ParameterError(
                f"{self.task.signal.card.name} makes batches that cannot be split; train it in a single process"
            )
        return own(self.place.epoch)

    def _step(self, samples: Sequence[Sample], rows: Ints, progress: float) -> None:
        """One update from the mean loss over the rows, of which each process takes its share."""
        mine, weight = share(rows, self.accelerator.process_index, self.accelerator.num_processes)
        key = [self.seed, self.place.epoch, self.place.step, self.accelerator.process_index]
        drawn = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
        seed_dropout(drawn, self.device)
        each = self._losses(samples, mine, torch.Generator().manual_seed(drawn))
        if weight:
            self.place.loss += _total(each)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.rate(progress)
        self.optimizer.zero_grad()
        self.accelerator.backward(each.mean() * weight)
        self._share_gradients()
        if self.config.clip is not None:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()

    def _share_gradients(self) -> None:
        """Average the gradients of modules beside the shape over processes; those of the shape are already."""
        if self.accelerator.num_processes > 1:
            for weight in self.beside.parameters():
                if weight.grad is not None:
                    weight.grad = self.accelerator.reduce(weight.grad, "mean")

    def _average(self, done: int) -> None:
        """Move the kept weights to the mean over the last steps; the more are done, the more count."""
        if self.kept is self.shape:
            return
        last = max(1.0, self.config.average * done)
        with torch.no_grad():
            for kept, trained in zip(self.kept.parameters(), self.shape.parameters(), strict=True):
                if trained.requires_grad:
                    kept.lerp_(trained, 1 / last)

    def _losses(self, samples: Sequence[Sample], rows: Ints, generator: torch.Generator | None) -> Tensor:
        """The loss of each text, (rows,); without a generator, in validation."""
        if generator is None or self.collated is None:
            batch = batch_of(self.shape, samples, rows, self.device, self.shared)
        else:
            batch = self.collated.batch(rows, self.shared)
        batch = dataclasses.replace(batch, generator=generator)
        # In validation each process has batches of its own, so none may wait for the others in its forward pass.
        outputs = self.kept(batch.inputs) if generator is None else self.model(batch.inputs)
        each = self.task.signal.loss(outputs.float(), batch)
        lost = (~each.isfinite()).nonzero()
        if len(lost):
            row = int(rows[int(lost[0])])
            kind = "validation" if generator is None else "training"
            self._refuse(f"{kind} sample {row} (from 0)", bool(np.isfinite(samples[row].targets).all()))
        return each

    def _refuse(self, what: str, sound: bool) -> None:
        where = f"epoch {self.place.epoch + 1}, step {self.place.step + 1}, {what}"
        if not sound:
            raise InputError(f"the loss is not finite ({where}): its targets hold NaN or infinity; leave the text out")
        raise ParameterError(
            f"the loss is not finite ({where}): training diverges; lower learning_rate "
            f"({self.config.learning_rate:g}) or clip ({self.config.clip})"
        )

    def _judge(self) -> None:
        """Close an epoch or a part of it: validate, keep the weights if they are the best so far, and go on or not."""
        place = self.place
        self.model.eval()
        with torch.no_grad():
            loss = self._validate()
            monitor = self._measure()
        taken = time.perf_counter() - self.started
        place.history.append(Epoch(place.epoch + 1, place.loss, loss, monitor, taken))
        values = [epoch.value for epoch in place.history]
        best = _best(values, self.task.higher)
        if best + 1 == len(values):
            self.best = {name: weight.detach().cpu().clone() for name, weight in self.kept.state_dict().items()}
            if not all(bool(weight.isfinite().all()) for weight in self.best.values()):
                self._refuse("its last one", sound=True)
        place.best = best + 1
        place.loss, place.seconds = 0.0, 0.0
        if not place.part:
            place.epoch, place.step = place.epoch + 1, 0
        waited = len(values) - place.best
        patient = self.config.patience is None or waited < self.config.patience * self.config.checks
        place.finished = place.epoch == self.config.epochs or not patient

    def _validate(self) -> float | None:
        samples = self.task.samples.validation
        if not len(samples):
            return None
        total = 0.0
        for number, rows in enumerate(by_length(self.shape, samples, self.config)):
            if number % self.accelerator.num_processes == self.accelerator.process_index:
                total += _total(self._losses(samples, rows, None))
        return self._together(total) / len(samples)

    def _measure(self) -> float | None:
        """What the monitor returns; it is called in the main process alone, and all processes get the value."""
        if self.task.monitor is None:
            return None
        main = self.accelerator.is_main_process
        value = self._together(float(self.task.monitor(self.kept)) if main else 0.0)
        if not math.isfinite(value):
            raise ParameterError(
                f"the monitor gave {value} after epoch {self.place.epoch + 1}; epochs are compared by it, so it must "
                "be a finite number"
            )
        return value

    def _together(self, value: float) -> float:
        """The sum over all processes."""
        if self.accelerator.num_processes == 1:
            return value
        return float(self.accelerator.reduce(torch.tensor(value, dtype=torch.float64, device=self.device), "sum"))

    def _title(self) -> str:
        runs = f"run {self.number + 1} of {self.config.initialisations}, " if self.config.initialisations > 1 else ""
        title = f"training: {runs}epoch {self.place.epoch + 1} of {self.config.epochs}"
        if not self.place.history:
            return title
        last = self.place.history[-1]
        return title + f" (loss {last.train_loss:.4g}" + ("" if last.value is None else f", {last.value:.4g}") + ")"

    def _checkpoint(self, folder: Path | None) -> Checkpoint | None:
        if folder is None:
            return None
        networks: dict[str, nn.Module] = {"weights": self.shape}
        networks |= {} if self.kept is self.shape else {"kept": self.kept}
        networks |= {"beside": self.beside} if len(self.beside) else {}
        networks |= {"carried": self.carried} if len(self.carried) else {}
        path = Path(folder) / f"run-{self.number}.safetensors"
        return Checkpoint(path, self.task.marks, networks, self.optimizer, self.accelerator)

    def _save(self) -> None:
        if self.checkpoint is not None and self._is_due():
            self.place.seconds = 0.0 if not self.place.step else time.perf_counter() - self.started
            whole = dataclasses.replace(self.place, loss=self._together(self.place.loss))
            self.checkpoint.write(whole, self.best)
            self.written = time.perf_counter()

    def _is_due(self) -> bool:
        """Whether the last checkpoint is old enough; several processes, whose clocks differ, always write."""
        waited = time.perf_counter() - self.written
        return self.place.finished or self.accelerator.num_processes > 1 or waited >= self.config.checkpoint_seconds


def _optimizer(trained: Sequence[nn.Parameter], config: FitConfig) -> torch.optim.Optimizer:
    weights = [weight for weight in trained if weight.requires_grad]
    if config.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=config.learning_rate, weight_decay=config.weight_decay)
    return torch.optim.AdamW(weights, lr=config.learning_rate, weight_decay=config.weight_decay)


def _part(steps: int, checks: int, part: int) -> tuple[int, int]:
    """First step of a part of an epoch, and the first one behind it; no part is empty."""
    checks = min(checks, steps)
    return steps * part // checks, steps * (part + 1) // checks


def _best(values: Sequence[float | None], higher: bool) -> int:
    """Number of the best value, the first of equal ones; the last where there is nothing to compare."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return len(values) - 1
    return known.index(max(known) if higher else min(known))


def _best_run(runs: Sequence[TrainingRun], higher: bool) -> int:
    """Number of the run with the best epoch; the first where there is nothing to compare."""
    values = [run.best.value for run in runs]
    return 0 if None in values else _best(values, higher)


def _total(each: Tensor) -> float:
    return float(each.detach().cpu().double().sum())
