"""Label words as a tree of tokens: what must be read beside a prompt to know the likelihood of each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LabelTrie:
    """Tokens of label words that share their beginnings; the root, number 0, is the prompt's last token.

    Attributes:
        nodes: tokens that another one follows, in the order in which they are read behind the prompt; node i + 1 is
            ``nodes[i]``.
        parents: the node before each.
        paths: per label the steps that write it: from which node, and which token comes next.
    """

    nodes: tuple[int, ...]
    parents: tuple[int, ...]
    paths: tuple[tuple[tuple[int, int], ...], ...]

    @classmethod
    def of(cls, words: Sequence[Sequence[int]]) -> LabelTrie:
        """The tree of these label words, each a sequence of token ids."""
        numbers: dict[tuple[int, ...], int] = {(): 0}
        parents: list[int] = []
        for word in words:
            for size in range(1, len(word)):
                if tuple(word[:size]) not in numbers:
                    numbers[tuple(word[:size])] = len(numbers)
                    parents.append(numbers[tuple(word[: size - 1])])
        nodes = tuple(prefix[-1] for prefix in numbers if prefix)
        paths = tuple(tuple((numbers[tuple(word[:size])], token) for size, token in enumerate(word)) for word in words)
        return cls(nodes, tuple(parents), paths)

    @property
    def depths(self) -> tuple[int, ...]:
        """How many steps each node lies behind the root."""
        made = [0]
        for parent in self.parents:
            made.append(made[parent] + 1)
        return tuple(made[1:])

    @property
    def branches(self) -> bool:
        """Whether nodes lie beside each other, so that not every one may see all before it."""
        return any(parent != number for number, parent in enumerate(self.parents))

    def sees(self) -> Tensor:
        """Which node may look at which: itself and those above it, (nodes, nodes)."""
        seen = torch.eye(len(self.nodes), dtype=torch.bool)
        for number, parent in enumerate(self.parents):
            if parent:
                seen[number] |= seen[parent - 1]
        return seen

    def likelihoods(self, logits: Tensor) -> Tensor:
        """Log-probability of each label's words from the logits at the root and at all nodes.

        Args:
            logits: (rows, 1 + nodes, vocabulary).

        Returns:
            (rows, labels).
        """
        log_p = logits.log_softmax(-1)
        return torch.stack([sum_steps(log_p, path) for path in self.paths], 1)


def sum_steps(log_p: Tensor, path: Sequence[tuple[int, int]]) -> Tensor:
    """Sum of the log-probabilities of a label's steps, (rows,)."""
    nodes, tokens = zip(*path, strict=True)
    return log_p[:, list(nodes), list(tokens)].sum(1)
