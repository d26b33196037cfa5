"""The one training loop of learned explainers.

The order of the texts, dropout and what a signal samples depend on the seed and the step alone, so a run that was
killed goes on as if nothing had happened: on a CPU it ends with equal weights.
"""

from __future__ import annotations

import atexit
import copy
import dataclasses
import hashlib
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import FormatError, InputError, ParameterError
from didact.models.planner import Budget, batches
from didact.progress import advance, working
from didact.provenance import content_hash
from didact.trained import checkpoints
from didact.trained.fit_types import Epoch, FitConfig, Fitted, Sample, Source, TrainingRun
from didact.trained.shapes.base import Shape
from didact.trained.signals.base import Signal

Ints = NDArray[np.int64]


def fit(  # noqa: PLR0913 - what to train, on what, how, and where to
    shape: Shape,
    signal: Signal,
    train: Source,
    validation: Sequence[Sample] = (),
    config: FitConfig | None = None,
    *,
    monitor: Callable[[Shape], float] | None = None,
    folder: Path | None = None,
) -> Fitted:
    """Train a copy of the shape and give back the weights that were best on validation.

    Under ``accelerate launch`` with several processes each takes its share of the rows of every batch, and gradients
    are averaged so that a step is the one that a single process would make.

    Args:
        shape: what is trained; itself it stays as it is.
        signal: gives the loss.
        train: samples, or a function from an epoch to its samples, where labels are cheap, noisy and drawn afresh. The
            function must give the same samples for the same epoch.
        validation: samples that epochs are compared by. Without them and without a monitor there is nothing to compare,
            and the last weights are kept.
        config: the rest.
        monitor: looks at the shape after each epoch, in evaluation mode, and gives the number that epochs are compared
            by instead of the validation loss; ``config.higher_is_better`` says in which direction.
        folder: where checkpoints go. A run that was killed goes on from there, and one that ended is not run again.
    """
    config = config or FitConfig()
    if shape.outputs != signal.outputs:
        raise ParameterError(
            f"{signal.name} needs {signal.outputs} numbers per unit, but the {shape.name} gives {shape.outputs}"
        )
    source = train if callable(train) else lambda _: train
    first = source(0)
    if not len(first):
        raise InputError("there are no training samples; give at least one text with its targets")
    data_hash = _samples_hash(first)
    marks = {
        "configuration": content_hash([{**dataclasses.asdict(config), "checkpoint_every": None}, monitor is None]),
        "shape": content_hash([shape.name, shape.settings, checkpoints.tensors_hash(shape.state_dict())]),
        "signal": content_hash([signal.name, signal.settings]),
        "training data": data_hash,
        "validation data": _samples_hash(validation),
    }
    accelerator = _accelerator(config)
    task = _Task(signal, source, validation, config, monitor, accelerator, folder, marks)
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
    source: Callable[[int], Sequence[Sample]]
    validation: Sequence[Sample]
    config: FitConfig
    monitor: Callable[[Shape], float] | None
    accelerator: Accelerator
    folder: Path | None
    marks: Mapping[str, str]

    @property
    def higher(self) -> bool:
        return self.monitor is not None and self.config.higher_is_better


@dataclass
class _Place:
    """How far a run is; plain values, written into every checkpoint.

    Attributes:
        epoch: the current one, from 0.
        step: steps done in it.
        loss: summed over its texts so far; in a run of several processes, over those of this process.
        seconds: it took so far.
        history: of the epochs before.
        best: number of the best epoch so far, from 1; 0 before the first.
        finished: whether the run is at its end.
    """

    epoch: int = 0
    step: int = 0
    loss: float = 0.0
    seconds: float = 0.0
    history: list[Epoch] = field(default_factory=list)
    best: int = 0
    finished: bool = False


def _trained(task: _Task, shape: Shape, number: int) -> tuple[Shape, TrainingRun]:
    made = _initialised(shape, number)
    training = _Training(task, copy.deepcopy(made), number)
    run, weights = training.run()
    made.load_state_dict(weights)
    return made.eval(), run


