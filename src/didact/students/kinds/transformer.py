"""A pretrained transformer that is fine-tuned: any encoder of Transformers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from didact.errors import CapabilityError, ParameterError
from didact.models.encoders import load_encoder
from didact.models.tokens.encoding import Encoder, length_limit
from didact.settings import at_least
from didact.students.attention_tap import tapped_attention, use_attention_tap
from didact.students.base import (
    STUDENTS,
    AttentionView,
    Batch,
    Cohort,
    CohortOutput,
    LabelledExample,
    StudentCard,
    TaskSetup,
)
from didact.students.batches import cohort_data
from didact.students.network import NetworkStudent, NetworkTraining
from didact.students.optimization import Precision, Schedule
from didact.students.stacked import StackedLinear, check_stackable, stacked
from didact.students.tokenized import tokenised
from didact.types import Example

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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
        offers=frozenset({"attention_row", "attention_matrix", "states"}),
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
        weight_decay: of AdamW; not for biases and normalisations.
        clip: largest norm of a student's gradient; None for no limit.
        dropout: everywhere in the encoder; above 0, results depend on which students train together.
        train_embeddings: whether the token embeddings are trained too; frozen ones are stored once for all students.
        pooling: the state that the output layer reads: the first, or the mean over all tokens.
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
    dropout: float = 0.0
    train_embeddings: bool = False
    pooling: Literal["first", "mean"] = "first"
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
        self.has_types = "token_type_ids" in self.tokenizer.model_input_names
        words = self.encoder.get_input_embeddings()
        self.shared: tuple[nn.Module, ...] = () if student.train_embeddings else (words,)
        if not student.train_embeddings:
            words.requires_grad_(False)

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
        self.has_types, self.has_tap, self.layer = factory.has_types, factory.has_tap, factory.layer
        self.kind, self.student = factory.setup.kind, factory.student

    def forward(self, batch: Batch, view: AttentionView | None = None) -> CohortOutput:
        """Answers, states and, where a view is requested, one layer's attention."""
        inputs = {"input_ids": batch.ids.flatten(0, 1), "attention_mask": batch.mask.flatten(0, 1).long()}
        if self.has_types:
            inputs["token_type_ids"] = batch.types.flatten(0, 1)
        states, attention = self._encoded(inputs, view)
        states = states.view(self.size, -1, *states.shape[1:])  # (S, B, L, D)
        if self.kind == "span":
            answers = self.head(states)
        else:
            answers = self.head(self._pooled(states, batch.mask))
            answers = answers[..., 0] if self.kind == "number" else answers
        if attention is not None:
            attention = attention.view(self.size, -1, *attention.shape[1:])
            attention = attention if view == "matrix" else self._row(attention, batch.mask)
        return CohortOutput(answers, states, attention)

    def _encoded(self, inputs: dict[str, Tensor], view: AttentionView | None) -> tuple[Tensor, Tensor | None]:
        """States (rows, L, D), and attention (rows, 1 or L, L) where a view is requested."""
        if view is None:
            return self.encoder(**inputs).last_hidden_state, None
        if self.has_tap:
            first = view == "row" and self.student.rows == "first"
            with tapped_attention(self.layer, "first" if first else "all") as tap:
                states = self.encoder(**inputs).last_hidden_state
            return states, tap.probabilities
        output = self.encoder(**inputs, output_attentions=True)
        maps = output.attentions[self.layer]
        if maps.shape[-2:] != (inputs["input_ids"].shape[1],) * 2:
            raise CapabilityError(f"{type(self.encoder).__name__} does not return attention from each token to each")
        return output.last_hidden_state, maps.mean(1)

    def _row(self, attention: Tensor, mask: Tensor) -> Tensor:
        """(S, B, 1 or L, L) -> (S, B, L)."""
        return attention[:, :, 0] if self.student.rows == "first" else _mean(attention, mask)

    def _pooled(self, states: Tensor, mask: Tensor) -> Tensor:
        """(S, B, L, D) -> (S, B, D)."""
        return states[:, :, 0] if self.student.pooling == "first" else _mean(states, mask)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the tokens: (S, B, L, D), (S, B, L) -> (S, B, D)."""
    there = mask[..., None].to(values.dtype)
    return (values * there).sum(2) / there.sum(2)


def _probe(encoder: PreTrainedModel, has_types: bool) -> dict[str, Tensor]:
    """Four short rows of different length, on the encoder's device."""
    ids = torch.arange(36).view(4, 9) % min(30, encoder.config.vocab_size - 10) + 10
    mask = torch.arange(9) < torch.tensor([[9], [7], [9], [5]])
    pad = encoder.config.pad_token_id
    inputs = {"input_ids": ids.masked_fill(~mask, 0 if pad is None else pad), "attention_mask": mask.long()}
    if has_types:
        inputs["token_type_ids"] = torch.zeros_like(ids)
    return {name: value.to(encoder.device) for name, value in inputs.items()}
