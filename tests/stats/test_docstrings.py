"""The examples in the docstrings run."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "agreement",
        "averages",
        "bootstrap",
        "clustered",
        "compare",
        "correlation",
        "means",
        "paired",
        "plackett_luce",
        "power",
        "racing",
    ],
)
def test_examples_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"didact.stats.{name}"))
    assert found.attempted
    assert not found.failed
