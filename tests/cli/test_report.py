"""``didact report`` as a user meets it."""

from pathlib import Path

import pytest

from didact.cli import main
from tests.experiments.synthetic import typical_run


def test_report_prints_the_table_and_the_pages_path_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = typical_run(tmp_path / "run", examples=12)
    assert main(["report", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert shown.strip().splitlines()[-1] == str(folder / "report.html")
    assert "Trust lime" in " ".join(shown.split())
    for word in ("comprehensiveness ↑", "integrated_gradients", "random", "≈"):
        assert word in shown
    assert {path.name for path in folder.glob("report.*")} == {"report.md", "report.tex", "report.csv", "report.html"}


def test_options_choose_formats_metric_and_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = typical_run(tmp_path / "run", examples=30)
    chosen = ["--format", "html, csv", "--metric", "deletion_area", "--examples", "1"]
    assert main(["report", str(folder), *chosen]) == 0
    capsys.readouterr()
    assert {path.name for path in folder.glob("report.*")} == {"report.csv", "report.html"}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "deletion_area against seconds per text" in page
    assert page.count('<section class="example"') == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "pdf"], "--format takes md, tex, csv, json, html, got 'pdf'"),
        (["--examples", "-1"], "--examples must be at least 0"),
        (["--metric", "comprehensivness"], "did you mean comprehensiveness"),
    ],
)
def test_mistakes_are_told_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = typical_run(tmp_path / "run", examples=3)
    assert main(["report", str(folder), *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_an_unfinished_run_is_told_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.toml").write_text("", encoding="utf-8")
    assert main(["report", str(tmp_path)]) == 2
    assert "unfinished run: 0 parts are there" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "none")]) == 2
    assert "there is no folder" in capsys.readouterr().err
