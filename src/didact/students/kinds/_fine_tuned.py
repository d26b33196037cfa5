"""Shared by the students that are fine-tuned encoders: their settings, how they are stacked, and their output layer."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from torch import Tensor, nn

from didact.errors import CapabilityError, ParameterError
from didact.settings import at_least
from didact.students.attention_tap import tapped_attention, tapped_heads, use_attention_tap
from didact.students.base import AttentionView, Batch, Cohort, CohortOutput, LossChannel, TaskSetup
from didact.students.network import NetworkStudent
from didact.students.optimization import OptimizerName, Precision, Schedule, ScheduleShape
from didact.students.pooling import Pooling, ScalarMix, masked_mean
from didact.students.stacked import StackedLinear, check_stackable, stacked

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutput

GPU_TOGETHER, CPU_TOGETHER = 16, 4
NARROW = 256
"""Students trained at once by default: what is fastest (benchmarks/students.py).

On a CPU, students with a narrow encoder are up to a quarter faster together; for wider ones it makes no difference.
"""

HEAD_SPREAD = 0.02


@dataclass(frozen=True, kw_only=True)
class FineTuned(NetworkStudent):
    """Starts from the weights of a pretrained encoder; only the output layer is drawn from the student's seed.

    Where the encoder is built of the usual modules, many students train as one tensor program, each with weights of its
    own; else one after another. Both give the same results. That holds for the default ``dropout=0``: random numbers
    drawn in training would belong to the whole cohort, and for few training examples their order is noise enough.

    Args:
        model: a Hub id or a directory; None for the encoder of an embedded model.
        learning_rate: at its peak.
        batch_size: training examples per step.
        epochs: how often each training example is seen.
        least_steps: students of few training examples see them twice, three times, ... as often, and are tested as much
            more rarely, until they make so many steps.
        warmup: share of the steps in which the learning rate rises.
        weight_decay: not for biases and normalisations.
        clip: largest norm of a student's gradient; None for no limit.
        optimizer: "adamw", or "sgd" without momentum, as in SMaT.
        schedule: "linear" lets the learning rate fall to 0 after its peak, "constant" does not.
        dropout: everywhere in the encoder; above 0, results depend on which students train together.
        train_embeddings: whether the embeddings of the input are trained too; frozen ones are stored once for all
            students.
        pooling: what the output layer reads: the first state, the mean over all tokens, or "scalar_mix", a learned mix
            of the means of all layers, as in SMaT.
        layer: whose attention channels see; -1 is the last.
        rows: a row of attention is that of the first position, as in Pruthi et al., or the mean over all, as in SMaT.
        precision: "float32", or on GPUs "tf32" or "bfloat16" products.
    """

    model: str | None = None
    learning_rate: float = 5e-5
    batch_size: int = 16
    epochs: int = 5
    least_steps: int = 0
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float | None = 1.0
    optimizer: OptimizerName = "adamw"
    schedule: ScheduleShape = "linear"
    dropout: float = 0.0
    train_embeddings: bool = False
    pooling: Pooling = "first"
    layer: int = -1
    rows: Literal["first", "mean"] = "first"
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        at_least(self, batch_size=1, epochs=1, least_steps=0, warmup=0, weight_decay=0, dropout=0)
        name = self.card.name
        if not self.learning_rate > 0:
            raise ParameterError(f"learning_rate of {name} must be above 0, got {self.learning_rate!r}")
        if self.dropout >= 1 or self.warmup > 1:
            raise ParameterError(f"dropout and warmup of {name} are shares, got {self.dropout} and {self.warmup}")

    def planned(self) -> Schedule:
        """How students are trained, by the settings."""
        return Schedule(
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            epochs=self.epochs,
            least_steps=self.least_steps,
            warmup=self.warmup,
            weight_decay=self.weight_decay,
            clip=self.clip,
            optimizer=self.optimizer,
            schedule=self.schedule,
            precision=self.precision,
            dropout=self.dropout > 0,
        )


class FineTunedFactory(ABC):
    """The loaded encoder, of which every student is a copy.

    Args:
        student: the settings.
        setup: kind of answer and device.
        encoder: as it was loaded.
    """

    def __init__(self, student: FineTuned, setup: TaskSetup, encoder: PreTrainedModel) -> None:
        self.student, self.setup, self.encoder = student, setup, encoder
        layers = int(encoder.config.num_hidden_layers)
        if not -layers <= student.layer < layers:
            raise ParameterError(
                f"layer of {student.card.name} must be {-layers} to {layers - 1} for this encoder, got {student.layer}"
            )
        self.layer = student.layer % layers
        self.has_tap = use_attention_tap(encoder)
        self._check_heads()
        self.shared: tuple[nn.Module, ...] = ()
        if not student.train_embeddings:
            self.shared = tuple(self.embeddings().modules())
            self.embeddings().requires_grad_(False)

    @abstractmethod
    def embeddings(self) -> nn.Module:
        """The module that embeds the input, which is frozen unless it is trained."""

    @abstractmethod
    def inputs(self, batch: Batch) -> dict[str, Tensor]:
        """What the encoder reads of a batch, folded (S * B, ...)."""

    @abstractmethod
    def probe(self) -> dict[str, Tensor]:
        """Four rows for a trial of the encoder, on its device."""

    def together(self, runs: int) -> int:
        """How many students train at once: one where the encoder cannot be stacked."""
        narrow = self.encoder.config.hidden_size <= NARROW
        usual = (CPU_TOGETHER if narrow else 1) if self.setup.device == "cpu" else GPU_TOGETHER
        together = self.setup.together or usual
        if together == 1 or runs == 1:
            return 1
        try:
            check_stackable(self.encoder, self.probe(), self.shared)
        except CapabilityError:
            return 1
        return together

    def cohort(self, seeds: Sequence[int]) -> Cohort:
        """Untrained students."""
        size = len(seeds)
        encoder = copy.deepcopy(self.encoder) if size == 1 else stacked(self.encoder, size, self.shared)
        width = int(self.encoder.config.hidden_size)
        outputs = {"number": 1, "span": 2}.get(self.setup.kind, self.setup.outputs)
        return FineTunedCohort(encoder, StackedLinear.drawn(seeds, width, outputs, HEAD_SPREAD), self)

    def _check_heads(self) -> None:
        channel = self.setup.channel
        if not self.has_tap and isinstance(channel, LossChannel) and channel.view == "heads":
            raise CapabilityError(
                f"channel {channel.card.name!r} needs the queries and keys of all heads, and "
                f"{type(self.encoder).__name__} does not go through Transformers' attention interface; choose another "
                f"encoder, or the channel 'attention'"
            )


class FineTunedCohort(Cohort):
    """Encoders of several students as one, and their output layers."""

    def __init__(self, encoder: nn.Module, head: StackedLinear, factory: FineTunedFactory) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.size, self.width = head.weight.shape[:2]
        config = factory.encoder.config
        self.heads = config.num_hidden_layers * config.num_attention_heads if factory.has_tap else 0
        self.inputs, self.has_tap, self.layer = factory.inputs, factory.has_tap, factory.layer
        self.kind, self.student = factory.setup.kind, factory.student
        self.mix = None
        if self.student.pooling == "scalar_mix" and self.kind != "span":
            self.mix = ScalarMix(config.num_hidden_layers + 1, self.size)

    def forward(self, batch: Batch, view: AttentionView | None = None) -> CohortOutput:
        """Answers, states and, where a view is requested, attention."""
        output, attention = self._encoded(batch, view)
        states = _unfolded(cast("Tensor", output.last_hidden_state), self.size)  # (S, B, L, D)
        if self.kind == "span":
            answers = self.head(states)
        else:
            answers = self.head(self._pooled(output, states, batch.mask))
            answers = answers[..., 0] if self.kind == "number" else answers
        if attention is not None:
            attention = _unfolded(attention, self.size)
            attention = self._row(attention, batch.mask) if view == "row" else attention
        return CohortOutput(answers, states, attention)

    def _encoded(self, batch: Batch, view: AttentionView | None) -> tuple[BaseModelOutput, Tensor | None]:
        """The encoder's output, and where a view is requested attention (rows, 1 or L, L), or of heads (rows, H, L)."""
        if view is None:
            return self._output(batch), None
        if view == "heads":
            with tapped_heads(batch.text.flatten(0, 1)) as heads:
                output = self._output(batch)
            return output, heads.scores
        if self.has_tap:
            first = view == "row" and self.student.rows == "first"
            with tapped_attention(self.layer, "first" if first else "all") as tap:
                output = self._output(batch)
            return output, tap.probabilities
        output = self._output(batch, output_attentions=True)
        maps = cast("tuple[Tensor, ...]", output.attentions)[self.layer]
        if maps.shape[-2:] != (batch.ids.shape[-1],) * 2:
            raise CapabilityError(f"{type(self.encoder).__name__} does not return attention from each token to each")
        return output, maps.mean(1)

    def _output(self, batch: Batch, **options: bool) -> BaseModelOutput:
        if self.mix is not None:
            options["output_hidden_states"] = True
        return cast("BaseModelOutput", self.encoder(**self.inputs(batch), **options))

    def _row(self, attention: Tensor, mask: Tensor) -> Tensor:
        """(S, B, 1 or L, L) -> (S, B, L)."""
        return attention[:, :, 0] if self.student.rows == "first" else masked_mean(attention, mask)

    def _pooled(self, output: BaseModelOutput, states: Tensor, mask: Tensor) -> Tensor:
        """What the output layer reads of a text: (S, B, D)."""
        if self.mix is not None:
            pooled: Tensor = self.mix(output.hidden_states, mask)
            return pooled
        return states[:, :, 0] if self.student.pooling == "first" else masked_mean(states, mask)


def _unfolded(values: Tensor, size: int) -> Tensor:
    """(S * B, ...) -> (S, B, ...)."""
    return values.view(size, -1, *values.shape[1:])
