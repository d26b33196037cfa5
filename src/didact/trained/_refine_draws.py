"""Maps drawn around the best one so far, of which a judge takes the best again: a search without gradients.

A metric that looks at the highest units alone does not change between two maps with the same highest units, so there is
nothing for a gradient to follow; exchanging single units is what noise does.
"""

from __future__ import annotations

import numpy as np

from didact.types import Explanation, Floats

SPREADS = (1.0, 0.7, 0.5, 0.35)
"""Size of the noise in each round, in units of the spread of a map's logits."""
EDGE = 1e-6
"""How near to 0 and 1 a share counts as such."""


def split_draws(draws: int) -> list[tuple[float, int]]:
    """Spread and number of the maps of every round; none is empty."""
    share, more = divmod(draws, len(SPREADS))
    counts = [share + (number < more) for number in range(len(SPREADS))]
    return [(spread, count) for spread, count in zip(SPREADS, counts, strict=True) if count]


def around(explanation: Explanation, scores: Floats, spread: float, count: int, seed: int) -> Floats:
    """So many maps around one, (count, units), decided by the text, the seed and the spread.

    Shares between 0 and 1 are drawn as logits, so that noise does the same everywhere; other scores as they are.
    """
    key = [seed, int(explanation.example.fingerprint, 16) % (1 << 63), round(1000 * spread)]
    noise = spread * np.random.default_rng(key).logistic(size=(count, len(scores)))
    if scores.min() < 0 or scores.max() > 1:
        return np.asarray(scores + (float(scores.std()) or 1.0) * noise)
    inside = np.clip(scores, EDGE, 1 - EDGE)
    logits = np.log(inside) - np.log1p(-inside)
    return np.asarray(1 / (1 + np.exp(-(logits + (float(logits.std()) or 1.0) * noise))))
