"""Settings per method and a table of methods x metrics for one text, from Python and from the command line."""

import json
import math
from pathlib import Path

import pytest

import didact
from didact.cli import main
from didact.errors import InputError, ParameterError, UnknownNameError
from didact.render.jsonio import load
from didact.testing.tiny import keyword_predict
from didact.types import Example, Explanation, Span

TEXT = "A truly wonderful film with one dull scene."


@pytest.fixture(scope="module")
def model() -> object:
    return didact.load_model(keyword_predict, labels=["negative", "positive"])


def test_methods_have_settings_of_their_own(model: object) -> None:
    few = {"method": "lime", "num_samples": 20}
    first, second, third = didact.compare(TEXT, model, ["loo", "lime", few], progress=False)
    assert (first.method, second.method, third.method) == ("occlusion", "lime", "lime")
    assert (second.parameters["samples"], third.parameters["samples"]) == (1000, 20)


@pytest.mark.parametrize(
    ("methods", "problem", "message"),
    [
        ([{"samples": 20}], ParameterError, "has its name as 'method'"),
        ([{"method": "lime", "sample": 20}], ParameterError, "unknown parameter of lime 'sample'"),
        ([{"method": "lyme"}], UnknownNameError, "did you mean lime"),
    ],
)
def test_a_table_of_a_method_is_checked(
    model: object, methods: list[dict[str, object]], problem: type[Exception], message: str
) -> None:
    with pytest.raises(problem, match=message):
        didact.compare(TEXT, model, methods, progress=False)


def test_a_table_has_a_row_per_method_and_chance(model: object) -> None:
    result = didact.compare(TEXT, model, ["occlusion", "random"], metrics="default", progress=False)
    table = result.metrics
    assert table is not None
    assert list(table.rows) == ["occlusion", "random"]
    assert {"comprehensiveness", "deletion_area", "forwards"} <= set(table.metrics)
    assert "neighbour_iou" not in table.metrics  # needs other texts
    column = list(table.metrics).index("comprehensiveness")
    assert table.rows["occlusion"][column] > table.chance[column]
    assert math.isnan(table.chance[list(table.metrics).index("forwards")])
    values = didact.compare(TEXT, model, ["occlusion"], metrics=["aopc_compr"], progress=False).metrics
    assert values is not None
    assert values.rows["occlusion"] == (table.rows["occlusion"][column],)


def test_rows_of_one_method_are_told_apart_by_their_settings(model: object) -> None:
    twice = [{"method": "lime", "samples": 20}, {"method": "lime", "samples": 40}]
    table = didact.compare(TEXT, model, twice, metrics=["sufficiency"], progress=False).metrics
    assert table is not None
    assert list(table.rows) == ["lime samples=20", "lime samples=40"]
    same = didact.compare(TEXT, model, ["loo", "loo"], metrics=["sufficiency"], progress=False).metrics
    assert same is not None
    assert list(same.rows) == ["occlusion", "occlusion (2)"]


def test_a_rationale_adds_plausibility(model: object) -> None:
    marked = Example(TEXT, rationale=(Span(8, 17),))
    table = didact.compare(marked, model, ["occlusion"], metrics="all", progress=False).metrics
    assert table is not None
    assert "rationale_auc" in table.metrics
    assert "edit_stability" in table.metrics


@pytest.mark.parametrize(
    ("metrics", "problem", "message"),
    [
        (["neighbour_iou"], InputError, "neighbour_iou cannot be computed for one text: it needs corpus"),
        (["rationale_auc"], InputError, "rationale_auc cannot be computed for one text: it has no human rationale"),
        (["deletion_aera"], UnknownNameError, "did you mean deletion_area"),
        ([], ParameterError, "no metric is named"),
        ([{"steps": 3}], ParameterError, "a table with 'metric' and settings"),
    ],
)
def test_metrics_that_do_not_fit_are_refused(
    model: object, metrics: list[str], problem: type[Exception], message: str
) -> None:
    with pytest.raises(problem, match=message):
        didact.compare(TEXT, model, ["occlusion"], metrics=metrics, progress=False)


def test_a_skipped_method_has_no_row(model: object) -> None:
    result = didact.compare(TEXT, model, ["ig", "loo"], metrics=["sufficiency"], on_error="skip", progress=False)
    assert [note.method for note in result.skipped] == ["integrated_gradients"]
    assert result.metrics is not None
    assert list(result.metrics.rows) == ["occlusion"]


def test_the_table_is_escaped_and_marks_the_best(model: object) -> None:
    methods = ["occlusion", {"method": "solvex", "beam": 1, "steps": 1}]
    table = didact.compare("<b>wonderful</b> film", model, methods, metrics=["deletion_auc"], progress=False).metrics
    assert table is not None
    (occlusion,), (solvex,) = table.rows.values()
    page = table.html()
    assert "<script" not in page
    assert page.count("<b>") == (occlusion != solvex)
    assert "deletion_area ↓" in str(table)
    frame = pytest.importorskip("pandas") and table.to_dataframe()
    assert frame.loc["occlusion", "deletion_area"] == occlusion


def run(*arguments: str) -> int:
    return main(["compare", TEXT, "--methods", "loo,gxi", "--metrics", "deletion_auc,sufficiency", *arguments])


def test_the_command_prints_settings_and_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--set", "loo.window=2") == 0
    printed = capsys.readouterr().out
    assert "span=2" in printed
    assert "deletion_area ↓" in printed
    assert "chance" in printed
    assert "differences between methods are not tested" in printed


def test_the_command_writes_json_and_html(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--format", "json") == 0
    text = capsys.readouterr().out
    explained: list[Explanation] = load(text)
    (table,) = json.loads(text)["metrics"]
    assert [row["method"] for row in table["rows"]] == [each.method for each in explained]
    assert set(table["chance"]) == {"deletion_area", "sufficiency"}
    page = tmp_path / "page.html"
    assert run("--out", str(page)) == 0
    assert "<h2>Metrics</h2>" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "lime.samples=20"], "--set names lime, which --methods and --metrics do not list"),
        (["--format", "latex"], "--metrics is written as terminal, html, json, not latex"),
    ],
)
def test_mistakes_end_with_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err
