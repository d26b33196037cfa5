"""Reports on run folders with planted findings: what they say, in every form, and what they refuse."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from didact.checksums import sealed
from didact.errors import FormatError, InputError, ParameterError, UnknownNameError
from didact.experiments.grading.report import FILES, find_in, write_report
from didact.experiments.grading.report.sentences import caveats, headlines
from didact.experiments.grading.report.tables import beaten
from didact.experiments.report.formatting import listed, number
from didact.render.style import stylesheet
from didact.store import records
from tests.experiments.synthetic import (
    CARDS,
    METHODS,
    explanation,
    manifest,
    metric_card,
    record,
    typical_records,
    typical_run,
    write_run,
)

VOID = {"meta", "input", "br", "wbr", "hr"}


class Reader(HTMLParser):
    """All elements, all text, and whether every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = typical_run(tmp_path_factory.mktemp("runs") / "typical")
    write_report(folder)
    return folder


def read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")


def test_every_file_is_written_and_the_page_comes_last(tmp_path: Path) -> None:
    folder = typical_run(tmp_path / "run", examples=6)
    written = write_report(folder)
    assert [path.name for path in written] == ["report.md", "report.tex", "report.csv", "summary.json", "report.html"]
    assert all(path.stat().st_size > 200 for path in written)
    assert [path.name for path in write_report(folder, ["html", "csv"])] == ["report.csv", "report.html"]


def test_the_answer_comes_first(run: Path) -> None:
    told = headlines(find_in(run))
    # lime and integrated_gradients lead alike; steadiness is won by trivial, so three of four metrics count.
    assert told[0].startswith("Trust lime and integrated_gradients first")
    assert "on 3 of 4 quality metrics (1 of them does not count here" in told[0]
    assert re.fullmatch(
        r"Faithfulness: no significant difference on comprehensiveness between lime and integrated_gradients; the "
        r"first has 0\.5\d+ \[0\.\d+, 0\.\d+\] \(n = 40, random 0\.\d+\)\.",
        told[1],
    )
    assert told[2] == (
        "Cheapest of the best group on comprehensiveness: integrated_gradients, 100 ms per text (lime: 800 ms)."
    )
    assert told[3].startswith("Warning: do not read steadiness as quality here")
    for name in ("report.md", "report.html"):
        assert "Cheapest of the best group" in read(run, name)


def test_caveats_tell_what_the_numbers_rest_on(run: Path) -> None:
    told = " ".join(caveats(find_in(run)))
    assert "40 texts; values of 2 seeds are averaged per text first" in told
    assert "sufficiency is undefined for up to 1 of 40 texts (2.5 %" in told
    assert re.search(r"comprehensiveness about \d+ \(lime against integrated_gradients\)", told)
    assert "cut off" not in told
    assert "are few" not in told


def test_cut_texts_and_few_texts_are_told(tmp_path: Path) -> None:
    found = [explanation(number, "lime", cut=0.5 if number < 2 else 0.0) for number in range(8)]
    rows = [record("lime", "comprehensiveness", f"e{number:03d}", number / 10) for number in range(8)]
    told = " ".join(caveats(find_in(write_run(tmp_path / "run", rows, manifest(metrics=CARDS), found))))
    assert "25.0 % of the texts were cut off" in told
    assert "8 texts are few" in told