class _Training:
    """One initialisation on its way."""

    def __init__(self, task: _Task, shape: Shape, number: int) -> None:
        self.task = task
        self.config = task.config
        self.number = number
        self.seed = task.config.seed + number
        self.shape = shape
        self.accelerator = task.accelerator
        self.device = self.accelerator.device
        self.kept = copy.deepcopy(shape).to(self.device).eval() if self.config.average else shape
        self.model, self.optimizer = self.accelerator.prepare(shape, _optimizer(shape, task.config))
        self.place = _Place()
        self.best: dict[str, Tensor] = {}
        self.started = time.perf_counter()

    def run(self) -> tuple[TrainingRun, dict[str, Tensor]]:
        """Train to the end; what was done before a kill is not done again."""
        self._resume()
        while not self.place.finished:
            self._epoch()
            self._judge()
            self._save()
        history = tuple(self.place.history)
        return TrainingRun(self.seed, history, history[self.place.best - 1]), self.best

    def _epoch(self) -> None:
        place = self.place
        samples = self.task.source(place.epoch)
        steps = _shuffled(self.shape, samples, self.config, self.seed, place.epoch)
        self.started = time.perf_counter() - place.seconds
        self.model.train()
        with working(self._title(), len(samples)):
            advance(sum(map(len, steps[: place.step])))
            for rows in steps[place.step :]:
                self._step(samples, rows, (place.epoch + place.step / len(steps)) / self.config.epochs)
                place.step += 1
                self._average(place.epoch * len(steps) + place.step)
                advance(len(rows))
                every = self.config.checkpoint_every
                if every and place.step % every == 0 and place.step < len(steps):
                    self._save()
        place.loss = self._together(place.loss) / len(samples)

    def _step(self, samples: Sequence[Sample], rows: Ints, progress: float) -> None:
        """One update from the mean loss over the rows, of which each process takes its share."""
        mine, weight = share(rows, self.accelerator.process_index, self.accelerator.num_processes)
        key = [self.seed, self.place.epoch, self.place.step, self.accelerator.process_index]
        drawn = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
        _seed(drawn, self.device)
        each = self._losses(samples, mine, torch.Generator().manual_seed(drawn))
        if weight:
            self.place.loss += _total(each)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.rate(progress)
        self.optimizer.zero_grad()
        self.accelerator.backward(each.mean() * weight)
        if self.config.clip is not None:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()

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
        columns = self.shape.collate([samples[row][0] for row in rows])
        targets = _targets(columns["present"], samples, rows).to(self.device)
        batch = {name: column.to(self.device) for name, column in columns.items()}
        # In validation each process has batches of its own, so none may wait for the others in its forward pass.
        outputs = self.kept(batch) if generator is None else self.model(batch)
        each = self.task.signal.loss(outputs.float(), targets, batch["present"], generator)
        lost = (~each.isfinite()).nonzero()
        if len(lost):
            row = int(rows[int(lost[0])])
            kind = "validation" if generator is None else "training"
            self._refuse(f"{kind} sample {row} (from 0)", bool(np.isfinite(samples[row][1]).all()))
        return each

    def _refuse(self, what: str, sound: bool) -> None:
        where = f"epoch {self.place.epoch + 1}, step {self.place.step + 1}, {what}"
        if not sound:
            raise InputError(f"the loss is not finite ({where}): its targets hold NaN or infinity; leave the text out")
        raise ParameterError(
            f"the loss is not finite ({where}): training runs away; lower learning_rate "
            f"({self.config.learning_rate:g}) or clip ({self.config.clip})"
        )

    def _judge(self) -> None:
        """Close the epoch: validate, keep the weights if they are the best so far, and decide whether to go on."""
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
            self.best = _weights(self.kept)
            if not all(bool(weight.isfinite().all()) for weight in self.best.values()):
                self._refuse("its last one", sound=True)
        place.best = best + 1
        place.epoch, place.step, place.loss, place.seconds = place.epoch + 1, 0, 0.0, 0.0
        waited = len(values) - place.best
        patient = self.config.patience is None or waited < self.config.patience
        place.finished = place.epoch == self.config.epochs or not patient

    def _validate(self) -> float | None:
        samples = self.task.validation
        if not len(samples):
            return None
        total = 0.0
        for number, rows in enumerate(_by_length(self.shape, samples, self.config)):
            if number % self.accelerator.num_processes == self.accelerator.process_index:
                total += _total(self._losses(samples, rows, None))
        return self._together(total) / len(samples)

    def _measure(self) -> float | None:
        """What the monitor says, asked in the main process alone and told to all."""
        if self.task.monitor is None:
            return None
        main = self.accelerator.is_main_process
        found = float(self.task.monitor(self.kept)) if main else 0.0
        found = self._together(found)
        if not math.isfinite(found):
            raise ParameterError(
                f"the monitor gave {found} after epoch {self.place.epoch + 1}; epochs are compared by it, so it must "
                "be a finite number"
            )
        return found

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

    @property
    def _path(self) -> Path | None:
        folder = self.task.folder
        return None if folder is None else Path(folder) / f"run-{self.number}.safetensors"

    def _save(self) -> None:
        if self._path is None:
            return
        self.place.seconds = 0.0 if not self.place.step else time.perf_counter() - self.started
        state = dataclasses.asdict(self.place) | {"loss": self._together(self.place.loss)}
        state |= {"format": 1, "marks": dict(self.task.marks)}
        tensors = {f"best.{name}": weight for name, weight in self.best.items()}
        if not self.place.finished:
            tensors |= {f"weights.{name}": weight for name, weight in self.shape.state_dict().items()}
            if self.kept is not self.shape:
                tensors |= {f"kept.{name}": weight for name, weight in self.kept.state_dict().items()}
            for number, values in self.optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{number}.{name}": v for name, v in values.items() if v is not None}
            scaler = self.accelerator.scaler
            state |= {"scaler": None if scaler is None else scaler.state_dict()}
        if self.accelerator.is_main_process:
            checkpoints.write(self._path, tensors, state)
        self.accelerator.wait_for_everyone()

    def _resume(self) -> None:
        if self._path is None or not self._path.is_file():
            return
        tensors, state = checkpoints.read(self._path, "delete it to train from the beginning")
        self._check(state, self._path)
        self.best = _under("best.", tensors)
        self.place = _place(state)
        if self.place.finished:
            return
        if not self.accelerator.is_main_process:
            self.place.loss = 0.0  # the main process goes on with the sum of all
        self.shape.load_state_dict(_under("weights.", tensors))
        if self.kept is not self.shape:
            self.kept.load_state_dict(_under("kept.", tensors))
        values: dict[int, dict[str, Tensor]] = {}
        for key, tensor in _under("optimizer.", tensors).items():
            number, name = key.split(".", 1)
            values.setdefault(int(number), {})[name] = tensor
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": values})
        if state["scaler"] is not None:
            cast("Any", self.accelerator.scaler).load_state_dict(state["scaler"])

    def _check(self, state: Mapping[str, Any], path: Path) -> None:
        if state.get("format") != 1:
            raise FormatError(f"{path} is no checkpoint of this version of didact; delete it or choose another folder")
        differ = [name for name, mark in self.task.marks.items() if state["marks"].get(name) != mark]
        if differ:
            raise FormatError(
                f"{path} is a checkpoint of another training: its {' and '.join(differ)} differ from what was given; "
                "give what it was begun with, choose another folder, or delete it"
            )


