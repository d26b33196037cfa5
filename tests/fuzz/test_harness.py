"""The harness itself: a case is decided by its number, and each kind of failure is seen as what it is."""

import json
import random
import time
from pathlib import Path

import pytest

from didact.errors import DidactError, InputError
from fuzz.artefacts import ARTEFACTS, Artefact, artefact
from fuzz.cases import Attempt, Case, Wrong, judge
from fuzz.commands import judge_output
from fuzz.kinds import KINDS
from fuzz.mutations import mutated
from fuzz.report import read_results, record
from fuzz.workshop import Workshop


def verdict(call: object, limit: float = 20) -> tuple[str, str]:
    result = judge(Case("api", 1), lambda rng: Attempt("test", "call()", call), 0, limit)  # type: ignore[arg-type]
    return result.verdict, result.root


def refuse() -> None:
    raise InputError("not this text")


def escape() -> None:
    raise KeyError("x")


def lie() -> None:
    raise Wrong("not one score per unit: 3 for 2")


def test_every_verdict_is_seen() -> None:
    assert verdict(lambda: None) == ("returned", "")
    assert verdict(refuse) == ("refused", "")
    assert verdict(escape) == ("escaped", "KeyError in outside")
    assert verdict(lie) == ("wrong", "Wrong: not one score per unit")
    assert verdict(lambda: time.sleep(0.02), limit=0.01)[0] == "hang"


@pytest.mark.parametrize("kind", ["api", "commands", "recipes", "files"])
def test_a_case_is_decided_by_seed_kind_and_number(kind: str, tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)

    def made(number: int, seed: int) -> str:
        try:
            return KINDS[kind](Case(kind, number).rng(seed), workshop).shown
        except DidactError as refusal:  # some values are refused when the case is made
            return str(refusal)

    shown = [[made(number, seed) for number in range(8)] for seed in (1, 1, 2)]
    assert shown[0] == shown[1]
    assert shown[0] != shown[2]


def test_damage_always_changes_something() -> None:
    rng = random.Random(0)
    for data in (b"", b"a", b"\x00" * 64, json.dumps({"scores": [0.5] * 9}).encode()):
        assert all(mutated(rng, data) != data for _ in range(200))


def test_content_that_was_not_saved_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(folder: Path, number: int) -> None:
        (folder / "file.bin").write_bytes(b"%d" % number * 50)

    careless = Artefact(make, lambda folder: sum(path.stat().st_size for path in folder.glob("file.bin")))
    strict = Artefact(make, lambda folder: refuse())
    monkeypatch.setitem(ARTEFACTS, "careless", careless)
    workshop = Workshop(tmp_path)
    seen = {judge(Case("x", n), lambda rng: artefact("careless", rng, workshop), 0).verdict for n in range(40)}
    assert seen == {"returned", "wrong"}
    monkeypatch.setitem(ARTEFACTS, "careless", strict)
    assert judge(Case("x", 1), lambda rng: artefact("careless", rng, workshop), 0).verdict == "refused"


@pytest.mark.parametrize(
    ("code", "out", "error", "broken"),
    [
        (1, b"", b"didact: something failed", "exit 1"),
        (0, b"", b"Traceback (most recent call last):\n  ...\nKeyError: 'x'", "KeyError"),
        (0, b"\x1b[31mred", b"", "control character"),
        (2, b"", b"", "without a word"),
    ],
)
def test_command_lines_are_judged_by_what_they_print(code: int, out: bytes, error: bytes, broken: str) -> None:
    with pytest.raises(Wrong, match=broken):
        judge_output(["explain"], code, out, error)
    judge_output(["explain"], 0, b"fine", b"")
    judge_output(["explain"], 2, b"", b"didact: error: no such file")


def test_the_record_counts_and_can_be_resumed(tmp_path: Path) -> None:
    calls = [refuse, refuse, escape, refuse]
    results = [
        judge(Case("api", n), lambda rng, call=call: Attempt("f", "f()", call), 7) for n, call in enumerate(calls)
    ]
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(result.to_dict()) + "\n" for result in results) + '{"torn', encoding="utf-8")
    assert read_results(path) == results
    made = record(results, 7, 20.0, "python -m fuzz")
    counts = made["kinds"]["api"]  # type: ignore[index]
    assert (counts["cases"], counts["refused"], counts["escaped"]) == (4, 3, 1)
    assert made["roots"][0]["cases"] == ["api:2"]  # type: ignore[index]
