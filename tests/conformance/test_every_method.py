"""Every registered method passes every check that applies to it, on every kind of model."""

import pytest

from didact.attribution.base import ATTRIBUTIONS
from didact.testing.conformance import CASES, CHECKS, applicable, check

ON_PROMPTS = {"refuses_what_it_cannot", "finite_one_per_unit", "prediction_is_plain", "completeness"}
ON_PROMPTS |= {"model_untouched_after_failure"}
"""What depends on the reader; the rest of the checks says no more on a slower model."""
OF_THE_METHOD = {"json_round_trip", "target_by_name_and_index", "same_seed_same_scores", "another_seed_differs"}
"""What has nothing to do with the family of an encoder: checked on one of them."""

ROWS = [
    (method, case, name)
    for method in ATTRIBUTIONS.names()
    for case in CASES
    for name in applicable(ATTRIBUTIONS.card(method), case)
    if case != "prompt" or name in ON_PROMPTS
    if case not in ("distilbert", "roberta") or name not in OF_THE_METHOD
]


@pytest.mark.parametrize(("method", "case", "name"), ROWS)
def test_conforms(method: str, case: str, name: str) -> None:
    check(name, ATTRIBUTIONS.get(method)(), case)


def test_every_check_is_used() -> None:
    assert {name for _, _, name in ROWS} == set(CHECKS)
