"""Deep SHAP: DeepLIFT averaged over real texts as baselines."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from didact.attribution.base import Attribution, Outcome, at_least, generator, register
from didact.attribution.deeplift import TOLERANCE, checked_gap, contributions
from didact.errors import InputError
from didact.models.pending import alone
from didact.protocols import DIFFERENTIABLE, Differentiable
from didact.settings import FILE
from didact.types import Card, Cost, Example, Target, Units

TOGETHER = 4
"""Background texts per pass: bounds the memory that a long text takes."""

BACKGROUND = (
    "The train leaves at half past nine and takes two hours.",
    "She put the book back on the shelf and closed the window.",
    "I expected more, but it was not bad for the price.",
    "What a lovely afternoon, I enjoyed every minute of it.",
    "The report has three parts and an appendix with tables.",
    "It broke after a week and nobody answered my letters.",
    "They moved to a smaller town because of the new job.",
    "An excellent meal, friendly people, and a view of the sea.",
    "The room was cold, noisy and far too expensive.",
    "Water boils at a lower temperature in the mountains.",
    "He forgot his keys again, so we waited outside.",
    "Some parts are clever, others are tedious and go nowhere.",
    "My sister plays the violin in the city orchestra.",
    "The second half saves a story that begins poorly.",
    "Please send the form to the office before the end of May.",
    "Nothing worked as promised, a complete waste of time.",
)
"""Neutral, favourable, unfavourable and mixed sentences, used when no file is given."""


@register(
    Card(
        name="deep_shap",
        family="gradient",
        summary="DeepLIFT averaged over background texts: the share of every word in the difference from their mean.",
        reference="Lundberg and Lee 2017; Chen, Lundberg and Lee 2019; background texts as in Situ et al. 2021 (L2E)",
        cost="samples + ceil(samples / 4) forwards, samples + ceil(samples / 4) backwards",
        needs=frozenset({DIFFERENTIABLE}),
        seeded=True,
        inputs=("text", "pair"),
        axioms=frozenset({"completeness"}),
        tolerance=TOLERANCE,
        aliases=("deepshap",),
    )
)
@dataclass(frozen=True, kw_only=True)
class DeepShap(Attribution):
    """Scores add up to target(text) - mean of target(background), the background put at the text's positions.

    A background text is tokenised by the model's own tokenizer; its token embeddings take the places of the
    explained text's, cut off or repeated from the start to fill them, between the explained text's special tokens.
    So each baseline is an input of the same length. A text never serves as its own background.

    The average over backgrounds makes the choice of a single baseline, on which DeepLIFT depends, matter less.

    Args:
        samples: background texts drawn for each example, without repetition; all of them when there are fewer.
        background: a text file with one background text per line, best some texts the model was trained on; 16
            built-in neutral, positive, negative and mixed sentences when not given.
        seed: which texts are drawn.

    Example:
        >>> import didact
        >>> didact.explain("A truly wonderful film.", method="deep_shap", samples=8)  # doctest: +SKIP
    """

    one_pass = True

    samples: int = 8
    background: str | None = dataclasses.field(default=None, metadata=FILE)
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, samples=1, seed=0)

    def attribute(self, model: Differentiable, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Average DeepLIFT's scores over the background, a few texts at a time."""
        outcomes = []
        for number, (unit, end) in enumerate(zip(units, model.embed(units), strict=True)):
            starts = _transplanted(model, unit, end, self._drawn(unit))
            target = alone(targets, number)
            parts = [contributions(model, unit, target, end, some) for some in torch.split(starts, TOGETHER)]
            full = parts[0][0]
            bases = np.concatenate([base for _, base, _ in parts])
            scores = np.concatenate([score for _, _, score in parts])
            for score, base in zip(scores, bases, strict=True):
                checked_gap(self.card.name, model, score, full - float(base))
            mean, base = scores.mean(0), float(bases.mean())
            details = {"base_value": base, "completeness_gap": float(mean.sum()) - (full - base)}
            outcomes.append(Outcome(mean, full, details))
        return outcomes

    def cost(self, units: Units) -> Cost:
        """The background, and the text once for every few background texts; its first row predicts as well."""
        drawn = min(self.samples, len(self._pool(units.example)))
        rows = drawn + -(-drawn // TOGETHER)
        return Cost(forwards=rows, backwards=rows)

    def _pool(self, example: Example) -> list[str]:
        """Background texts other than the example itself."""
        texts = BACKGROUND if self.background is None else _read(self.background)
        pool = [text for text in dict.fromkeys(texts) if text not in example.fields]
        if not pool:
            raise InputError(f"{self.background} holds no text besides the explained one; give a file with more lines")
        return pool

    def _drawn(self, unit: Units) -> list[Example]:
        """Background examples with as many fields as the explained one."""
        pool = self._pool(unit.example)
        order = generator(self.seed, unit.example).permutation(len(pool))
        fields = len(unit.example.fields)
        rows = [[pool[order[(i + k) % len(pool)]] for k in range(fields)] for i in range(len(pool))]
        return [Example(*row) for row in rows[: self.samples]]


def _transplanted(model: Differentiable, unit: Units, end: Tensor, background: Sequence[Example]) -> Tensor:
    """The background's embeddings at the positions of the explained units: (texts, tokens, dim)."""
    sources = model.units(background, unit.level)
    starts = end.repeat(len(background), 1, 1)
    for start, source, vectors in zip(starts, sources, model.embed(sources), strict=True):
        for field in range(len(unit.example.fields)):
            places, available = _positions(unit, field), _positions(source, field)
            if places and available:
                filled = [available[i % len(available)] for i in range(len(places))]
                start[torch.tensor(places)] = vectors[torch.tensor(filled)]
    return starts


def _positions(units: Units, field: int) -> list[int]:
    """Token positions of one field's units, in order."""
    own = (at for span, at in zip(units.spans, units.positions, strict=True) if span.field == field)
    return sorted(position for positions in own for position in positions)


def _read(path: str) -> list[str]:
    """The lines of a text file that are not blank."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as problem:  # no text, or a name that no file can have
        raise InputError(f"the background file {path} cannot be read as text: {problem}") from None
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise InputError(f"the background file {path} is empty; give one text per line")
    return texts