def test_the_panel_names_what_is_gamed_and_what_fails_its_nulls(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(0), []
    worth = {"lime": 0.5, "gradient_x_input": 0.3, "random": 0.1, "trivial": 0.1}
    for number_ in range(30):
        for method, value in worth.items():
            at = {"explainer": method, "metric": "comprehensiveness", "example": f"e{number_}"}
            noise = rng.normal(size=3) * 0.02
            rows.append(record(value=value + noise[0], **at))
            # gradient_x_input does as well with its scores shuffled.
            rows.append(record(value=(0.1 if method == "lime" else value) + noise[1], null="shuffle", **at))
            rows.append(record(value=value + noise[2], null="labels", **at))  # older runs have these; they say nothing
    findings = find_in(write_run(tmp_path / "run", rows, manifest(tuple(worth), CARDS)))
    (verdict,) = findings.verdicts
    assert not verdict.gamed
    assert verdict.checks["lime"]["shuffle"].beats
    assert verdict.failed("shuffle") == ("gradient_x_input",)
    assert set(verdict.checks["lime"]) == {"shuffle"}
    assert verdict.sentences == (
        "On comprehensiveness, gradient_x_input is not significantly better than its own scores shuffled over the "
        "words.",
    )
    assert "shuffled over the words: gradient_x_input (1 metric)" in " ".join(headlines(findings))


def test_a_metric_that_trivial_wins_can_be_gamed(run: Path) -> None:
    verdicts = {verdict.metric.label: verdict for verdict in find_in(run).verdicts}
    assert "trivial" in verdicts["steadiness"].gamed_by
    assert "this metric can be gamed here" in verdicts["steadiness"].sentences[0]
    assert verdicts["comprehensiveness"].gamed_by == ()
    assert verdicts["comprehensiveness"].checks["lime"]["shuffle"].beats
    assert "top_k_agreement" not in verdicts
    assert "this metric can be gamed here" in read(run, "report.html")


def test_nothing_is_trusted_where_random_does_as_well(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        record(method, "comprehensiveness", f"e{at}", float(rng.normal()))
        for method in ("lime", "random")
        for at in range(20)
    ]
    told = headlines(find_in(write_run(tmp_path / "run", rows, manifest(("lime", "random"), CARDS))))
    assert told[0].startswith("On no metric here are real explanations shown to be better than random or trivial ones")
    assert not any("leads" in line for line in told)


def test_csv_and_json_hold_the_same_numbers(run: Path) -> None:
    table = list(csv.DictReader(io.StringIO(read(run, "report.csv"))))
    summary = json.loads(read(run, "summary.json"))
    assert len(table) == len(summary["rows"]) == len(METHODS) * len(CARDS)
    for line, row in zip(table, summary["rows"], strict=True):
        assert (line["explainer"], line["metric"]) == (row["explainer"], row["metric"])
        assert float(line["mean"]) == row["mean"]
        assert float(line["low"]) <= float(line["mean"]) <= float(line["high"])
    first = table[0]
    assert (first["explainer"], first["metric"], first["best"], first["n"]) == (
        "lime",
        "comprehensiveness",
        "true",
        "40",
    )
    assert float(first["p_vs_random"]) < 0.001
    assert float(first["p_vs_shuffle"]) < 0.001
    assert first["better_than"] == "gradient_x_input random trivial"
    (random,) = (row for row in table if (row["explainer"], row["metric"]) == ("random", "comprehensiveness"))
    assert random["p_vs_random"] == ""
    assert random["mean"] == first["random"]
    assert summary["metrics"][0]["not_distinguishable_from_best"] == ["integrated_gradients"]
    assert summary["cost"]["lime"]["seconds"] == pytest.approx(0.8)


def test_markdown_marks_the_best_and_the_tied(run: Path) -> None:
    shown = read(run, "report.md")
    assert re.search(r"^\| lime \| \*\*0\.5\d+\*\* ", shown, re.MULTILINE)
    assert re.search(r"^\| integrated\\_gradients \| 0\.5\d+ ≈ ", shown, re.MULTILINE)
    assert "| explainer | comprehensiveness ↑ | sufficiency ↓ | deletion\\_area ↓ |" in shown
    assert re.search(r"^\| \*random\* \|", shown, re.MULTILINE)
    widths = {
        line.count("|") - line.count("\\|")
        for line in re.findall(r"^\|.*(?:\n\|.*)*", shown, re.MULTILINE)[0].split("\n")
    }
    assert len(widths) == 1


def test_page_is_whole_and_refers_to_nothing_outside(run: Path) -> None:
    shown = read(run, "report.html")
    page = Reader(shown)
    assert not re.search(r"https?:|//\w|\bsrc\s*=|@import|url\(|<link|<iframe|<img", shown)
    links = [str(attrs["href"])[1:] for tag, attrs in page.elements if tag == "a"]
    ids = [attrs["id"] for _, attrs in page.elements if attrs.get("id")]
    assert set(links) <= set(ids)
    assert len(ids) == len(set(ids))
    assert {"summary", "differences", "cost", "curves", "gaming", "agreement", "rankings", "examples"} <= set(links)
    assert shown.count(stylesheet()) == 1
    assert len(shown) < 400_000


def test_page_is_accessible(run: Path) -> None:
    shown = read(run, "report.html")
    page = Reader(shown)
    assert '<html lang="en">' in shown
    assert "prefers-color-scheme: dark" in shown
    assert all("scope" in attrs for tag, attrs in page.elements if tag == "th")
    drawn = [attrs for tag, attrs in page.elements if tag == "svg"]
    charts = [attrs for attrs in drawn if attrs.get("aria-hidden") != "true"]  # bars beside numbers say nothing more
    assert len(charts) == 4  # cost, deletion, agreement, rankings
    assert all(attrs["role"] == "img" and attrs["aria-labelledby"] for attrs in charts)
    assert all(attrs.get("aria-label") for _, attrs in page.elements if attrs.get("role") == "region")


def test_examples_are_chosen_by_the_stated_rule(run: Path) -> None:
    most, least, wrong = find_in(run).picks
    # Agreement grows with the number of the example; every fourth prediction is wrong. The least agreed of these is
    # e000, which is shown already, so the next one is.
    assert most.why.startswith("most agreement")
    assert most.explanations[0].example.id == "e039"
    assert least.why.startswith("least agreement")
    assert least.explanations[0].example.id == "e000"
    assert wrong.why.startswith("a wrong prediction")
    assert wrong.explanations[0].example.id == "e004"
    assert [each.method for each in most.explanations] == list(METHODS)
    assert len(find_in(run, examples=7).picks) == 7
    assert find_in(run, examples=0).picks == ()
    assert "A wrong prediction, least agreement" in Reader(read(run, "report.html")).text


def test_examples_without_ids_are_found_by_their_texts(tmp_path: Path) -> None:
    found = [explanation(number_, method, id=None) for method in ("lime", "random") for number_ in range(6)]
    rows = [record(each.method, "comprehensiveness", each.example.fingerprint, i / 10) for i, each in enumerate(found)]
    findings = find_in(write_run(tmp_path / "run", rows, manifest(("lime", "random"), CARDS), found))
    best = findings.picks[0]
    assert best.why == "best explained (mean comprehensiveness) of all texts"
    assert best.explanations[0].example.text == found[5].example.text


NASTY = "</script><script>alert('x')</script> | _a_ & \\b $1 #{2} %"


def nasty_run(folder: Path) -> Path:
    cards = [metric_card(NASTY), metric_card("plain_metric", NASTY)]
    told = manifest((NASTY, "lime", "random"), cards, name=NASTY, command=NASTY, versions={NASTY: NASTY})
    told["model"]["name"] = told["data"]["name"] = NASTY
    found = [explanation(n, m, text=f"good {NASTY} end") for m in (NASTY, "lime", "random") for n in range(3)]
    rows = [
        record(method, metric, f"e{at:03d}", at / 10 + len(method) / 100)
        for method in (NASTY, "lime", "random")
        for metric in (NASTY, "plain_metric")
        for at in range(3)
    ]
    return write_run(folder, rows, told, found)


def test_nothing_a_user_wrote_acts(tmp_path: Path) -> None:
    folder = nasty_run(tmp_path / "run")
    write_report(folder)
    page = Reader(read(folder, "report.html"))
    scripts = [attrs for tag, attrs in page.elements if tag == "script"]
    assert scripts == [{}]
    assert "alert('x')" in page.text
    markdown = read(folder, "report.md")
    assert "<script" not in markdown.replace("\\<script", "")
    assert csv.DictReader(io.StringIO(read(folder, "report.csv"))).fieldnames
    assert NASTY in {row["explainer"] for row in csv.DictReader(io.StringIO(read(folder, "report.csv")))}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles(tmp_path: Path) -> None:
    folder = nasty_run(tmp_path / "run")
    write_report(folder, ["tex"])
    document = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\\input{report.tex}\\end{document}\n"
    (folder / "whole.tex").write_text(document, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "whole.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_latex_marks_what_the_table_marks(run: Path) -> None:
    shown = read(run, "report.tex")
    assert re.search(r"^lime & \\textbf\{0\.5\d+\} ", shown, re.MULTILINE)
    assert re.search(r"^integrated\\_\\allowbreak\{\}gradients & 0\.5\d+\$\^\{\\approx\}\$", shown, re.MULTILINE)
    assert shown.count("\\toprule") == shown.count("\\bottomrule") == 3  # faithfulness, stability, agreement


def test_a_run_of_one_explainer_and_one_text_is_reported(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [record("lime", "comprehensiveness", "e0", 0.5)], manifest(("lime",), CARDS))
    write_report(folder)
    assert "Not enough texts for a verdict" in read(folder, "report.md")
    assert "Quality against cost" not in read(folder, "report.html")


def test_only_undefined_values_are_reported_as_such(tmp_path: Path) -> None:
    rows = [record("lime", "comprehensiveness", f"e{at}", math.nan) for at in range(3)]
    folder = write_run(tmp_path / "run", rows, manifest(("lime",), CARDS))
    write_report(folder)
    assert "undefined for up to 3 of 3 texts" in read(folder, "report.md")
    (row,) = json.loads(read(folder, "summary.json"))["rows"]
    assert (row["mean"], row["n"], row["missing"]) == (None, 0, 3)


def test_infinite_values_do_not_break_the_page(tmp_path: Path) -> None:
    rows = [record("lime", "m", f"e{at}", math.inf) for at in range(4)]
    rows += [record("random", "m", f"e{at}", at) for at in range(4)]
    folder = write_run(tmp_path / "run", rows, manifest(("lime", "random"), [metric_card("m")]))
    write_report(folder)
    assert "∞" in read(folder, "report.html")
    json.loads(read(folder, "summary.json"))


def test_timings_join_the_table(tmp_path: Path) -> None:
    rows = [record("lime", "comprehensiveness", f"e{at}", 0.5 + at / 100) for at in range(4)]
    card = metric_card("seconds", "efficiency", False, timed=True)
    folder = write_run(tmp_path / "run", rows, manifest(("lime",), [*CARDS, card]))
    timings = [record("lime", "seconds", f"e{at}", 0.25) for at in range(4)]
    records.write(folder / "timings.parquet", records.to_table(timings))
    findings = find_in(folder)
    cells = {column.metric.label: column.cells["lime"].mean for column in findings.summary.columns}
    assert cells["seconds"] == 0.25
    write_report(folder)
    assert "| lime | 0.250 |" in read(folder, "report.md")
    assert [verdict.metric.label for verdict in findings.verdicts] == ["comprehensiveness"]


def test_the_chart_takes_the_asked_metric(run: Path) -> None:
    assert find_in(run).quality is not None
    asked = find_in(run, metric="deletion_area")
    assert asked.quality is not None
    assert asked.quality.metric.label == "deletion_area"
    with pytest.raises(UnknownNameError, match=r"unknown metric 'deletion' .did you mean deletion_area"):
        find_in(run, metric="deletion")
    with pytest.raises(UnknownNameError, match="top_k_agreement"):
        find_in(run, metric="top_k_agreement")  # it has no direction


def test_folders_that_are_no_finished_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        write_report(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"is no run: it has no manifest.json and no records.parquet"):
        write_report(tmp_path)
    (tmp_path / "recipe.toml").write_text("", encoding="utf-8")
    part = tmp_path / "parts" / "3f" / "3fa0c1d2.parquet"
    part.parent.mkdir(parents=True)
    part.touch()
    with pytest.raises(InputError, match=r"unfinished run: 1 part is there.*run `didact run .*recipe\.toml` again"):
        write_report(tmp_path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    folder = typical_run(tmp_path / "run", examples=3)
    with pytest.raises(ParameterError, match="cannot be written as 'pdf'"):
        write_report(folder, ["pdf"])
    (folder / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(FormatError, match=r"manifest.json is not JSON"):
        write_report(folder)
    (folder / "manifest.json").write_text("{}", encoding="utf-8")
    assert write_report(folder)  # labels serve as names where the manifest tells nothing
    (folder / "records.parquet").write_bytes(b"PAR1")
    with pytest.raises(FormatError, match=r"records.parquet"):
        write_report(folder)


def test_a_run_without_records_has_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no records"):
        write_report(write_run(tmp_path / "run", [], manifest(metrics=CARDS)))


def test_the_same_run_gives_the_same_report(tmp_path: Path) -> None:
    folder = typical_run(tmp_path / "run", examples=6)
    files = [name for name, _ in FILES.values()]
    write_report(folder)
    first = [read(folder, name) for name in files]
    shuffled = typical_records(6)[::-1]
    records.write(folder / "records.parquet", records.in_order(records.to_table(shuffled)))
    write_report(folder)
    assert [read(folder, name) for name in files] == first


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.12345, "0.123"), (12.345, "12.3"), (12345.6, "12,346"), (0.00123, "0.0012"), (0.0456, "0.046"),
     (1e-6, "1.0e-06"), (0.0, "0.000"), (-0.5, "-0.500"), (math.nan, "–"), (math.inf, "∞")],
)  # fmt: skip
def test_numbers_have_about_three_figures(value: float, shown: str) -> None:
    assert number(value) == shown


def test_a_column_has_as_many_decimals_everywhere() -> None:
    assert [number(value, 0.5) for value in (0.5, 0.00001, 0.01)] == ["0.500", "0.000", "0.010"]
    assert [number(value, 1200) for value in (1200, 1)] == ["1,200", "1"]


def test_lists_are_short() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefghij"), most=3) == "a, b, c and 7 more"
    assert beaten([], ["a"]) == "none"
    assert beaten(["a", "b"], ["a", "b"]) == "all others"
    assert beaten(["a", "b", "c"], ["a", "b", "c", "d"]) == "all but d"
    assert beaten(["a"], ["a", "b", "c"]) == "a"


def test_a_manifest_of_another_shape_is_named(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    manifest = json.loads(read(folder, "manifest.json"))
    (folder / "manifest.json").write_text(json.dumps(sealed(manifest | {"metrics": [1]})), encoding="utf-8")
    with pytest.raises(FormatError, match=r"manifest\.json: metrics must be an object with named entries"):
        find_in(folder)
