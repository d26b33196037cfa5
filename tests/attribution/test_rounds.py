"""Rounds of evaluations, and the standard errors that explanations carry."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from didact.attribution._rounds import Job, growing, in_rounds
from didact.attribution.base import Outcome
from didact.attribution.kernel_shap import KernelShap
from didact.errors import FormatError, ParameterError
from didact.models.load import load_model
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.types import Example, Explanation, Floats, Keep, Target


class Countdown(Job):
    """Asks for the full text so many times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.seen: list[float] = []

    def wanted(self) -> Keep:
        return np.ones((min(1, self.times), 2), dtype=bool)

    def take(self, values: Floats) -> None:
        self.times -= 1
        self.seen += values.tolist()

    def outcome(self) -> Outcome:
        return Outcome(np.array(self.seen), None)


def test_unfinished_jobs_share_each_call() -> None:
    model = load_model(keyword_predict, labels=("negative", "positive"))
    calls = []
    score = model.score

    def counted(units, targets, keep, absence=None):  # type: ignore[no-untyped-def]
        calls.append([unit.example.text for unit in units])
        return score(units, targets, keep, absence)

    model.score = counted  # type: ignore[method-assign]
    texts = ["good film", "dull film", "warm film"]
    units = model.units([Example(text) for text in texts])
    jobs = [Countdown(1), Countdown(3), Countdown(2)]
    found = in_rounds(model, units, [Target(1, "positive", "probability")] * 3, jobs, None)
    assert calls == [texts, texts[1:], texts[1:2]]
    assert [len(one.scores) for one in found] == [1, 3, 2]


@pytest.mark.parametrize(("first", "last"), [(4, 4), (9, 4), (2, 100), (1, 7)])
def test_stages_grow_by_half_up_to_the_last(first: int, last: int) -> None:
    stages = growing(first, last)
    assert stages[0] == min(first, last)
    assert stages[-1] == last
    assert stages == sorted(set(stages))
    assert all(after <= before * 1.5 + 1 for before, after in pairwise(stages))


def test_errors_survive_json_and_are_checked() -> None:
    model = load_model(tiny_model("bert", ("negative", "positive")))
    (found,) = KernelShap(evaluations=60).explain(model, [" ".join(TEXTS)])
    assert len(found.errors) == len(found.scores)
    assert Explanation.from_json(found.to_json()) == found
    old = found.to_dict()
    del old["errors"]
    assert Explanation.from_dict(old).errors == ()
    with pytest.raises(FormatError, match="one per score"):
        dataclasses.replace(found, errors=found.errors[1:])
    with pytest.raises(FormatError, match="not negative"):
        dataclasses.replace(found, errors=(-1.0,) * len(found.scores))


def test_a_tolerance_below_zero_is_refused() -> None:
    with pytest.raises(ParameterError, match="tolerance of kernel_shap must be at least 0"):
        KernelShap(tolerance=-1.0)
