"""Races: the best candidate is left behind as rarely as the level says, and clearly worse ones are."""

import numpy as np
import pytest

from didact.errors import InputError, ParameterError
from didact.stats.racing import may_be_best


def drawn(rng: np.random.Generator, blocks: int, candidates: int = 40, gap: float = 0.02) -> np.ndarray:
    """Candidate 0 is best by ``gap``; blocks differ much more than candidates do, and noise is 0.01."""
    quality = np.full(candidates, 0.8)
    quality[0] += gap
    return quality[:, None] + rng.normal(0, 0.1, blocks) + rng.normal(0, 0.01, (candidates, blocks))


def test_the_best_stays_and_most_others_leave() -> None:
    rng = np.random.default_rng(0)
    kept = np.stack([may_be_best(drawn(rng, blocks=4)) for _ in range(300)])
    assert kept[:, 0].mean() > 0.97
    assert kept[:, 1:].mean() < 0.35


def test_blocks_do_not_count_as_noise() -> None:
    """The spread of blocks is ten times that of the noise; two blocks show the gap all the same."""
    rng = np.random.default_rng(1)
    kept = np.stack([may_be_best(drawn(rng, blocks=2, gap=0.05)) for _ in range(200)])
    assert kept[:, 0].all()
    assert kept[:, 1:].mean() < 0.02


def test_equal_candidates_mostly_stay() -> None:
    """The one that leads by chance is compared with 39 others, each at 95 %."""
    rng = np.random.default_rng(2)
    kept = np.stack([may_be_best(drawn(rng, blocks=4, candidates=2, gap=0.0)) for _ in range(400)])
    assert 0.9 <= kept.mean() <= 0.99


def test_too_few_values_leave_nobody_behind() -> None:
    assert may_be_best([[0.1], [0.9]]).tolist() == [True, True]
    assert may_be_best([[0.1, 0.9]]).tolist() == [True]


def test_values_without_noise_decide_by_themselves() -> None:
    assert may_be_best([[0.5, 0.5], [0.5, 0.5], [0.4, 0.4]]).tolist() == [True, True, False]


def test_wrong_input_is_named() -> None:
    with pytest.raises(InputError, match=r"\(candidates, blocks\), got an array of shape \(2,\)"):
        may_be_best([0.1, 0.2])
    with pytest.raises(InputError, match="leave out candidates without a value"):
        may_be_best([[0.1, np.nan], [0.2, 0.3]])
    with pytest.raises(ParameterError, match=r"level of a race .* got 0.4"):
        may_be_best([[0.1, 0.2], [0.2, 0.3]], level=0.4)
