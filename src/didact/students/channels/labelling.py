"""Sequence labelling as a second task: the student learns to predict which tokens the hint marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from didact.errors import ParameterError
from didact.ops.crf import Chain, best, log_likelihood
from didact.students.base import CHANNELS, Batch, ChannelCard, CohortOutput, LossChannel

TAGS = 2


@CHANNELS.register(
    ChannelCard(
        name="labelling",
        family="network",
        summary="Has the student label the hint's tokens with a linear-chain CRF on its states.",
        reference="Pruthi et al. 2022 (multitask learning); Lafferty et al. 2001 (CRF)",
        answers=frozenset({"class", "number", "span"}),
        needs=frozenset({"states"}),
    )
)
@dataclass(frozen=True, kw_only=True)
class LabellingChannel(LossChannel):
    """-log p(tags | states): a linear layer on the student's last states and a chain over the tokens of the text.

    A token's tag is 1 where the hint marks it. Special tokens are no part of the chain. Examples whose hint is empty
    are not labelled at all, rather than labelled as unmarked throughout. A dense hint is cut to the set of the tokens
    with at least half of its largest weight, which is what is left of it at one bit per token: cut at zero, most of the
    text would be marked. The cut has no gradient, so this channel cannot train what produces the hints.

    Args:
        reduction: "token_mean" divides by the number of tokens of the text, so that long texts do not outweigh the
            task; "sum" is the likelihood of the whole sequence as the paper prints it.
        cut: a token is marked where its weight is at least this share of the text's largest.

    See also ``attention``, which shapes the student's attention instead of its states.
    """

    reduction: Literal["token_mean", "sum"] = "token_mean"
    cut: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.cut <= 1:
            raise ParameterError(f"cut of {self.card.name} must be above 0 and at most 1, got {self.cut!r}")

    def head(self, width: int, seeds: Sequence[int]) -> nn.Module:
        """A linear layer and a chain for each student."""
        return LabellingHead(width, seeds)

    def loss(self, output: CohortOutput, batch: Batch, head: nn.Module | None) -> Tensor:
        """-log p(tags) of each example (S, B)."""
        if not isinstance(head, LabellingHead):
            raise TypeError(f"labelling needs the module that its method head returns, got {type(head).__name__}")
        tags = (batch.hints >= self.cut * batch.hints.amax(-1, keepdim=True)).long()
        loss = -log_likelihood(head.emissions(output.states), tags, batch.text, head.chain)
        if self.reduction == "token_mean":
            loss = loss / batch.text.sum(-1).clamp_min(1)
        return torch.where(batch.hints.sum(-1) > 0, loss, 0.0)


class LabellingHead(nn.Module):
    """For each student a linear layer from states to tags, drawn from its seed, and a chain that starts at zero."""

    def __init__(self, width: int, seeds: Sequence[int]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([_xavier(width, seed) for seed in seeds]))  # (S, D, T)
        self.bias = nn.Parameter(torch.zeros(len(seeds), TAGS))
        self.transitions = nn.Parameter(torch.zeros(len(seeds), TAGS, TAGS))
        self.start = nn.Parameter(torch.zeros(len(seeds), TAGS))
        self.end = nn.Parameter(torch.zeros(len(seeds), TAGS))

    @property
    def chain(self) -> Chain:
        """Weights of the students' chains."""
        return Chain(self.transitions, self.start, self.end)

    def emissions(self, states: Tensor) -> Tensor:
        """Scores of the tags: (S, B, L, D) -> (S, B, L, T)."""
        return torch.einsum("sbld,sdt->sblt", states, self.weight) + self.bias[:, None, None]

    def tags(self, states: Tensor, mask: Tensor) -> Tensor:
        """The most likely tags (S, B, L); -1 where the mask is false."""
        return best(self.emissions(states), mask, self.chain)


def _xavier(width: int, seed: int) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return nn.init.xavier_uniform_(torch.empty(width, TAGS), generator=rng)
