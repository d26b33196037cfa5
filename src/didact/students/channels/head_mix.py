"""The student's own mix of attention heads is drawn to where the hint points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from didact.ops.simplex import Normaliser, simplex
from didact.students.base import CHANNELS, Batch, ChannelCard, CohortOutput, LossChannel

LEAST = 1e-7
"""Probabilities below this count as this in logarithms."""

FAR_BELOW = -1e9
"""Logit of what is no text; finite, so that an example without any text gives no NaN."""


@CHANNELS.register(
    ChannelCard(
        name="head_mix",
        family="network",
        summary="Pulls a learned mix of the student's attention heads towards the hint: KL(hint || mix).",
        reference="Fernandes et al., Learning to Scaffold, NeurIPS 2022 (parameterised attention explainer)",
        answers=frozenset({"class", "number", "span"}),
        needs=frozenset({"head_scores"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class HeadMixChannel(LossChannel):
    """The divergence KL(hint || e) = sum over the text of p (log p - log e), to be made small.

    e is the student's explanation: e = softmax over the tokens of the text of sum_h lambda_h s_h, where s_h are the
    logits of head h (its mean query times the keys) and lambda is the normalised vector phi of the student's own, which
    is trained with it and begins as 1/H, the plain mean over all heads of all layers. p is the hint, normalised over
    the text. The student may so choose by which of its heads it follows the hint, which the ``attention`` channel
    prescribes.

    Args:
        normalise: how phi becomes lambda: "sparsemax", "entmax15" or "softmax" for shares that add up to one, "none"
            for phi as it is.

    See also ``attention``, which draws one row of probabilities to the hint.
    """

    normalise: Normaliser = "sparsemax"

    def head(self, width: int, seeds: Sequence[int]) -> nn.Module:
        """Phi of each student."""
        return HeadMix(width, len(seeds))

    def loss(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        """KL(hint || e) of each example (S, B)."""
        log_e = self.log_explanation(output, batch, head)
        hints = batch.hints.to(log_e.dtype)
        total = hints.sum(-1, keepdim=True)
        p = hints / torch.where(total > 0, total, 1.0)
        divergence = (p * (p.clamp(LEAST, 1.0).log() - log_e)).sum(-1)
        return torch.where(total[..., 0] > 0, divergence, 0.0)

    def log_explanation(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        """Log e (S, B, L), at least log 1e-7, as which everything outside of the text counts."""
        if output.attention is None:
            raise ValueError("the output has no attention; call the cohort with view='heads' for this channel")
        if not isinstance(head, HeadMix):
            raise TypeError(f"head_mix needs the module that its method head returns, got {type(head).__name__}")
        logits = output.attention  # (S, B, H, L)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        shares = simplex(head.phi, self.normalise).to(logits.dtype)  # (S, H)
        with torch.autocast(
            logits.device.type, enabled=False
        ):  # rounded logits would blur what hints are compared with
            mixed = (shares[:, None, None] @ logits)[:, :, 0]
        return mixed.masked_fill(~batch.text, FAR_BELOW).log_softmax(-1).clamp_min(math.log(LEAST))


class HeadMix(nn.Module):
    """A vector over the heads for each student."""

    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        self.phi = nn.Parameter(torch.full((size, heads), 1 / heads))  # (S, H)
