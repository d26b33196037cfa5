"""How far a training is, written to disk after every epoch or some steps, and read again after a kill."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from didact import disk
from didact.errors import FormatError
from didact.trained import checkpoints
from didact.trained.fit_types import Epoch

FORMAT = 3


@dataclass
class Place:
    """How far a run is; plain values, written into every checkpoint.

    Attributes:
        epoch: the current one, from 0.
        part: of the epoch, from 0, where it is validated several times.
        step: steps done in it.
        loss: summed over the part's texts so far; in a run of several processes, over those of this process.
        seconds: the part took so far.
        history: of the epochs before, or of their parts.
        best: place of the best entry of the history, from 1; 0 before the first.
        finished: whether the run is at its end.
    """

    epoch: int = 0
    part: int = 0
    step: int = 0
    loss: float = 0.0
    seconds: float = 0.0
    history: list[Epoch] = field(default_factory=list)
    best: int = 0
    finished: bool = False


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The file of one run.

    Attributes:
        path: of the file.
        marks: hashes of what decides the training, by name; a file with others is refused.
        networks: by prefix, the network that is trained and the running mean of its weights, where there is one.
        optimizer: with its moments.
        accelerator: whose main process writes.
    """

    path: Path
    marks: Mapping[str, str]
    networks: Mapping[str, nn.Module]
    optimizer: torch.optim.Optimizer
    accelerator: Accelerator

    def write(self, place: Place, best: Mapping[str, Tensor]) -> None:
        """Write place, best weights and, unless the run is at its end, everything that going on needs."""
        state = dataclasses.asdict(place) | {"format": FORMAT, "marks": dict(self.marks)}
        tensors = {f"best.{name}": weight for name, weight in best.items()}
        if not place.finished:
            for prefix, network in self.networks.items():
                tensors |= {f"{prefix}.{name}": weight for name, weight in network.state_dict().items()}
            for number, values in self.optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{number}.{name}": v for name, v in values.items() if v is not None}
            scaler = self.accelerator.scaler
            state |= {"scaler": None if scaler is None else scaler.state_dict()}
        if self.accelerator.is_main_process:
            disk.sweep(self.path.parent)
            checkpoints.write(self.path, tensors, state)
        self.accelerator.wait_for_everyone()

    def read(self) -> tuple[Place, dict[str, Tensor]]:
        """Place and best weights of the run; networks and optimizer are set to where they were."""
        tensors, state = checkpoints.read(self.path, "delete it to train from the beginning")
        self._check(state)
        place, best = _place(state), _under("best.", tensors)
        if place.finished:
            return place, best
        if not self.accelerator.is_main_process:
            place.loss = 0.0  # the main process goes on with the sum of all
        for prefix, network in self.networks.items():
            network.load_state_dict(_under(f"{prefix}.", tensors))
        moments: dict[int, dict[str, Tensor]] = {}
        for key, tensor in _under("optimizer.", tensors).items():
            number, name = key.split(".", 1)
            moments.setdefault(int(number), {})[name] = tensor
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        if state["scaler"] is not None and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(cast("dict[str, float]", state["scaler"]))
        return place, best

    def _check(self, state: Mapping[str, object]) -> None:
        if state.get("format") != FORMAT:
            raise FormatError(
                f"{self.path} is no checkpoint of this version of didact; delete it or choose another folder"
            )
        written = cast("Mapping[str, str]", state["marks"])
        differ = [name for name, mark in self.marks.items() if written.get(name) != mark]
        if differ:
            raise FormatError(
                f"{self.path} is a checkpoint of another training: its {' and '.join(differ)} differ from what was "
                "given; give what it was begun with, choose another folder, or delete it"
            )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _place(state: Mapping[str, object]) -> Place:
    names = {item.name for item in dataclasses.fields(Place)} - {"history"}
    history = [Epoch(**epoch) for epoch in cast("list[dict[str, float]]", state["history"])]  # type: ignore[arg-type]
    return Place(**{name: state[name] for name in names}, history=history)  # type: ignore[arg-type]
