"""A minute of the fuzz harness: a fixed number of cases of every kind with a fixed seed, none of which may fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.cases import Case, judge
from fuzz.kinds import KINDS, MUTATED
from fuzz.workshop import Workshop

SEED = 17
LIMIT = 120.0
"""Seconds of a case: machines that test are slow and busy; the record in docs/results/trust is held to 20."""

CASES = [
    *(("api", range(start, start + 30)) for start in range(0, 150, 30)),
    *(("commands", range(start, start + 12)) for start in range(0, 36, 12)),
    *(("recipes", range(start, start + 20)) for start in range(0, 40, 20)),
    ("files", range(80)),
    *((kind, range(6)) for kind in MUTATED),
]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    made = Workshop(tmp_path_factory.mktemp("fuzz"), LIMIT)
    yield made
    made.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "numbers"), CASES, ids=[f"{kind}-{numbers.start}" for kind, numbers in CASES])
def test_no_case_fails(kind: str, numbers: range, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = Path(__file__).resolve().parents[2]
    monkeypatch.setenv("PYTHONPATH", str(repo / "src"))  # for cases that start a process elsewhere
    results = [judge(Case(kind, n), lambda rng: KINDS[kind](rng, workshop), SEED, LIMIT) for n in numbers]
    failed = [
        f"{kind}:{one.number} {one.verdict} {one.root}: {one.message}\n  {one.shown}"
        for one in results
        if not one.passed
    ]
    assert not failed, "python -m fuzz --seed 17 --only CASE makes one again:\n" + "\n".join(failed)
