"""Shared by the students that read word by word: vocabulary, embeddings and the bidirectional LSTM."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor, nn

from didact.errors import ParameterError
from didact.ops.lstm import LstmWeights, bidirectional_lstm, reversed_texts
from didact.settings import at_least
from didact.students.base import Batch, Cohort, LabelledExample, TaskSetup
from didact.students.batches import cohort_data
from didact.students.network import NetworkStudent, NetworkTraining
from didact.students.optimization import Schedule
from didact.students.stacked import StackedEmbedding, StackedLinear
from didact.students.tokenized import WordNumbers, worded
from didact.types import Example

TOGETHER = {"cpu": 1, "cuda": 16}
"""Students trained at once by default: what is fastest on the device (benchmarks/students.py).

On a CPU, torch's LSTM for one student is about twice as fast per student as ours for many.
"""


@dataclass(frozen=True, kw_only=True)
class Recurrent(NetworkStudent):
    """A student that reads words of the pool's vocabulary with a bidirectional LSTM.

    The defaults are the first of the four configurations that Pruthi et al. sampled from their grid (batches of 8 to
    64, embeddings of 64 to 512, states of 256 to 1,024, learning rates of 5e-4 to 5e-3); the other three are (16, 64,
    256, 5e-3), (64, 256, 256, 5e-3) and (32, 128, 768, 2.5e-3). Embeddings begin at random, so the student knows
    nothing but its training examples.

    Args:
        batch_size: training examples per step.
        embedding: width of a word's vector.
        hidden: width of a state, for each direction.
        learning_rate: of Adam, at its peak.
        epochs: how often each training example is seen.
        max_length: words per text; the rest is cut off.
        min_count: words that are rarer than this in the pool are treated as unknown.
        vocabulary: number of words that are known at most.
        weight_decay: not for biases.
        clip: largest norm of a student's gradient; None for no limit.
        precision: "float32", or "tf32" products on GPUs.
    """

    batch_size: int = 16
    embedding: int = 128
    hidden: int = 256
    learning_rate: float = 2.5e-3
    epochs: int = 10
    max_length: int = 256
    min_count: int = 2
    vocabulary: int = 20000
    weight_decay: float = 0.0
    clip: float | None = 1.0
    precision: Literal["float32", "tf32"] = "float32"

    def __post_init__(self) -> None:
        at_least(self, batch_size=1, embedding=1, hidden=1, epochs=1, max_length=1, min_count=1, vocabulary=1)
        at_least(self, weight_decay=0)
        if not self.learning_rate > 0:
            raise ParameterError(f"learning_rate of {self.card.name} must be above 0, got {self.learning_rate!r}")

    def training(self, pool: Sequence[LabelledExample], test: Sequence[Example], setup: TaskSetup) -> NetworkTraining:
        """Networks that know the words of the pool."""
        texts = [labelled.example for labelled in pool]
        known = WordNumbers.of(texts, min_count=self.min_count, largest=self.vocabulary)
        data = cohort_data(pool, worded(texts, known, self.max_length), worded(test, known, self.max_length), setup)
        schedule = Schedule(
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            epochs=self.epochs,
            weight_decay=self.weight_decay,
            clip=self.clip,
            precision=self.precision,
        )
        together = setup.together or TOGETHER[setup.device.partition(":")[0]]
        return NetworkTraining(
            lambda seeds: self.cohort(seeds, len(known), setup), data, schedule, lambda runs: min(runs, together)
        )

    @abstractmethod
    def cohort(self, seeds: Sequence[int], words: int, setup: TaskSetup) -> Cohort:
        """Untrained students with a vocabulary of so many words."""


class RecurrentCohort(Cohort):
    """Embeddings, LSTMs and output layers of several students.

    One student alone has torch's own LSTM, which is faster for one; it begins with the same weights.
    """

    def __init__(self, student: Recurrent, seeds: Sequence[int], words: int, setup: TaskSetup) -> None:
        super().__init__()
        self.size, self.width = len(seeds), 2 * student.hidden
        self.twice_differentiable = self.size == 1 and setup.device == "cpu"  # nor has cuDNN a second derivative
        self.is_number = setup.kind == "number"
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        vectors = torch.stack([torch.randn(words, student.embedding, generator=generator) for generator in generators])
        self.embedding = StackedEmbedding(vectors)
        weights = _drawn(generators, student.embedding, student.hidden)
        self.lstm = TorchLstm(weights) if self.size == 1 else StackedLstm(weights)
        self.generators = generators
        self.head = self.linear(self.width, 1 if self.is_number else setup.outputs)

    def linear(self, inputs: int, outputs: int) -> StackedLinear:
        """A layer with Xavier's weights, drawn in the order of the calls."""
        bound = (6 / (inputs + outputs)) ** 0.5
        drawn = [torch.rand(inputs, outputs, generator=generator) * 2 - 1 for generator in self.generators]
        return StackedLinear(torch.stack(drawn) * bound, torch.zeros(self.size, outputs))

    def states(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Hidden states (S, B, L, 2H), zero at padding, and lengths (S, B)."""
        lengths = batch.mask.sum(-1)
        vectors = self.embedding(batch.ids.flatten(0, 1)).unflatten(0, batch.ids.shape[:2])
        return self.lstm(vectors, lengths), lengths

    def answers(self, summary: Tensor) -> Tensor:
        """Logits (S, B, C) or numbers (S, B) from a summary of each text (S, B, D)."""
        outputs: Tensor = self.head(summary)
        return outputs[..., 0] if self.is_number else outputs


class StackedLstm(nn.Module):
    """Bidirectional LSTMs of many students; without a second derivative (``didact.ops.lstm``)."""

    def __init__(self, weights: LstmWeights) -> None:
        super().__init__()
        self.inward = nn.Parameter(weights.inward)
        self.recurrent = nn.Parameter(weights.recurrent)
        self.bias = nn.Parameter(weights.bias)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Hidden states (S, B, L, 2H), zero at padding."""
        return bidirectional_lstm(inputs, lengths, LstmWeights(self.inward, self.recurrent, self.bias))


class TorchLstm(nn.Module):
    """torch's LSTM for one student, one for each direction, so that padding needs no packing."""

    def __init__(self, weights: LstmWeights) -> None:
        super().__init__()
        _, _, width, gates = weights.inward.shape
        with torch.random.fork_rng(devices=[]):  # the first weights that torch draws are replaced
            self.directions = nn.ModuleList(nn.LSTM(width, gates // 4, batch_first=True) for _ in range(2))
        for number, lstm in enumerate(self.directions):
            inward, recurrent, bias, other = lstm.parameters()
            with torch.no_grad():
                inward.copy_(weights.inward[0, number].t())
                recurrent.copy_(weights.recurrent[0, number].t())
                bias.copy_(weights.bias[0, number])
                other.zero_()
            other.requires_grad_(False)  # two biases would learn twice as fast as one

    def train(self, mode: bool = True) -> Self:
        """The LSTMs, which have no dropout, stay in training mode: cuDNN differentiates them in no other."""
        super().train(mode)
        self.directions.train()
        return self

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Hidden states (1, B, L, 2H), zero at padding."""
        forward, backward = self.directions
        first = forward(inputs[0])[0][None]
        second = reversed_texts(backward(reversed_texts(inputs, lengths)[0])[0][None], lengths)
        there = torch.arange(inputs.shape[2], device=lengths.device) < lengths[..., None]
        return torch.cat([first, second], -1) * there[..., None]


def _drawn(generators: Sequence[torch.Generator], width: int, hidden: int) -> LstmWeights:
    """First weights, uniform as those of ``nn.LSTM``."""
    shapes = ((2, width, 4 * hidden), (2, hidden, 4 * hidden), (2, 4 * hidden))
    drawn = [[torch.rand(shape, generator=generator) * 2 - 1 for shape in shapes] for generator in generators]
    inward, recurrent, bias = (torch.stack(part) * hidden**-0.5 for part in zip(*drawn, strict=True))
    return LstmWeights(inward, recurrent, bias)
