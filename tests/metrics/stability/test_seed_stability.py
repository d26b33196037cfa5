"""Stability between seeds."""

import pytest
from scipy import stats

from didact.errors import InputError
from didact.metrics.stability.seed_stability import SeedStability
from didact.protocols import Evidence
from didact.types import Explanation, Span
from tests.metrics.made import explained

TEXT = "one two three four"


def measured(first: Explanation, *repeats: Explanation, **settings: str) -> dict[str, float]:
    (grade,) = SeedStability.configured(**settings).measure(Evidence([first], repeats=[[other] for other in repeats]))
    return {"value": grade.value, **grade.parts}


def test_by_hand() -> None:
    # Ranks 1 2 3 4 against 1 2 4 3: d² = 2, so rho = 1 - 6 * 2 / (4 * 15) = 0.8; against 4 3 2 1: -1.
    found = measured(explained(TEXT, [1, 2, 3, 4]), explained(TEXT, [0, 1, 9, 8]), explained(TEXT, [4, 3, 2, 1]))
    assert found == {"value": pytest.approx(-0.1), "repeat 1": pytest.approx(0.8), "repeat 2": pytest.approx(-1.0)}


def test_kendall_by_hand() -> None:
    # Five of six pairs in the same order.
    found = measured(explained(TEXT, [1, 2, 3, 4]), explained(TEXT, [0, 1, 9, 8]), coefficient="kendall")
    assert found["value"] == pytest.approx(4 / 6)


@pytest.mark.parametrize("scores", [[1, 2, 3, 4], [5, 5, 5, 5], [0, 0, 1, 0]])
def test_an_explainer_without_chance_has_one(scores: list[float]) -> None:
    assert measured(explained(TEXT, scores), explained(TEXT, scores))["value"] == pytest.approx(1.0)


def test_a_single_word_has_one() -> None:
    assert measured(explained("one", [2]), explained("one", [-3]))["value"] == 1.0


def test_all_ties_against_an_order_has_zero() -> None:
    assert measured(explained(TEXT, [1, 1, 1, 1]), explained(TEXT, [1, 2, 3, 4]))["value"] == 0.0


def test_tokens_are_compared_as_words() -> None:
    pieces = [Span(0, 3), Span(4, 6), Span(6, 7), Span(8, 13), Span(14, 18)]
    one = explained(TEXT, [1, 2, 3, 0, 9], tokens=pieces)
    expected = stats.spearmanr([1, 5, 0, 9], [1, 2, 3, 4]).statistic
    assert measured(one, explained(TEXT, [1, 2, 3, 4]))["value"] == pytest.approx(expected)


def test_other_texts_are_refused() -> None:
    with pytest.raises(InputError, match="same order"):
        measured(explained(TEXT, [1, 2, 3, 4]), explained("quite another text here", [1, 2, 3, 4]))
    with pytest.raises(InputError, match="1 explanations, but 0"):
        SeedStability().measure(Evidence([explained("one", [1])], repeats=[[]]))
