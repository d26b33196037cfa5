"""PartitionSHAP: Owen values over a tree of neighbouring units."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from didact.attribution._rounds import Job, in_rounds
from didact.attribution.base import Attribution, Outcome, at_least, register
from didact.ops.coalitions import Bools
from didact.ops.trees import Node, balanced_tree, games
from didact.protocols import Model
from didact.types import Card, Cost, Floats, Keep, Target, Units


@register(
    Card(
        name="partition_shap",
        family="perturbation",
        summary="Owen values: halves of the text share the effect by Shapley's rule, then their halves, down to units.",
        reference="Owen 1977; Winter 1989 (levels); Lundberg and Lee 2017 (shap's PartitionExplainer)",
        cost="at most evaluations + 3 forwards",
        axioms=frozenset({"completeness", "dummy"}),
        aliases=("owen", "partition"),
    )
)
@dataclass(frozen=True, kw_only=True)
class PartitionShap(Attribution):
    """Shapley values for orders in which the units of a group arrive together, groups being halves of halves.

    At every fork of the tree the two halves play a game of two, once for each way in which the other halves above are
    present or absent. About 2/3 n^2 coalitions give the values exactly. With fewer, the games with most at stake are
    played first (the better half of the open ones in each round), and a group that is left whole shares its part
    equally. The texts of a pair are the first two groups. Scores always add up to target(text) - target(text without
    its units).

    Next to ``kernel_shap`` it needs fewer evaluations and has no randomness, but neighbours share credit: two equal
    words may get different scores because of where they stand.

    Args:
        evaluations: coalitions evaluated besides the full and the empty one.
        absence: how an absent unit is shown; the model's default when not given.

    Example:
        >>> import didact
        >>> didact.explain("Not bad at all.", method="partition_shap").details["unshared"]  # doctest: +SKIP
    """

    evaluations: int = 500
    absence: str | None = None

    def __post_init__(self) -> None:
        at_least(self, evaluations=2)

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Play the games of all texts side by side."""
        jobs = [_Games(_tree(unit), len(unit), self.evaluations // 2) for unit in units]
        return in_rounds(model, units, targets, jobs, self.absence)

    def cost(self, units: Units) -> Cost:
        """The plain prediction, full, empty, and two coalitions for each game."""
        return Cost(forwards=2 * min(games(_tree(units)), self.evaluations // 2) + 3)


def _tree(units: Units) -> Node:
    return balanced_tree(len(units), sum(region.field == 0 for region in units.regions))


@dataclass(frozen=True, eq=False)
class _Game:
    """A group in a context: what it adds there (``low`` to ``high``), and how much that counts."""

    node: Node
    context: Bools
    low: float
    high: float
    weight: float


class _Games(Job):
    """The open games of one text, those with most at stake first."""

    def __init__(self, tree: Node, n: int, budget: int) -> None:
        self.tree = tree
        self.budget = budget
        self.scores = np.zeros(n)
        self.ends: tuple[float, float] | None = None
        self.queue: list[tuple[float, int, _Game]] = []
        self.number = 0
        self.playing: list[_Game] = []

    def wanted(self) -> Keep:
        """Full and empty; then, for each game of the round, its context with the left and with the right half."""
        n = len(self.scores)
        if self.ends is None:
            return np.stack([np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)])
        count = min(self.budget, (len(self.queue) + 1) // 2)
        self.playing = [heapq.heappop(self.queue)[2] for _ in range(count)]
        self.budget -= count
        rows = [_joined(game.context, half) for game in self.playing for half in game.node.halves]
        return np.array(rows, dtype=np.bool_).reshape(-1, n)

    def take(self, values: Floats) -> None:
        """Open the games of the halves."""
        if self.ends is None:
            full, empty = float(values[0]), float(values[1])
            self.ends = full, empty
            self._open(_Game(self.tree, np.zeros(len(self.scores), dtype=np.bool_), empty, full, 1.0))
            return
        for game, left, right in zip(self.playing, values[0::2].tolist(), values[1::2].tolist(), strict=True):
            first, second = game.node.halves
            weight = game.weight / 2
            self._open(_Game(first, game.context, game.low, left, weight))
            self._open(_Game(first, _joined(game.context, second), right, game.high, weight))
            self._open(_Game(second, game.context, game.low, right, weight))
            self._open(_Game(second, _joined(game.context, first), left, game.high, weight))

    def outcome(self) -> Outcome:
        """Share what is still open equally within its group."""
        if self.ends is None:
            raise RuntimeError("there is no outcome before the last round")
        full, empty = self.ends
        unshared = 0.0
        for _, _, game in sorted(self.queue, key=lambda entry: entry[1]):
            amount = game.weight * (game.high - game.low)
            self.scores[game.node.start : game.node.stop] += amount / len(game.node)
            unshared += abs(amount)
        self.queue = []
        return Outcome(self.scores, full, {"base_value": empty, "unshared": unshared})

    def _open(self, game: _Game) -> None:
        amount = game.weight * (game.high - game.low)
        if len(game.node) == 1:
            self.scores[game.node.start] += amount
            return
        heapq.heappush(self.queue, (-abs(amount), self.number, game))
        self.number += 1


def _joined(context: Bools, node: Node) -> Bools:
    """The context with all units of the node present."""
    row = context.copy()
    row[node.start : node.stop] = True
    return row
