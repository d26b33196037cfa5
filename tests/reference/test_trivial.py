"""Trivial against its definition, written out."""

import numpy as np
import pytest

from didact.attribution.trivial import Trivial
from didact.errors import ParameterError
from didact.models.load import load_model
from didact.protocols import Model

TWENTY = " ".join(f"w{i}" for i in range(20))


def black_box(labels: int = 2) -> Model:
    return load_model(
        lambda texts: np.full((len(texts), labels), 1 / labels), labels=[f"label {i}" for i in range(labels)]
    )


@pytest.mark.parametrize(("target", "first"), [(1, 0), (0, 4)])  # positive: the first 20 %, negative: the next 20 %
def test_trivial_is_the_papers_first_and_next_k_percent(target: int, first: int) -> None:
    (found,) = Trivial(percent=20).explain(black_box(), [TWENTY], [target])
    assert np.flatnonzero(found.array).tolist() == [first, first + 1, first + 2, first + 3]
    assert set(found.scores) == {0.0, 1.0}
    assert not found.signed


def test_trivial_tells_many_classes_apart_as_long_as_they_fit() -> None:
    model = black_box(labels=5)
    rows = [Trivial(percent=10).explain(model, [TWENTY], [label])[0].scores for label in range(5)]
    assert len(set(rows)) == 5
    assert np.array(rows).sum(axis=0).tolist() == [1.0] * 10 + [0.0] * 10
    (short,) = Trivial().explain(model, ["one two"], [0])
    assert sum(short.scores) == 1


def test_trivial_does_not_read_the_text() -> None:
    other = TWENTY.replace("w", "v")
    scores = [Trivial().explain(black_box(), [text])[0].scores for text in (TWENTY, other)]
    assert scores[0] == scores[1]
    with pytest.raises(ParameterError, match="percent of trivial must be at most 100"):
        Trivial(percent=200)