def share(rows: Ints, process: int, processes: int) -> tuple[Ints, float]:
    """The rows of a batch that one of several processes takes, and what the mean of their losses counts.

    Averaging the weighted gradients over the processes gives the gradient of the mean over all rows. A process for
    which none is left computes one that counts nothing, as all have to take part.
    """
    mine = rows[process::processes]
    return (mine, len(mine) * processes / len(rows)) if len(mine) else (rows[:1], 0.0)


def _shuffled(shape: Shape, samples: Sequence[Sample], config: FitConfig, seed: int, epoch: int) -> list[Ints]:
    """All rows of an epoch in batches of similar length; which share a batch and the order of batches are random."""
    rng = np.random.default_rng([seed, epoch])
    made = _by_length(shape, samples, config, rng.permutation(len(samples)))
    return [made[number] for number in rng.permutation(len(made))]


def _by_length(shape: Shape, samples: Sequence[Sample], config: FitConfig, order: Ints | None = None) -> list[Ints]:
    """Rows in batches, longest first; among equal lengths ``order`` decides."""
    lengths = np.array([shape.length(item) for item, _ in samples], dtype=np.int64)
    order = np.arange(len(samples)) if order is None else order
    order = order[np.argsort(-lengths[order], kind="stable")]
    return list(batches(lengths, order, Budget(config.batch_tokens, config.batch_rows), pads=True))


