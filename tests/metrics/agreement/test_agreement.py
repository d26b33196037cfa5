"""Agreement between explainers, by hand."""

import math

import pytest

from didact.errors import InputError, ParameterError
from didact.metrics.agreement.rank_agreement import RankAgreement
from didact.metrics.agreement.top_k_agreement import TopKAgreement
from didact.metrics.base import BaseMetric
from didact.protocols import Evidence
from didact.types import Explanation, Grade, Span
from tests.metrics.made import explained

TEXT = "one two three four"
MINE = explained(TEXT, [4, 3, 2, -5])


def compared(metric: BaseMetric, **others: Explanation) -> Grade:
    (grade,) = metric.measure(Evidence([MINE], others={label: [other] for label, other in others.items()}))
    return grade


def test_top_k_by_hand() -> None:
    # Half of four words: {one, two} against {one, three} and against {three, four}.
    grade = compared(TopKAgreement(share=0.5), near=explained(TEXT, [9, 0, 1, 0]), far=explained(TEXT, [0, 0, 1, 1]))
    assert grade.parts == {"near": 0.5, "far": 0.0}
    assert grade.value == 0.25


def test_ties_share_the_places() -> None:
    # A constant puts 2 of 4 places on every word: half a place each, one of two shared, as chance would.
    assert compared(TopKAgreement(k=2), flat=explained(TEXT, [1, 1, 1, 1])).value == 0.5


def test_k_is_at_most_all_words() -> None:
    assert compared(TopKAgreement(k=50), other=explained(TEXT, [4, 3, 2, 1])).value == 1.0


def test_magnitude_compares_absolute_scores() -> None:
    unsigned = explained(TEXT, [0, 0, 0, 1])
    assert compared(TopKAgreement(k=1), other=unsigned).value == 0.0
    assert compared(TopKAgreement(k=1, magnitude=True), other=unsigned).value == 1.0
    # Ranks 4 3 2 1 against 2 2 2 4 with signs; absolute: 3 2 1 4 against 2 2 2 4.
    assert (
        compared(RankAgreement(), other=unsigned).value
        < 0
        < compared(RankAgreement(magnitude=True), other=unsigned).value
    )


def test_rank_agreement_by_hand() -> None:
    # Ranks 4 3 2 1 against 3 4 2 1: d² = 2, rho = 1 - 6 * 2 / 60; one pair of six is turned round, tau = 4 / 6.
    other = explained(TEXT, [3, 4, 2, 1])
    assert compared(RankAgreement(), other=other).value == pytest.approx(0.8)
    assert compared(RankAgreement(coefficient="kendall"), other=other).value == pytest.approx(4 / 6)


def test_the_value_is_the_mean_over_others() -> None:
    same, reverse = explained(TEXT, [4, 3, 2, -5]), explained(TEXT, [-4, -3, -2, 5])
    grade = compared(RankAgreement(), same=same, reverse=reverse)
    assert grade.parts == {"same": pytest.approx(1.0), "reverse": pytest.approx(-1.0)}
    assert grade.value == pytest.approx(0.0)


def test_words_and_tokens_are_compared_as_words() -> None:
    pieces = [Span(0, 3), Span(4, 6), Span(6, 7), Span(8, 13), Span(14, 18)]
    assert compared(RankAgreement(), other=explained(TEXT, [4, 1, 2, 2, 0], tokens=pieces)).value == pytest.approx(1.0)


def test_only_words_that_both_saw_count() -> None:
    assert compared(RankAgreement(), cut=explained(TEXT, [3, 2])).value == pytest.approx(1.0)
    assert math.isnan(compared(TopKAgreement(), apart=explained(TEXT, [1], tokens=[Span(0, 13)])).value)


def test_other_texts_are_refused() -> None:
    with pytest.raises(InputError, match="same order"):
        compared(RankAgreement(), other=explained("something else", [1, 2]))
    with pytest.raises(InputError, match="but 0 by lime"):
        RankAgreement().measure(Evidence([MINE], others={"lime": []}))


@pytest.mark.parametrize("settings", [{"share": 0.0}, {"share": 1.1}, {"k": 0}])
def test_impossible_sizes_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="top_k_agreement"):
        TopKAgreement.configured(**settings)
