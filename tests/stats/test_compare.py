"""Who differs from whom: planted differences, directions, and what cannot be told."""

import numpy as np
import pytest

from didact.errors import InputError, ParameterError
from didact.stats.compare import Compared, compare_all, pairwise
from didact.stats.means import mean_tests

NAN = float("nan")


@pytest.fixture
def values() -> dict[str, np.ndarray]:
    """Two alike, one a little behind, one far behind, one undefined, on the same hard and easy examples."""
    rng = np.random.default_rng(0)
    hardness = rng.normal(size=60)
    means = {"lime": 0.50, "ig": 0.50, "attention": 0.40, "random": 0.0}
    found = {name: mean + hardness + 0.05 * rng.normal(size=60) for name, mean in means.items()}
    return found | {"human": np.full(60, NAN)}


def test_leaders_are_the_best_and_those_that_cannot_be_told_from_it(values: dict[str, np.ndarray]) -> None:
    found = pairwise(values)
    assert found.leaders == {"lime", "ig"}
    assert found.best in found.leaders
    assert found.beats("attention") == ("random",)
    assert [name for name in found.names if "attention" in found.beats(name)] == ["lime", "ig"]
    assert not found.differ("lime", "ig")
    assert found.differ("ig", "random")


def test_where_lower_is_better_the_other_end_leads(values: dict[str, np.ndarray]) -> None:
    found = pairwise(values, higher_is_better=False)
    assert found.leaders == {"random"}
    assert found.beats("random") == ("lime", "ig", "attention")
    assert found.direction[found.names.index("random"), 0] == -1  # its values are smaller, better or not


def test_nobody_leads_where_neither_is_better(values: dict[str, np.ndarray]) -> None:
    found = pairwise(values, higher_is_better=None)
    assert (found.best, found.leaders, found.beats("lime")) == (None, frozenset(), ())
    assert found.differ("lime", "random")


def test_p_values_are_those_of_the_mean_differences_corrected_together(values: dict[str, np.ndarray]) -> None:
    found = pairwise(values)
    pairs = [(a, b) for place, a in enumerate(values) for b in list(values)[place + 1 :]]
    tests = mean_tests([values[a] - values[b] for a, b in pairs])
    for at, (a, b) in enumerate(pairs):
        i, j = found.names.index(a), found.names.index(b)
        assert [found.p[i, j], found.p[j, i], found.adjusted[i, j]] == pytest.approx(
            [tests.p[at], tests.p[at], tests.adjusted[at]], nan_ok=True
        )
        assert [found.difference[i, j], found.difference[j, i]] == pytest.approx(
            [tests.difference[at], -tests.difference[at]], nan_ok=True
        )


def test_metrics_and_further_differences_are_corrected_together() -> None:
    # Alone, the difference of 0.4 standard deviations on 60 texts would count; among 200 others it does not.
    rng = np.random.default_rng(0)
    shift = rng.normal(size=60)
    shift = 0.4 + (shift - shift.mean()) / shift.std(ddof=1)
    one = Compared({"a": shift, "b": np.zeros(60)})
    (alone,), _ = compare_all([one])
    other = Compared({"a": rng.normal(size=60), "b": np.zeros(60)}, higher_is_better=False)
    (first, second), tests = compare_all([one, other], list(rng.normal(size=(200, 60))))
    assert alone.beats("a") == ("b",)
    assert (first.beats("a"), second.higher_is_better) == ((), False)
    assert tests.tested == 202
    assert first.p[0, 1] == alone.p[0, 1]


def test_what_has_no_values_is_not_compared_and_does_not_lead(values: dict[str, np.ndarray]) -> None:
    found = pairwise(values)
    assert np.isnan(found.p[found.names.index("human")]).all()
    assert np.isnan(found.means[found.names.index("human")])
    assert not any("human" in found.beats(name) for name in found.names)


def test_pairs_use_the_examples_that_both_have() -> None:
    # They share six examples, the fewest that one test needs; a is larger on all. The mean of a alone is the smaller
    # one.
    a = [1.0] * 6 + [-50.0, NAN]
    b = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, NAN, 5.0]
    found = pairwise({"a": a, "b": b})
    assert found.difference[0, 1] == pytest.approx(0.35)
    assert found.direction.tolist() == [[0, 1], [-1, 0]]
    assert (found.best, found.leaders) == ("b", {"a", "b"})


def test_equal_values_and_a_single_explainer_lead_together() -> None:
    same = pairwise({"a": np.arange(6.0), "b": np.arange(6.0)})
    assert (same.p[0, 1], same.best, same.leaders) == (1.0, "a", {"a", "b"})
    alone = pairwise({"a": [1.0, NAN]})
    assert (alone.best, alone.leaders, alone.means) == ("a", {"a"}, (1.0,))


def test_differences_that_are_none_are_rarely_declared() -> None:
    rng = np.random.default_rng(0)
    declared = [
        (pairwise(dict(zip("abcdef", rng.normal(size=(6, 30)), strict=True))).direction != 0).any() for _ in range(200)
    ]
    assert np.mean(declared) <= 0.08  # at most 0.05, and twice its standard error


def test_errors_say_what_was_given(values: dict[str, np.ndarray]) -> None:
    with pytest.raises(InputError, match=r"same examples .* got \{'a': 1, 'b': 2\}"):
        pairwise({"a": [1.0], "b": [1.0, 2.0]})
    with pytest.raises(InputError, match="nothing to compare"):
        pairwise({})
    with pytest.raises(ParameterError, match="alpha must lie between 0 and 1, got 5"):
        pairwise(values, alpha=5)
    with pytest.raises(InputError, match=r"same examples, got \[1, 2\]"):
        compare_all([Compared({"a": [1.0], "b": [2.0]})], [[1.0, 2.0]])
    with pytest.raises(InputError, match="'nobody' was not compared"):
        pairwise(values).beats("nobody")
