"""A bidirectional LSTM over words that answers from a mean of its states, weighted by attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from didact.errors import CapabilityError
from didact.students.base import STUDENTS, AttentionView, Batch, Cohort, CohortOutput, StudentCard, TaskSetup
from didact.students.kinds._recurrent import Recurrent, RecurrentCohort
from didact.students.stacked import StackedLinear


@STUDENTS.register(
    StudentCard(
        name="bilstm_attention",
        family="network",
        summary="A bidirectional LSTM over words; additive attention over its states answers.",
        reference="Pruthi et al., Evaluating Explanations, TACL 2022 (BiLSTM students with attention)",
        offers=frozenset({"attention_row", "states"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class BiLstmAttention(Recurrent):
    """Its attention, softmax over words of v · tanh(W h), is the row that hints are compared with.

    v begins at zero, so an untrained student attends to all words alike. From a random v, 500 training texts are
    memorised through whatever words it happens to prefer, and any hint helps that moves attention away from them,
    random words too.
    """

    def cohort(self, seeds: Sequence[int], words: int, setup: TaskSetup) -> Cohort:
        """Untrained students with a vocabulary of so many words."""
        return _BiLstmsAttention(self, seeds, words, setup)


class _BiLstmsAttention(RecurrentCohort):
    """Answers from the mean of states, weighted by attention."""

    def __init__(self, student: Recurrent, seeds: Sequence[int], words: int, setup: TaskSetup) -> None:
        super().__init__(student, seeds, words, setup)
        self.hidden = self.linear(self.width, student.hidden)
        self.scorer = StackedLinear(torch.zeros(self.size, student.hidden, 1), torch.zeros(self.size, 1))

    def forward(self, batch: Batch, view: AttentionView | None = None) -> CohortOutput:
        """Answers, states and the distribution over words."""
        if view == "matrix":
            raise CapabilityError("bilstm_attention has one distribution over words, not one for each word")
        states, _ = self.states(batch)
        scores = self.scorer(torch.tanh(self.hidden(states)))[..., 0]  # (S, B, L)
        attention = scores.masked_fill(~batch.mask, torch.finfo(scores.dtype).min).softmax(-1)
        context = (attention[..., None, :] @ states)[..., 0, :]
        return CohortOutput(self.answers(context), states, attention if view == "row" else None)
