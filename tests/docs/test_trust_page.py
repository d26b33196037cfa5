"""The page of trust is made from its records, and the records hold what the page claims."""

import json
from pathlib import Path

import pytest

from tests.docs.test_docs import script

REPO = Path(__file__).resolve().parents[2]
RECORDS = sorted((REPO / "docs" / "results" / "trust").glob("*.json"))


def test_the_page_is_up_to_date() -> None:
    written = (REPO / "docs" / "results" / "trust.md").read_text(encoding="utf-8")
    assert written == script("trust_page").page(), "run: python scripts/trust_page.py"


@pytest.mark.parametrize("path", RECORDS, ids=[path.stem for path in RECORDS])
def test_every_record_names_its_command(path: Path) -> None:
    record = json.loads(path.read_text(encoding="utf-8"))
    assert str(record["command"]).strip()


def test_the_counts_of_the_fuzz_record_add_up() -> None:
    record = json.loads((REPO / "docs" / "results" / "trust" / "fuzz.json").read_text(encoding="utf-8"))
    verdicts = ("returned", "refused", "escaped", "wrong", "hang", "crash")
    for counts in record["kinds"].values():
        assert sum(counts[verdict] for verdict in verdicts) == counts["cases"]
        assert sum(sum(group.values()) for group in counts["groups"].values()) == counts["cases"]
    failed = sum(counts[verdict] for counts in record["kinds"].values() for verdict in verdicts[2:])
    assert failed == sum(root["count"] for root in record["roots"])
