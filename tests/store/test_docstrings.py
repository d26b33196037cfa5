"""The examples in the docstrings run."""

import doctest

from didact.store import records


def test_examples_run() -> None:
    found = doctest.testmod(records)
    assert found.attempted
    assert not found.failed
