"""The kit as the report of any kind of recipe uses it: one table in every format, one page."""

import csv
import io
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from didact.errors import ParameterError
from didact.experiments.report import charts
from didact.experiments.report.files import json_text, write_files
from didact.experiments.report.page import Page, Section, bullets, facts_list, folded, paragraph, scrolling
from didact.experiments.report.table import (
    ReportTable,
    TableCell,
    TableColumn,
    TableRow,
    as_csv,
    as_html,
    as_latex,
    as_markdown,
    as_terminal,
)

NASTY = "<script>|_*"
TABLE = ReportTable(
    [
        TableColumn("baker", align="l"),
        TableColumn("rise_height", "↑", group="bread"),
        TableColumn("remark", align="l", group="words", title="what & why"),
    ],
    [
        TableRow(["oven", TableCell("-1.5", "[-2.0, -1.0]", mark="≈", value=-1.5), "slow"]),
        TableRow([NASTY, TableCell("2.5", "[2.0, 3.0]", best=True, value=2.5), None]),
        TableRow(["none", TableCell("0.0", value=0.0), TableCell("flat", badge="bad")], "control"),
        TableRow(["n", TableCell("12", "(up to 1 undefined)"), ""], "foot"),
    ],
    caption="Bakers & breads",
    marks={"≈": "not significantly different from the best"},
    notes=["Means over 12 loaves."],
    sortable=True,
)


class Elements(HTMLParser):
    """Tags with their attributes, and all text; fails where an element is left open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data


def test_markdown_has_a_line_per_row_and_escapes_what_would_act() -> None:
    assert as_markdown(TABLE).splitlines() == [
        "| baker | rise\\_height ↑ | remark |",
        "|---|---:|---|",
        "| oven | -1.5 ≈ \\[-2.0, -1.0\\] | slow |",
        "| \\<script\\>\\|\\_\\* | **2.5** \\[2.0, 3.0\\] |  |",
        "| *none* | 0.0 | flat |",
        "| *n* | 12 (up to 1 undefined) |  |",
        "",
        "* Means over 12 loaves.",
    ]


def test_html_has_groups_bodies_values_and_titles() -> None:
    html = as_html(TABLE)
    page = Elements(html)
    assert [tag for tag, _ in page.tags if tag in ("thead", "tbody", "tfoot")] == ["thead", "tbody", "tbody", "tfoot"]
    assert [attrs["colspan"] for _, attrs in page.tags if "colspan" in attrs] == ["1", "1"]
    assert [attrs["data-v"] for _, attrs in page.tags if "data-v" in attrs] == ["-1.5", "2.5", "0"]
    assert "−1.5" in page.text  # a real minus sign
    assert '<b title="not significantly different from the best">≈</b>' in html
    assert '<span class="ci">−2.0, −1.0</span>' in html
    assert '<span class="pill bad">flat</span>' in html
    assert "<script" not in html
    assert all("scope" in attrs for tag, attrs in page.tags if tag == "th")


def test_latex_has_rules_between_kinds_of_rows() -> None:
    written = as_latex(TABLE)
    assert "\\caption{Bakers \\& breads}" in written
    assert "\\begin{tabular}{@{}lcl@{}}" in written
    assert "oven & $-$1.5$^{\\approx}$ {\\scriptsize[$-$2.0, $-$1.0]} & slow \\\\" in written
    assert "\\textbf{2.5}" in written
    assert "& -- \\\\" in written
    assert written.count("\\midrule") == 3
    assert "\\caption{Own}" in as_latex(TABLE, "Own")


def test_csv_has_values_in_place_of_texts() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(TABLE))))
    assert [row["rise_height"] for row in rows] == ["-1.5", "2.5", "0.0", "12"]
    assert rows[1] == {"baker": NASTY, "rise_height": "2.5", "remark": ""}


def test_the_terminal_marks_the_best_and_the_tied() -> None:
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(as_terminal(TABLE))
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines == [
        "baker rise_height ↑ remark",
        "oven -1.5 ≈ [-2.0, -1.0] slow",
        f"{NASTY} 2.5 * [2.0, 3.0] –",
        "none 0.0 flat",
        "n 12 (up to 1 undefined)",
    ]


def test_a_page_of_any_kind_is_whole() -> None:
    bar = charts.forest({"breads": [charts.Bar("oven", 1.0, 0.5, 1.5)]}, charts.Caption("c", "Rise", "It rises."))
    plain = ReportTable.of(("what", "value"), [["flour", "1"]], "lr")
    sections = [
        Section("numbers", "Numbers & more", paragraph(NASTY) + scrolling(TABLE, "Bakers")),
        Section("chart", "Chart", bar),
        Section("nothing", "Nothing", bullets([])),
        Section(
            "made", "How it was made", facts_list([("Command", "bake"), ("Seeds", "")]) + folded("x", as_html(plain))
        ),
    ]
    html = Page("Bread", "which rises", "Two ovens.", "Which rises?", ["The oven.", "Warning: hot."], sections).html()
    page = Elements(html)
    assert "<title>Bread: which rises</title>" in html
    assert [attrs["href"] for tag, attrs in page.tags if tag == "a"] == ["#numbers", "#chart", "#made"]
    assert '<li class="warning">Warning: hot.</li>' in html
    assert "Seeds" not in page.text
    assert not re.search(r"https?:|\bsrc\s*=|@import|url\(|<link|<iframe|<img", html)
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 1  # for the table that can be sorted
    without = Page("Bread", "which rises", "", "Which?", [], [Section("made", "Made", as_html(plain))]).html()
    assert "<script" not in without


def test_files_are_written_in_the_chosen_formats(tmp_path: Path) -> None:
    files = {"md": ("report.md", as_markdown), "csv": ("report.csv", as_csv), "html": ("report.html", as_html)}
    written = write_files(TABLE, tmp_path, files, ["html", "md"])
    assert [path.name for path in written] == ["report.md", "report.html"]
    assert written[0].read_text(encoding="utf-8") == as_markdown(TABLE)
    with pytest.raises(ParameterError, match="cannot be written as 'pdf'; allowed are md, csv, html"):
        write_files(TABLE, tmp_path, files, ["pdf"])


def test_json_has_null_for_what_is_no_number() -> None:
    assert json.loads(json_text({"a": math.nan, "b": (1.0, math.inf), "c": {"d": "x"}})) == {
        "a": None,
        "b": [1.0, None],
        "c": {"d": "x"},
    }


@pytest.mark.parametrize("start", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=cmd|' /C calc'!A0"])
def test_no_cell_of_a_csv_is_a_formula(start: str) -> None:
    table = ReportTable.of(("name", start), [[start, TableCell("–", value=-1.5)], ["a", start]])
    head, first, second = csv.reader(io.StringIO(as_csv(table)))
    assert first[1] == "-1.5"
    for cell in (head[1], first[0], second[1]):
        assert cell[0] in "'␍"
        assert cell.removeprefix("'") == start.replace("\r", "␍")


@pytest.mark.parametrize("number", ["-1.5", "+2", "-1e-05", "3"])
def test_numbers_of_a_csv_stay_numbers(number: str) -> None:
    rows = list(csv.reader(io.StringIO(as_csv(ReportTable.of(("a",), [[number]])))))
    assert rows == [["a"], [number]]