def _targets(present: Tensor, samples: Sequence[Sample], rows: Ints) -> Tensor:
    """Targets where units are, 0 elsewhere: (rows, units)."""
    counts = present.sum(1).tolist()
    for row, count in zip(rows, counts, strict=True):
        if len(samples[row][1]) != count:
            raise InputError(
                f"sample {row} (from 0) has {count} units but {len(samples[row][1])} targets; give one each"
            )
    made = torch.zeros(present.shape)
    made[present] = torch.from_numpy(np.concatenate([samples[row][1] for row in rows])).float()
    return made


def _optimizer(shape: nn.Module, config: FitConfig) -> torch.optim.Optimizer:
    weights = [weight for weight in shape.parameters() if weight.requires_grad]
    if config.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=config.learning_rate, weight_decay=config.weight_decay)
    return torch.optim.AdamW(weights, lr=config.learning_rate, weight_decay=config.weight_decay)


def _initialised(shape: Shape, number: int) -> Shape:
    """A copy of the shape; from the second on, one with first weights of its own but for those that are not trained."""
    if number == 0:
        return copy.deepcopy(shape)
    settings = shape.settings
    if "seed" not in settings:
        raise ParameterError(f"the {shape.name} has no seed for its first weights; use initialisations=1")
    with tempfile.TemporaryDirectory() as name:
        shape.save_reading(Path(name))
        made = type(shape).from_settings({**settings, "seed": settings["seed"] + number}, Path(name))
    kept = {name: weight for name, weight in shape.named_parameters() if not weight.requires_grad}
    made.load_state_dict(kept, strict=False)
    for name in kept:
        made.get_parameter(name).requires_grad_(False)
    return made.to(next(shape.parameters()).device)


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


def _weights(shape: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().cpu().clone() for name, weight in shape.state_dict().items()}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _place(state: Mapping[str, Any]) -> _Place:
    names = {item.name for item in dataclasses.fields(_Place)}
    history = [Epoch(**epoch) for epoch in state["history"]]
    return _Place(**{name: value for name, value in state.items() if name in names} | {"history": history})


def _samples_hash(samples: Sequence[Sample]) -> str:
    digest = hashlib.sha256()
    for item, targets in samples:
        for name, column in sorted({**item, "": targets}.items()):
            array = np.ascontiguousarray(column)
            digest.update(f"{name} {array.dtype} {array.shape} ".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def _accelerator(config: FitConfig) -> Accelerator:
    # Accelerate takes part in a launch of several processes without GPUs only where the CPU is asked for.
    cpu = config.device == "cpu" or not torch.accelerator.is_available()
    # It keeps one device and one precision for the whole process, which a training with others must renew.
    settled = bool(PartialState._shared_state) and not torch.distributed.is_initialized()
    if settled and cpu != (PartialState().device.type == "cpu"):
        AcceleratorState._reset_state(reset_partial_state=True)
    alone = not torch.distributed.is_initialized()
    device = PartialState(cpu=cpu).device
    if alone and torch.distributed.is_initialized():
        atexit.register(_leave)
    if config.precision == "fp16" and device.type != "cuda":
        raise ParameterError(f"precision='fp16' needs a GPU, and training is on {device}; use 'bf16' or 'no'")
    if AcceleratorState._shared_state and AcceleratorState().mixed_precision != config.precision:
        AcceleratorState._reset_state()
    return Accelerator(mixed_precision=config.precision, cpu=cpu)


def _leave() -> None:
    """Leave the other processes properly; one that just ends is aborted."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _seed(drawn: int, device: torch.device) -> None:
    """Seed what dropout draws from; ``torch.manual_seed`` takes milliseconds where CUDA is not in use."""
    torch.default_generator.manual_seed(drawn)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(drawn)
