"""An answer that is a span of the input: extractive question answering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self, cast

import torch
from torch import Tensor

from didact.errors import ModelError, TargetError
from didact.models.batch import EncodedBatch
from didact.models.heads._spans import SpanScores
from didact.models.heads.base import HEADS, Head, HeadCard
from didact.models.outputs import labelled
from didact.protocols import Reads, TargetLike
from didact.types import Prediction, Scale, Span, Target

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

ANSWER, NOTHING, GIVEN = "answer", "no answer", "given answer"
LONGEST = 30
"""Tokens of a predicted answer."""


@HEADS.register(
    HeadCard(
        name="span",
        family="extraction",
        summary="Where an answer starts and ends; or that there is none.",
        answers="span",
        architecture="ForQuestionAnswering",
        auto_class="AutoModelForQuestionAnswering",
    )
)
class SpanHead(Head):
    r"""Explains the log-probability, or the probability, of one answer.

    With the scores s and e of all places where an answer may start and end, and 0 for the first position, which stands
    for "no answer":

        log p(i, j) = s_i + e_j - log sum_k exp s_k - log sum_k exp e_k,    k in {0} + the passage

    Where the passage is read in windows, the sums go over all of them, an answer that stands in several windows counts
    in each, and "no answer" is that of the window that has the least reason for it. The predicted answer has at
    most 30 tokens. The model predicts that there is no answer where that is more probable than the best one; this is
    what models trained on unanswerable questions (SQuAD 2) mean, and rare in others.
    """

    labels: tuple[str, ...] = (ANSWER, NOTHING)
    scales: tuple[Scale, ...] = ("log_probability", "probability")
    reads: Reads | None = "mean"

    @classmethod
    def of(cls, config: PreTrainedConfig) -> Self:
        """The same for all configurations."""
        return cls()

    def outputs(self, result: object) -> Tensor:
        """Scores of starts and ends, (rows, positions, 2)."""
        if not hasattr(result, "start_logits") or not hasattr(result, "end_logits"):
            raise ModelError(f"a {type(result).__name__} has no scores of where an answer starts and ends")
        ends = cast("HasEnds", result)
        return torch.stack([ends.start_logits, ends.end_logits], -1)

    def predictions(self, outputs: Tensor, batch: EncodedBatch) -> list[Prediction]:
        """The best answer of each row and that there is none, with the log-probability of both."""
        scores = SpanScores(outputs, batch)
        given = cast("Sequence[Span | None]", batch.about or [None] * len(outputs))
        best = [scores.best(row, LONGEST) for row in range(len(outputs))]
        columns = [scores.log_p(spans).tolist() for spans in (best, [None] * len(best), given)]
        made = []
        for span, answer, nothing, other, wanted in zip(best, *columns, given, strict=True):
            extract = span if answer >= nothing else Span(0, 0, span.field)
            further = () if wanted is None else ((GIVEN, other),)
            labels, values = zip((ANSWER, answer), (NOTHING, nothing), *further, strict=True)
            made.append(Prediction(labels, values, extract=extract))
        return made

    def values(self, outputs: Tensor, targets: Sequence[Target], batch: EncodedBatch) -> Tensor:
        """The log-probability of each row's answer, or the probability."""
        log_p = SpanScores(outputs, batch).log_p([cast("Span | None", target.answer) for target in targets])
        scales = {target.scale for target in targets}
        if len(scales) == 1:
            return log_p.exp() if scales == {"probability"} else log_p
        shares = torch.tensor([target.scale == "probability" for target in targets], device=outputs.device)
        return torch.where(shares, log_p.exp(), log_p)

    def target(self, given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
        """A span of the passage, "answer", "no answer", or nothing for what is predicted."""
        predicted = cast("Span", prediction.extract)
        answer = given.answer if isinstance(given, Target) else given
        if isinstance(answer, Span):
            if answer.field != predicted.field:
                raise TargetError(
                    f"an answer lies in field {predicted.field}, the passage, and the given span in field "
                    f"{answer.field}; give Span(start, end, {predicted.field})"
                )
            return Target(0, ANSWER, scale, answer) if answer == predicted else Target(2, GIVEN, scale, answer)
        chosen = labelled(self.labels, given, prediction, scale)
        if chosen.label == ANSWER and predicted.start == predicted.end:
            raise TargetError(
                "the model predicts that there is no answer; give the span of the passage whose probability is to be "
                "explained (command line: --answer TEXT)"
            )
        return Target(chosen.index, chosen.label, scale, predicted if chosen.label == ANSWER else None)


class HasEnds(Protocol):
    """What Transformers' networks for questions return."""

    start_logits: Tensor
    end_logits: Tensor
