"""What students are trained on: the task's loss and the channel's, one number per student."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from didact.students.base import Batch, Cohort, LossChannel
from didact.types import AnswerKind

IGNORED = -1
"""Position of an answer that the length limit cut off."""

FAR_BELOW = -1e9
"""Logit of a position that cannot be an answer; finite, so that a text without any passage gives no NaN."""


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses of a cohort on a batch, each the mean over a student's examples.

    Attributes:
        task: distance from the teacher's answers (S,).
        channel: the channel's loss, not yet weighted (S,); None without a channel.
    """

    task: Tensor
    channel: Tensor | None

    def total(self, weights: Tensor) -> Tensor:
        """Task loss plus the weighted channel loss (S,)."""
        return self.task if self.channel is None else self.task + weights * self.channel


class CohortLosses(nn.Module):
    """A cohort together with the channel's parameters, as a module from a batch to losses.

    Being one module, it can be called with other parameters through ``torch.func.functional_call``.

    Args:
        cohort: the students.
        kind: of the teacher's answers.
        channel: how hints reach the students; None for the task's loss alone.
        head: the channel's own parameters, where it has any.
    """

    def __init__(
        self, cohort: Cohort, kind: AnswerKind, channel: LossChannel | None = None, head: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.cohort, self.head = cohort, head
        self.kind, self.channel = kind, channel

    def forward(self, batch: Batch) -> Losses:
        """Losses of every student."""
        output = self.cohort(batch, None if self.channel is None else self.channel.view)
        task = task_loss(_single(output.answers), batch, self.kind)
        if self.channel is None:
            return Losses(task, None)
        return Losses(task, _single(self.channel.loss(output, batch, self.head)).mean(1))


def task_loss(answers: Tensor, batch: Batch, kind: AnswerKind) -> Tensor:
    """Squared error of numbers, cross-entropy of classes or of both ends of a span; mean over each batch (S,)."""
    if kind == "number":
        return F.mse_loss(answers, batch.answers, reduction="none").mean(1)
    if batch.passage is None:
        each = F.cross_entropy(answers.flatten(0, 1), batch.answers.flatten(), reduction="none")
        return each.view(batch.answers.shape).mean(1)
    logits = answers.masked_fill(~batch.passage[..., None], FAR_BELOW).transpose(-1, -2)  # (S, B, 2, L)
    each = F.cross_entropy(logits.flatten(0, 2), batch.answers.flatten(), reduction="none", ignore_index=IGNORED)
    return each.view(batch.answers.shape).sum(-1).mean(1)


def _single(values: Tensor) -> Tensor:
    """In single precision at least."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
