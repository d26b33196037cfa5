"""What README and docs claim is what the records say: every figure, every table, and no number without a claim."""

import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks import common, evaluation, memory, metric_quality, planted, shapley
from didact.experiments.distillation.summary import gather, versus
from didact.experiments.report import reliability
from tests.docs.test_docs import REPO, script

RESULTS = REPO / "docs" / "results"
BOOK = tomllib.loads((REPO / "docs" / "claims.toml").read_text(encoding="utf-8"))
CLAIMS: list[dict[str, Any]] = BOOK["claim"]
NAMED = ("metric", "reference", "n", "left_out", "chance")
NUMBER = re.compile(r"(?<![\w./-])[+−-]?\d[\d,]*(?:\.\d+)?")
PAGES = sorted({*BOOK["plain"], *(claim["page"] for claim in CLAIMS)})


@cache
def results() -> ModuleType:
    """Loaded once: it keeps the records that it has read."""
    return script("results")


@cache
def page(name: str) -> str:
    return " ".join((REPO / name).read_text(encoding="utf-8").split())


def number(printed: str) -> tuple[float, int]:
    """A printed number and how many decimals it has."""
    (found,) = NUMBER.findall(printed)
    plain = found.replace(",", "").replace("−", "-")
    return float(plain), len(plain.partition(".")[2])


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim['page']}: {claim['text'][:40]}")
def test_a_claim_is_printed_and_is_what_the_records_say(claim: Mapping[str, Any]) -> None:
    text = " ".join(claim["text"].split())
    assert text in page(claim["page"])
    for figure in claim["figures"]:
        assert figure["is"] in text
        printed, decimals = number(figure["is"])
        assert abs(results().figure(figure) - printed) <= 0.5 * 10**-decimals + 1e-9, f"{figure['is']} of {text}"


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim['page']}: {claim['text'][:40]}")
def test_a_claim_names_what_it_rests_on(claim: Mapping[str, Any]) -> None:
    """Each phrase stands on the claim's page, or on the page that it links to."""
    pages = [page(claim["page"]), *([page(claim["details"])] if "details" in claim else [])]
    for name in NAMED:
        assert any(" ".join(claim[name].split()) in text for text in pages), f"{name}: {claim[name]}"


@pytest.mark.parametrize("name", PAGES)
def test_no_number_is_without_a_claim(name: str) -> None:
    """What is left of a page without code, tables made from records, claims and plain numbers has no digits."""
    text = (REPO / name).read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|<!-- table .*?<!-- end -->|`[^`\n]*`|\]\([^)]*\)", " ", text, flags=re.DOTALL)
    text = " ".join(text.split())
    for claim in CLAIMS:
        if claim["page"] == name:
            text = text.replace(_bare(claim["text"]), " ")
    for phrase in BOOK["plain"].get(name, ()):
        assert phrase in text, f"{phrase!r} is not on the page any more"
        text = text.replace(phrase, " ")
    assert not NUMBER.findall(text), f"claim these in docs/claims.toml, or leave them out: {NUMBER.findall(text)}"


def _bare(text: str) -> str:
    """A claim's text as it is after code and links are taken out of its page."""
    return " ".join(re.sub(r"`[^`\n]*`|\]\([^)]*\)", " ", text).split())


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim['page']}: {claim['text'][:40]}")
def test_every_number_of_a_claim_is_a_figure_or_named(claim: Mapping[str, Any]) -> None:
    known = " ".join([*(figure["is"] for figure in claim["figures"]), *(claim[name] for name in NAMED)])
    allowed = {*NUMBER.findall(known), *claim.get("settings", ())}
    assert set(NUMBER.findall(_bare(claim["text"]))) <= allowed


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.md")), ids=lambda path: path.name)
def test_tables_are_those_of_the_records(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.name not in ("memory.md", "metric_quality.md", "planted.md", "shapley.md", "speed.md", "trust.md"):
        assert text == results().written(text), "run: python scripts/results.py"
        by_hand = re.sub(r"<!-- table .*?<!-- end -->", "", text, flags=re.DOTALL)
        assert not re.search(r"^\|", by_hand, flags=re.MULTILINE), "a table that no record stands behind"


def test_pages_of_benchmarks_are_those_of_their_records() -> None:
    planted_record, shapley_record, memory_record, speed = (
        json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in ("planted", "shapley", "memory", "speed")
    )
    made = planted.table(planted_record["rows"], planted_record["texts"], planted_record["seed"])
    assert (RESULTS / "planted.md").read_text("utf-8") == made
    graded = {kind: list(rows.values()) for kind, rows in reliability.record().items()}
    command = json.loads(reliability.RECORD.read_text("utf-8"))["command"]
    assert (RESULTS / "metric_quality.md").read_text("utf-8") == metric_quality.page(graded, command)
    points = [shapley.Point(**point) for point in shapley_record["points"]]
    assert (RESULTS / "shapley.md").read_text("utf-8") == shapley._page(
        points, shapley_record["needed"], shapley_record
    )
    assert (RESULTS / "speed.md").read_text("utf-8") == common._page(speed)
    for name, row in memory_record["methods"].items():
        assert memory._row(name, memory._row_of(**row)) in (RESULTS / "memory.md").read_text("utf-8")


@pytest.mark.parametrize(("study", "metric"), [("sst2", "iou_semantic_top"), ("ag_news", "log_odds_positive")])
def test_the_summary_of_a_study_is_that_of_its_records(study: str, metric: str) -> None:
    """The large tables are made from the summary; one metric of each study is computed again from every record."""
    folder, columns = RESULTS / "l2e" / study, ["metric", "explainer", "example", "value"]
    again = versus(
        gather(pq.read_table(folder / "records.parquet", columns=columns, filters=[("metric", "==", metric)]))
    )
    stored = json.loads((folder / "summary.json").read_text("utf-8"))["versus"]
    kept = [row for row in stored if row["metric"] == metric]
    assert again
    for ours, theirs in zip(again, kept, strict=True):
        assert (ours.learned, ours.reference, ours.n) == (theirs["learned"], theirs["reference"], theirs["n"])
        assert (ours.own, ours.theirs, ours.ratio) == pytest.approx(
            tuple(theirs[key] for key in ("own", "theirs", "ratio"))
        )


def test_the_page_of_evaluate_is_that_of_its_record() -> None:
    record = json.loads((RESULTS / "evaluation.json").read_text("utf-8"))
    assert (RESULTS / "evaluation.md").read_text("utf-8") == evaluation.page(record)
