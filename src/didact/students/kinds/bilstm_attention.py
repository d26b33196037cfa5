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
        channels=frozenset({"attention", "labelling"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class BiLstmAttention(Recurrent):
    """Its attention, softmax over words of v · tanh(W h), is the row that hints are held against.

    v begins at zero, so an untaught student looks at all words alike. From a random v, 500 lessons are learned by heart
    through whatever words it happens to like, and any hint helps that moves attention away from them, random words too.
    """

    def cohort(self, seeds: Sequence[int], words: int, lab: TaskSetup) -> Cohort:
        """Untrained students for so many words."""
        return _BiLstmsAttention(self, seeds, words, lab)


class _BiLstmsAttention(RecurrentCohort):
    """Answers from states that attention picks."""

    def __init__(self, student: Recurrent, seeds: Sequence[int], words: int, lab: TaskSetup) -> None:
        super().__init__(student, seeds, words, lab)
        self.bend = self.linear(self.width, student.hidden)
        self.judge = StackedLinear(torch.zeros(self.size, student.hidden, 1), torch.zeros(self.size, 1))

    def read(self, batch: Batch, look: AttentionView | None = None) -> CohortOutput:
        """Answers, states and the distribution over words."""
        if look == "matrix":
            raise CapabilityError("bilstm_attention has one distribution over words, not one for each word")
        states, _ = self.states(batch)
        scores = self.judge(torch.tanh(self.bend(states)))[..., 0]  # (S, B, L)
        attention = scores.masked_fill(~batch.mask, torch.finfo(scores.dtype).min).softmax(-1)
        context = (attention[..., None, :] @ states)[..., 0, :]
        return CohortOutput(self.answers(context), states, attention if look == "row" else None)
