"""Fine-tunes a network on texts that are shown with some of their units absent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from didact.errors import ParameterError
from didact.models.batch import Inputs, Ints
from didact.models.network import NetworkModel
from didact.models.variants import VariantRows
from didact.progress import advance, working
from didact.types import Keep, Units

Shown = Callable[[int, np.random.Generator], Keep]
"""The keep masks (rows, units) under which a text, by its number, is shown in this epoch."""

Loss = Callable[[Tensor, Tensor, int], Tensor]
"""The loss of a batch from outputs (rows, ...), what is wanted (rows, ...) and the number of texts."""


@dataclass(frozen=True, kw_only=True)
class Optimization:
    """How weights are trained.

    Attributes:
        epochs: how often each text is shown.
        learning_rate: of AdamW, falling to 0 in a straight line.
        batch: texts per step.
        weight_decay: of AdamW.
        seed: decides the order of the texts and what is absent.
    """

    epochs: int = 3
    learning_rate: float = 5e-5
    batch: int = 16
    weight_decay: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1:
            raise ParameterError(f"epochs and batch must be at least 1, got {self.epochs} and {self.batch}")
        if not self.learning_rate > 0:
            raise ParameterError(f"learning_rate must be above 0, got {self.learning_rate}")


class MaskedTexts:
    """Texts, encoded once, and what is wanted of the network for each of their rows.

    Args:
        model: whose reader makes the rows.
        units: of the texts.
        shown: which units of a text are present, row by row.
        wanted: per text what is wanted of each row, (rows, ...).
        absence: how absence is shown.
    """

    def __init__(
        self, model: NetworkModel, units: Sequence[Units], shown: Shown, wanted: Sequence[Tensor], absence: str
    ) -> None:
        self.model, self.units, self.shown, self.wanted = model, units, shown, wanted
        self.codes = model.reader.encode([unit.example for unit in units])
        self.operator = model.reader.absence(absence)
        if self.operator.kind == "blend":
            raise ParameterError("'blend' mixes embeddings and takes no unit out; use 'mask', 'delete' or 'token:X'")
        self.first_position = model.traits.position_offset  # tried before training begins

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[tuple[int, Inputs, Tensor]]:
        """All texts once, in batches of similar length, in random order: their number, inputs and what is wanted."""
        lengths = np.array([len(code) for code in self.codes])
        mixed = rng.permutation(len(lengths))
        pools = [mixed[start : start + 16 * size] for start in range(0, len(mixed), 16 * size)]
        ordered = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
        groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        for number in rng.permutation(len(groups)):
            yield (len(groups[number]), *self._batch(groups[number], rng))

    def _batch(self, chosen: Ints, rng: np.random.Generator) -> tuple[Inputs, Tensor]:
        keep = [self.shown(number, rng) for number in chosen]
        units, codes = ([many[number] for number in chosen] for many in (self.units, self.codes))
        rows = VariantRows(units, codes, keep, self.operator, self.model.reader, self.first_position)
        order = np.argsort(-rows.lengths, kind="stable")
        wanted = torch.cat([self.wanted[number] for number in chosen])[torch.from_numpy(order)]
        return rows.batch(order).inputs, wanted.to(self.model.reader.device)


def finetune(
    texts: MaskedTexts, loss: Loss, settings: Optimization, *, weights: Sequence[Tensor] | None = None, what: str
) -> list[float]:
    """Train the network in place, without dropout: it stays in evaluation mode.

    Args:
        texts: what is shown and wanted.
        loss: of a batch.
        settings: of the optimizer.
        weights: what is trained; all parameters when not given.
        what: name of the work, for progress.

    Returns:
        The mean loss per text of each epoch.
    """
    network, size = texts.model.network, len(texts.units)
    trained = list(network.parameters() if weights is None else weights)
    optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    steps = settings.epochs * -(-size // settings.batch)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, steps)
    rng = np.random.default_rng(settings.seed)
    losses = []
    with torch.enable_grad(), working(what, settings.epochs * size):
        for _ in range(settings.epochs):
            total = 0.0
            for count, inputs, wanted in texts.batches(settings.batch, rng):
                value = loss(texts.model.head.outputs(network(**inputs)), wanted, count)
                optimizer.zero_grad()
                torch.autograd.backward(value)
                torch.nn.utils.clip_grad_norm_(trained, 1.0)
                optimizer.step()
                schedule.step()
                total += float(value.detach()) * count
                advance(count)
            losses.append(total / size)
    return losses
