"""Search for the smallest set of edits that flips a prediction; every candidate is a plain pass of the edited text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import comb

from didact.counterfactuals.edits import changed
from didact.protocols import Model
from didact.types import Example, Prediction, Units

Edit = tuple[int, str]
"""A unit's number and what stands in its place; an empty text deletes it."""

Edits = frozenset[Edit]

PAIRED = 8
"""Units of which all pairs are tried when a text is built up from a few units."""
TOGETHER = 8
"""About so many numbers of units are tried when several are put back at once."""
DENSE = 40
"""Up to so many units changed together every number is tried; beyond, every second, then fewer."""


class FlipSearch:
    """Looks for small sets of edits that flip a prediction, by the margin of the other classes over the predicted one.

    1. Every single edit is tried, so a flip by one unit is never missed.
    2. Each unit keeps its best edit. Units are edited together, those with the strongest effect first: 2, 3, 4, ...
    3. Where nothing flips, texts of one unit and of two are tried, then a beam search goes on to larger sets.
    4. Units that are not needed for a flip are put back, several at once where the prediction stays flipped.
    5. A beam search looks for smaller sets with what is left of the budget, among the strongest edits where it is
       too little for all.

    Args:
        model: the explained model.
        units: what is edited.
        prediction: of the whole text.
        wanted: number of the class that is to be predicted; any other than the predicted one when None.
        budget: maximum number of plain passes.
    """

    def __init__(self, model: Model, units: Units, prediction: Prediction, wanted: int | None, budget: int) -> None:
        self.model = model
        self.units = units
        self.prediction = prediction
        self.wanted = wanted
        self.left = budget
        self.known: dict[Edits, Prediction] = {}
        self.best: Edits | None = None
        self._order: list[Edit] = []

    def run(self, proposals: Mapping[int, Sequence[str]] | None = None) -> None:
        """Search until nothing smaller is left to try or the budget is spent.

        Args:
            proposals: words that may replace a unit, by its number; tried where no deletion of one unit flips.
        """
        deletions = [(unit, "") for unit in range(len(self.units))]
        self._try([edit] for edit in deletions)
        if not self._done and proposals:
            self._try([(unit, word)] for unit, words in proposals.items() for word in words)
        if self._done:
            return
        self._order = self._strongest()
        self._together()
        if not self._done:
            self._from_few(deletions)
        if not self._done:
            self._grow(len(self._order) - 1)
        self._put_back()
        if self.best is not None:
            self._grow(len(self.best) - 1)

    @property
    def _done(self) -> bool:
        """Whether something flips."""
        return self.best is not None

    @property
    def closest(self) -> Edits:
        """The flip, or where there is none, the edits that come nearest to one; empty where nothing was tried."""
        return self.best or max(self.known, key=self._margin, default=Edits())

    @property
    def smallest(self) -> bool:
        """Whether all smaller sets of the units' best edits were tried, and do not flip."""
        size = 0 if self.best is None else len(self.best)
        if size < 2:
            return size == 1
        wanted = sum(comb(len(self._order), smaller) for smaller in range(1, size))
        edits = set(self._order)
        return sum(len(each) < size and each <= edits for each in self.known) >= wanted

    def _try(self, candidates: Iterable[Iterable[Edit]]) -> None:
        """Plain passes of the texts with these edits, as many as the budget has; the smallest flip is kept."""
        texts: dict[Edits, Example] = {}
        for edits in map(Edits, candidates):
            text = changed(self.units, dict(edits)) if edits and edits not in self.known else None
            if text is not None and len(texts) < self.left:
                texts[edits] = text
        if not texts:
            return
        self.left -= len(texts)
        self.known.update(zip(texts, self.model.predict(list(texts.values())), strict=True))
        flips = [edits for edits in texts if self._flips(self.known[edits])]
        self.best = min([*flips, *filter(None, [self.best])], key=self._rank, default=None)

    def _flips(self, made: Prediction) -> bool:
        return made.index != self.prediction.index if self.wanted is None else made.index == self.wanted

    def _margin(self, edits: Edits) -> float:
        """The wanted class's output less the others' best; above 0 where the prediction flips."""
        outputs = self.known[edits].outputs
        index = self.prediction.index if self.wanted is None else self.wanted
        rest = max(output for number, output in enumerate(outputs) if number != index)
        return rest - outputs[index] if self.wanted is None else outputs[index] - rest

    def _rank(self, edits: Edits) -> tuple[int, float]:
        return len(edits), -self._margin(edits)

    def _strongest(self) -> list[Edit]:
        """The best edit of each unit, those that move the prediction furthest first."""
        chosen: dict[int, Edit] = {}
        for edits in sorted(self.known, key=self._margin, reverse=True):
            (edit,) = edits
            chosen.setdefault(edit[0], edit)
        return list(chosen.values())

    def _together(self) -> None:
        """The strongest edits at once: two of them, three, ..."""
        sizes = [size for size in range(2, len(self._order) + 1) if size <= DENSE or size % (size // DENSE + 1) == 0]
        self._try(self._order[:size] for size in sizes)

    def _from_few(self, deletions: Sequence[Edit]) -> None:
        """Texts of one unit alone, then of pairs of the units that come nearest to a flip alone."""
        every = Edits(deletions)
        alone = [every - {edit} for edit in deletions]
        self._try(alone)
        nearest = sorted((edits for edits in alone if edits in self.known), key=self._margin, reverse=True)[:PAIRED]
        if self.best is None:
            self._try(first & second for first, second in combinations(nearest, 2))

    def _put_back(self) -> None:
        """Take edits back as long as the prediction stays flipped: each alone, then those least needed at once."""
        while self.best is not None and len(self.best) > 1:
            before = self.best
            without = {edit: before - {edit} for edit in sorted(before)}
            self._try(without.values())
            if self.best == before:
                return
            spare = [edit for edit, rest in without.items() if rest in self.known and self._flips(self.known[rest])]
            spare.sort(key=lambda edit: self._margin(without[edit]), reverse=True)
            step = len(spare) // TOGETHER + 1
            self._try(before - set(spare[:size]) for size in range(2, len(spare) + 1, step))

    def _grow(self, largest: int) -> None:
        """Beam search over sets of two edits and more, up to a size; ends at the first size that flips."""
        before, beam = self.best, [Edits([edit]) for edit in self._order]
        for size in range(2, largest + 1):
            share = self.left // (largest + 1 - size)
            tried = min(max(PAIRED, share), len(self._order))
            width = max(1, share // tried)
            grown = {edits | {edit} for edits in beam[:width] for edit in self._others(edits)[:tried]}
            self._try(sorted(grown, key=sorted))
            if self.best != before or not self.left:
                return
            beam = sorted((edits for edits in grown if edits in self.known), key=self._margin, reverse=True)

    def _others(self, edits: Edits) -> list[Edit]:
        """The edits that are not among these, strongest first."""
        return [edit for edit in self._order if edit not in edits]
