"""Who differs from whom: planted differences, directions, and what cannot be told."""

import numpy as np
import pytest

from didact.errors import InputError, ParameterError
from didact.stats.compare import against, pairwise
from didact.stats.paired import holm, wilcoxon

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


def test_p_values_are_those_of_each_pair_corrected_together(values: dict[str, np.ndarray]) -> None:
    found = pairwise(values)
    pairs = [(a, b) for place, a in enumerate(values) for b in list(values)[place + 1 :]]
    tests = [wilcoxon(values[a], values[b]) for a, b in pairs]
    for (a, b), test, adjusted in zip(pairs, tests, holm([test.p for test in tests]), strict=True):
        i, j = found.names.index(a), found.names.index(b)
        assert [found.p[i, j], found.p[j, i], found.adjusted[i, j]] == pytest.approx(
            [test.p, test.p, adjusted], nan_ok=True
        )
        assert [found.effect[i, j], found.effect[j, i]] == pytest.approx([test.effect, -test.effect], nan_ok=True)


def test_what_has_no_values_is_not_compared_and_does_not_lead(values: dict[str, np.ndarray]) -> None:
    found = pairwise(values)
    assert np.isnan(found.p[found.names.index("human")]).all()
    assert np.isnan(found.means[found.names.index("human")])
    assert not any("human" in found.beats(name) for name in found.names)


def test_pairs_use_the_examples_that_both_have() -> None:
    # They share six examples, on all of which a is larger: p = 2 / 2^6. The mean of a alone is the smaller one.
    a = [1.0] * 6 + [-50.0, NAN]
    b = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, NAN, 5.0]
    found = pairwise({"a": a, "b": b})
    assert found.p[0, 1] == 2 / 64
    assert found.direction.tolist() == [[0, 1], [-1, 0]]
    assert (found.best, found.leaders) == ("b", {"a", "b"})


def test_equal_values_and_a_single_explainer_lead_together() -> None:
    same = pairwise({"a": [1.0, 2.0], "b": [1.0, 2.0]})
    assert (same.p[0, 1], same.best, same.leaders) == (1.0, "a", {"a", "b"})
    alone = pairwise({"a": [1.0, NAN]})
    assert (alone.best, alone.leaders, alone.means) == ("a", {"a"}, (1.0,))


def test_differences_that_are_none_are_rarely_declared() -> None:
    rng = np.random.default_rng(0)
    declared = [
        (pairwise(dict(zip("abcdef", rng.normal(size=(6, 30)), strict=True))).direction != 0).any() for _ in range(200)
    ]
    assert np.mean(declared) <= 0.08  # at most 0.05, and twice its standard error


def test_against_a_baseline_only_those_tests_are_corrected(values: dict[str, np.ndarray]) -> None:
    found = against(values, "random")
    assert list(found) == ["lime", "ig", "attention", "human"]
    assert [versus.significant for versus in found.values()] == [True, True, True, False]
    p = [wilcoxon(values[name], values["random"]).p for name in found]
    assert [versus.adjusted for versus in found.values()] == pytest.approx(holm(p).tolist(), nan_ok=True)
    assert found["lime"].test.difference == pytest.approx(0.5, abs=0.05)


def test_errors_say_what_was_given(values: dict[str, np.ndarray]) -> None:
    with pytest.raises(InputError, match=r"same examples .* got \{'a': 1, 'b': 2\}"):
        pairwise({"a": [1.0], "b": [1.0, 2.0]})
    with pytest.raises(InputError, match="nothing to compare"):
        pairwise({})
    with pytest.raises(ParameterError, match="alpha must lie between 0 and 1, got 5"):
        pairwise(values, alpha=5)
    with pytest.raises(InputError, match=r"reference 'nobody' has no values; there are lime"):
        against(values, "nobody")
    with pytest.raises(InputError, match="'nobody' was not compared"):
        pairwise(values).beats("nobody")
