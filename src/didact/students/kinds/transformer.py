"""A pretrained transformer that is fine-tuned: any encoder of Transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from didact.models.encoders import load_encoder
from didact.models.tokens.encoding import Encoder, length_limit
from didact.settings import at_least
from didact.students.base import STUDENTS, Batch, LabelledExample, StudentCard, TaskSetup
from didact.students.batches import cohort_data
from didact.students.kinds._fine_tuned import FineTuned, FineTunedFactory
from didact.students.network import NetworkTraining
from didact.students.tokenized import tokenised
from didact.types import Example


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
class Transformer(FineTuned):
    """Reads texts and pairs of texts with any encoder of Transformers.

    The encoder of the embedded sentiment model, with which it begins unless another is given, needs no download but is
    small, and has seen sentiment before.

    Args:
        max_length: tokens per text; the rest is cut off.

    See also ``vision_transformer``, which reads images.
    """

    max_length: int = 256

    def __post_init__(self) -> None:
        at_least(self, max_length=4)
        super().__post_init__()

    def training(self, pool: Sequence[LabelledExample], test: Sequence[Example], setup: TaskSetup) -> NetworkTraining:
        """Copies of the loaded encoder, and texts as its tokenizer cuts them."""
        factory = EncoderFactory(self, setup)
        encoder = Encoder(factory.tokenizer, factory.limit, 1.0)
        texts = [tokenised(some, encoder) for some in ([labelled.example for labelled in pool], test)]
        data = cohort_data(pool, texts[0], texts[1], setup)
        return NetworkTraining(factory.cohort, data, self.planned(), factory.together)


class EncoderFactory(FineTunedFactory):
    """The loaded encoder of texts, of which every student is a copy.

    Args:
        student: the settings.
        setup: kind of answer and device.
    """

    def __init__(self, student: Transformer, setup: TaskSetup) -> None:
        encoder, self.tokenizer = load_encoder(student.model, dropout=student.dropout)
        super().__init__(student, setup, encoder)
        self.limit = length_limit(encoder, self.tokenizer, student.max_length)
        self.has_types = "token_type_ids" in self.tokenizer.model_input_names

    def embeddings(self) -> nn.Module:
        """The vectors of tokens."""
        return self.encoder.get_input_embeddings()

    def inputs(self, batch: Batch) -> dict[str, Tensor]:
        """Token numbers, mask, and segment numbers where the encoder has them."""
        inputs = {"input_ids": batch.ids.flatten(0, 1), "attention_mask": batch.mask.flatten(0, 1).long()}
        if self.has_types:
            inputs["token_type_ids"] = batch.types.flatten(0, 1)
        return inputs

    def probe(self) -> dict[str, Tensor]:
        """Four short rows of different length."""
        config = self.encoder.config
        ids = torch.arange(36).view(4, 9) % min(30, config.vocab_size - 10) + 10
        mask = torch.arange(9) < torch.tensor([[9], [7], [9], [5]])
        pad = config.pad_token_id
        inputs = {"input_ids": ids.masked_fill(~mask, 0 if pad is None else pad), "attention_mask": mask.long()}
        if self.has_types:
            inputs["token_type_ids"] = torch.zeros_like(ids)
        return {name: value.to(self.encoder.device) for name, value in inputs.items()}
