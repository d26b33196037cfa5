"""A pretrained transformer that is fine-tuned: any encoder of Transformers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import torch
from torch import Tensor, nn

from didact.errors import CapabilityError, ParameterError
from didact.models.encoders import load_encoder
from didact.models.tokens.encoding import Encoder, length_limit
from didact.settings import at_least
from didact.students.attention_tap import tapped_attention, tapped_heads, use_attention_tap
from didact.students.base import (
    STUDENTS,
    AttentionView,
    Batch,
    Cohort,
    CohortOutput,
    LabelledExample,
    LossChannel,
    StudentCard,
    TaskSetup,
)
from didact.students.batches import cohort_data
from didact.students.network import NetworkStudent, NetworkTraining
from didact.students.optimization import OptimizerName, Precision, Schedule, ScheduleShape
from didact.students.pooling import Pooling, ScalarMix, masked_mean
from didact.students.stacked import StackedLinear, check_stackable, stacked
from didact.students.tokenized import tokenised
from didact.types import Example

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutput

GPU_TOGETHER, CPU_TOGETHER = 16, 4
NARROW = 256
"""Students trained at once by default: what is fastest (benchmarks/students.py).

On a CPU, students with a narrow encoder are up to a quarter faster together; for wider ones it makes no difference.
"""

HEAD_SPREAD = 0.02


@STUDENTS.register(
    StudentCard(
        name="transformer",
        family="network",
        summary="A pretrained encoder with a linear layer on its first state, all of it fine-tuned.",
        reference="Pruthi et al., Evaluating Explanations, TACL 2022 (BERT students)",
        answers=frozenset({"class", "number", "span"}),
        offers=frozenset({"attention_row", "attention_matrix", "head_scores", "states"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class Transformer(NetworkStudent):
    """Starts from the weights of a pretrained encoder; only the output layer is drawn from the student's seed.

    Where the encoder is built of the usual modules, many students train as one tensor program, each with weights of its
    own; else one after another. Both give the same results. That holds for the default ``dropout=0``: random numbers
    drawn in training would belong to the whole cohort, and for few training examples their order is noise enough.

    Args:
        model: a Hub id or a directory; None for the encoder of the embedded sentiment model, which needs no download
            but is small, and has seen sentiment before.
        max_length: tokens per text; the rest is cut off.
        learning_rate: at its peak.
        batch_size: training examples per step.
        epochs: how often each training example is seen.
        warmup: share of the steps in which the learning rate rises.
        weight_decay: not for biases and normalisations.
        clip: largest norm of a student's gradient; None for no limit.
        optimizer: "adamw", or "sgd" without momentum, as in SMaT.
        schedule: "linear" lets the learning rate fall to 0 after its peak, "constant" does not.
        dropout: everywhere in the encoder; above 0, results depend on which students train together.
        train_embeddings: whether the token embeddings are trained too; frozen ones are stored once for all students.
        pooling: what the output layer reads: the first state, the mean over all tokens, or "scalar_mix", a learned mix
            of the means of all layers, as in SMaT.
        layer: whose attention channels see; -1 is the last.
        rows: a row of attention is that of the first position, as in Pruthi et al., or the mean over all, as in SMaT.
        precision: "float32", or on GPUs "tf32" or "bfloat16" products.
    """

    model: str | None = None
    max_length: int = 256
    learning_rate: float = 5e-5
    batch_size: int = 16
    epochs: int = 5
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
        at_least(self, max_length=4, batch_size=1, epochs=1, warmup=0, weight_decay=0, dropout=0)
        if not self.learning_rate > 0:
            raise ParameterError(f"learning_rate of transformer must be above 0, got {self.learning_rate!r}")
        if self.dropout >= 1 or self.warmup > 1:
            raise ParameterError(f"dropout and warmup of transformer are shares, got {self.dropout} and {self.warmup}")

    def training(self, pool: Sequence[LabelledExample], test: Sequence[Example], setup: TaskSetup) -> NetworkTraining:
        """Copies of the loaded encoder, and texts as its tokenizer cuts them."""
        factory = EncoderFactory(self, setup)
        encoder = Encoder(factory.tokenizer, factory.limit, 1.0)
        texts = [tokenised(some, encoder) for some in ([labelled.example for labelled in pool], test)]
        data = cohort_data(pool, texts[0], texts[1], setup)
        schedule = Schedule(
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            epochs=self.epochs,
            warmup=self.warmup,
            weight_decay=self.weight_decay,
            clip=self.clip,
            optimizer=self.optimizer,
            schedule=self.schedule,
            precision=self.precision,
            dropout=self.dropout > 0,
        )
        return NetworkTraining(factory.cohort, data, schedule, factory.together)


class EncoderFactory:
    """The loaded encoder, of which every student is a copy.

    Args:
        student: the settings.
        setup: kind of answer and device.
    """

    def __init__(self, student: Transformer, setup: TaskSetup) -> None:
        self.student, self.setup = student, setup
        self.encoder, self.tokenizer = load_encoder(student.model, dropout=student.dropout)
        self.limit = length_limit(self.encoder, self.tokenizer, student.max_length)
        layers = int(self.encoder.config.num_hidden_layers)
        if not -layers <= student.layer < layers:
            raise ParameterError(
                f"layer of transformer must be {-layers} to {layers - 1} for this encoder, got {student.layer}"
            )
        self.layer = student.layer % layers
        self.has_tap = use_attention_tap(self.encoder)
        self._check_heads()
        self.has_types = "token_type_ids" in self.tokenizer.model_input_names
        words = self.encoder.get_input_embeddings()
        self.shared: tuple[nn.Module, ...] = () if student.train_embeddings else (words,)
        if not student.train_embeddings:
            words.requires_grad_(False)

    def _check_heads(self) -> None:
        channel = self.setup.channel
        if not self.has_tap and isinstance(channel, LossChannel) and channel.view == "heads":
            raise CapabilityError(
                f"channel {channel.card.name!r} needs the queries and keys of all heads, and "
                f"{type(self.encoder).__name__} does not go through Transformers' attention interface; choose another "
                f"encoder, or the channel 'attention'"
            )

    def together(self, runs: int) -> int:
        """How many students train at once: one where the encoder cannot be stacked."""
        narrow = self.encoder.config.hidden_size <= NARROW
        usual = (CPU_TOGETHER if narrow else 1) if self.setup.device == "cpu" else GPU_TOGETHER
        together = self.setup.together or usual
        if together == 1 or runs == 1:
            return 1
        try:
            check_stackable(self.encoder, _probe(self.encoder, self.has_types), self.shared)
        except CapabilityError:
            return 1
        return together

    def cohort(self, seeds: Sequence[int]) -> Cohort:
        """Untrained students."""
        size = len(seeds)
        encoder = copy.deepcopy(self.encoder) if size == 1 else stacked(self.encoder, size, self.shared)
        width = int(self.encoder.config.hidden_size)
        outputs = {"number": 1, "span": 2}.get(self.setup.kind, self.setup.outputs)
        return _Transformers(encoder, StackedLinear.drawn(seeds, width, outputs, HEAD_SPREAD), self)


class _Transformers(Cohort):
    """Encoders of several students as one, and their output layers."""

    def __init__(self, encoder: nn.Module, head: StackedLinear, factory: EncoderFactory) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.size, self.width = head.weight.shape[:2]
        config = factory.encoder.config
        self.heads = config.num_hidden_layers * config.num_attention_heads if factory.has_tap else 0
        self.has_types, self.has_tap, self.layer = factory.has_types, factory.has_tap, factory.layer
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
        inputs = {"input_ids": batch.ids.flatten(0, 1), "attention_mask": batch.mask.flatten(0, 1).long()}
        if self.has_types:
            inputs["token_type_ids"] = batch.types.flatten(0, 1)
        if self.mix is not None:
            options["output_hidden_states"] = True
        return cast("BaseModelOutput", self.encoder(**inputs, **options))

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


def _probe(encoder: PreTrainedModel, has_types: bool) -> dict[str, Tensor]:
    """Four short rows of different length, on the encoder's device."""
    ids = torch.arange(36).view(4, 9) % min(30, encoder.config.vocab_size - 10) + 10
    mask = torch.arange(9) < torch.tensor([[9], [7], [9], [5]])
    pad = encoder.config.pad_token_id
    inputs = {"input_ids": ids.masked_fill(~mask, 0 if pad is None else pad), "attention_mask": mask.long()}
    if has_types:
        inputs["token_type_ids"] = torch.zeros_like(ids)
    return {name: value.to(encoder.device) for name, value in inputs.items()}
