"""Every registered method passes every check that applies to it, on every kind of model."""

import pytest

from didact.attribution.base import ATTRIBUTIONS
from didact.testing.conformance import CASES, CHECKS, applicable, check

ROWS = [
    (method, case, name)
    for method in ATTRIBUTIONS.names()
    for case in CASES
    for name in applicable(ATTRIBUTIONS.card(method), case)
]


@pytest.mark.parametrize(("method", "case", "name"), ROWS)
def test_conforms(method: str, case: str, name: str) -> None:
    check(name, ATTRIBUTIONS.get(method)(), case)


def test_every_check_is_used() -> None:
    assert {name for _, _, name in ROWS} == set(CHECKS)
