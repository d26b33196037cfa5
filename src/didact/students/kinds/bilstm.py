"""A bidirectional LSTM over words that answers from the last states of both directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didact.ops.lstm import last_states
from didact.students.base import STUDENTS, AttentionView, Batch, Cohort, CohortOutput, StudentCard, TaskSetup
from didact.students.kinds._recurrent import Recurrent, RecurrentCohort


@STUDENTS.register(
    StudentCard(
        name="bilstm",
        family="network",
        summary="A bidirectional LSTM over words with random embeddings; its last states answer.",
        reference="Pruthi et al., Evaluating Explanations, TACL 2022 (BiLSTM students)",
        offers=frozenset({"states"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class BiLstm(Recurrent):
    """It has no attention, so a hint reaches it only as labels of words."""

    def cohort(self, seeds: Sequence[int], words: int, setup: TaskSetup) -> Cohort:
        """Untrained students with a vocabulary of so many words."""
        return _BiLstms(self, seeds, words, setup)


class _BiLstms(RecurrentCohort):
    """Answers from the last states of both directions."""

    def forward(self, batch: Batch, view: AttentionView | None = None) -> CohortOutput:
        """Answers and states; there is no attention, whatever the view."""
        states, lengths = self.states(batch)
        return CohortOutput(self.answers(last_states(states, lengths)), states)
