"""Hostile and unlucky command lines: one line and a code for every mistake, a report file for every defect."""

import gzip
import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from didact import disk
from didact.cli import main, options
from didact.errors import InputError
from didact.render.html import read_page
from didact.render.jsonio import load

TEXT = "A truly wonderful film."
QUICK = ("--method", "random")
HOSTILE = "[/] [link=https://example.org]x[/link] \x1b[31m\x9b1m\u202e\ud800"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of a mistake."""
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("didact: error: ")
    assert told.count("\n") == 1
    assert not set("\x1b\x9b\u202e\ud800") & set(told)
    return told


# Tables


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.csv.gz", "r.json", "r.jsonl", "r.ndjson", "r.parquet"])
def test_a_table_is_explained_by_its_text_column(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"review": "A dull plot.", "label": "negative"}, {"review": "A warm heart.", "label": "positive"}]
    path = tmp_path / name
    if name == "r.parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        sign = "\t" if ".tsv" in name else ","
        table = "\n".join([sign.join(rows[0]), *(sign.join(row.values()) for row in rows)])
        text = {"r.json": json.dumps(rows)}.get(name, table)
        text = "\n".join(map(json.dumps, rows)) if name in ("r.jsonl", "r.ndjson") else text
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert main(["explain", str(path), *QUICK, "--format", "json"]) == 0
    found = load(capsys.readouterr().out)
    assert [(one.example.text, one.example.label) for one in found] == [tuple(row.values()) for row in rows]


def test_a_table_without_a_known_column_lists_its_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.csv"
    path.write_text("body,stars\nA dull plot.,1\n")
    assert "found body, stars" in refused(["explain", str(path)], capsys)
    assert "column 'bodi' (field 'text') is missing; found body, stars" in refused(
        ["explain", str(path), "--column", "text=bodi"], capsys
    )
    assert "unknown field 'txt'" in refused(["explain", str(path), "--column", "txt=body"], capsys)
    assert "looks like text=NAME" in refused(["explain", str(path), "--column", "body"], capsys)
    assert "none was given" in refused(["explain", TEXT, "--column", "text=body"], capsys)
    assert main(["explain", str(path), *QUICK, "--column", "text=body", "--format", "json"]) == 0
    assert load(capsys.readouterr().out)[0].example.text == "A dull plot."


def test_a_limit_on_files_can_be_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.txt"
    path.write_text("A dull plot.\n" * 3)
    assert "more than 2 lines" in refused(["explain", str(path), "--max-texts", "2"], capsys)
    assert "bytes unpacked" in refused(["explain", str(path), "--max-bytes", "20"], capsys)
    assert "must be a whole number" in refused(["explain", str(path), "--max-bytes", "-1"], capsys)
    assert main(["explain", str(path), *QUICK, "--max-texts", "3"]) == 0
    assert "DIDACT_MAX_TEXTS" not in os.environ


# Output


def test_the_ending_of_the_file_is_its_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, start in (
        ("r.html", "<!doctype"),
        ("r.HTM", "<!doctype"),
        ("r.json", "{"),
        ("r.tex", "%"),
        ("r.svg", "<svg"),
    ):
        assert main(["explain", TEXT, *QUICK, "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text().lower().startswith(start)
    for name in ("r.txt", "r"):
        assert main(["explain", TEXT, *QUICK, "--out", str(tmp_path / name)]) == 0
        assert "prediction" in (tmp_path / name).read_text()
    assert read_page((tmp_path / "r.html").read_text())[0].example.text == TEXT
    capsys.readouterr()
    told = refused(["explain", TEXT, "--format", "json", "--out", str(tmp_path / "x.html")], capsys)
    assert "--format json does not go with --out" in told
    assert "no format ends with .docx" in refused(["compare", TEXT, "--out", str(tmp_path / "x.docx")], capsys)
    assert not (tmp_path / "x.html").exists()


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work began before --out was checked")

    monkeypatch.setattr(options, "load", work)
    monkeypatch.setattr("didact.experiments.engine.run.run_recipe", work)
    monkeypatch.setattr("didact.api.load_model", work)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", ["explain", "compare", "evaluate", "simulate", "train", "demo"])
@pytest.mark.parametrize("problem", ["a folder or a file", "below a file", "a long name"])
def test_what_cannot_be_written_is_refused_before_the_work(
    command: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_file = command in ("explain", "compare")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    out = {
        "a folder or a file": tmp_path / ("folder" if of_file else "file"),
        "below a file": tmp_path / "file" / "inside",
        "a long name": tmp_path / ("n" * 300),
    }[problem]
    given = {"explain": [TEXT], "compare": [TEXT], "train": ["l2e"]}.get(command, [])
    assert "cannot write" in refused([command, *given, "--out", str(out)], capsys)
    assert (tmp_path / "file").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_result_that_cannot_be_written_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise InputError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr(disk, "write_bytes", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    arguments = ["explain", TEXT, *QUICK, "--out", str(tmp_path / "r.json")]
    told = refused(arguments, capsys)
    (rescued,) = (tmp_path / "temporary").iterdir()
    assert f"the result is in {rescued}" in told
    assert load(rescued.read_text())[0].example.text == TEXT
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert "the result was printed instead" in shown.err
    assert load(shown.out)[0].example.text == TEXT


def test_devices_and_links_are_written_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", TEXT, *QUICK, "--out", os.devnull]) == 0
    assert Path(os.devnull).is_char_device()
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    assert main(["explain", TEXT, *QUICK, "--out", str(tmp_path / "link.json")]) == 0
    assert (tmp_path / "link.json").is_symlink()
    assert load((tmp_path / "real.json").read_text())[0].example.text == TEXT
    capsys.readouterr()


def test_a_closed_pipe_loses_no_report(tmp_path: Path) -> None:
    script = f"""
import os, sys
from didact.cli import main
reading, writing = os.pipe()
os.close(reading)
os.dup2(writing, 1)
os.dup2(writing, 2)
main(["explain", {TEXT!r}, "--method", "random"])
asked = ["evaluate", "--limit", "3", "--methods", "random", "--metrics", "comprehensiveness", "--no-nulls"]
code = main([*asked, "--out", {str(tmp_path / "run")!r}])
os._exit(code)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=120)
    assert done.returncode == 0
    assert (tmp_path / "run" / "report.html").is_file()


def test_streams_that_are_closed_or_full(tmp_path: Path) -> None:
    command = f"{sys.executable} -m didact"
    done = subprocess.run(f"{command} explain - <&-", shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "standard input holds no example" in done.stderr
    assert done.stderr.count("\n") == 1
    done = subprocess.run(f"{command} list models >&-", shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    if Path("/dev/full").exists():
        done = subprocess.run(
            f"{command} list models >/dev/full", shell=True, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "cannot write to standard output: No space left on device" in done.stderr
        assert done.stderr.count("\n") == 1


def test_standard_input_that_is_no_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfea"), encoding="ascii"))
    assert "standard input is not UTF-8 text" in refused(["explain", "-"], capsys)


# Texts, names and numbers


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", f"good {HOSTILE}"],
        ["explain", TEXT, "--pair", HOSTILE],
        ["explain", TEXT, "--target", HOSTILE],
        ["explain", TEXT, "--target", "²"],
        ["explain", TEXT, "--target", "٣"],
        ["explain", TEXT, "--target", "9" * 5_000],
        ["explain", TEXT, "--target=--1"],
        ["explain", TEXT, "--method", HOSTILE],
        ["explain", TEXT, "--method", "lime", "--set", "samples=" + "9" * 5_000],
        ["explain", TEXT, "--method", "lime", "--set", "samples=" + "[" * 100_000],
        ["explain", TEXT, "--method", "lime", "--set", f"{HOSTILE}=1"],
        ["explain", TEXT, "--level", HOSTILE],
        ["explain", "n" * 300 + ".csv"],
        ["explain", TEXT, "--explainer", "n" * 300],
        ["evaluate", "--data", "n" * 300],
        ["evaluate", "--data", HOSTILE],
        ["evaluate", "--seeds", "²"],
        ["simulate", "--sizes", "9" * 5_000],
        ["run", "n" * 300],
        ["report", "n" * 300],
        ["report", HOSTILE],
        ["convert", "n" * 300],
        ["reproduce", "l2e", "--results", "n" * 300],
        ["train", "l2e", "--labels", "n" * 300],
        ["train", "l2e", "--data", HOSTILE],
    ],
)
def test_hostile_arguments_are_the_users_mistake(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(arguments, capsys)
    assert list(tmp_path.iterdir()) == []


def test_the_parser_shows_what_was_given_and_lets_nothing_act(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["explain", TEXT, HOSTILE],
        ["train", "l2e", HOSTILE],
        [HOSTILE],
        ["explain", TEXT, "--max-bytes", HOSTILE],
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2
        told = capsys.readouterr().err
        assert "link=" in told
        assert not set("\x1b\x9b\u202e") & set(told)


def test_a_files_hostile_names_are_shown_in_tables_and_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "[/] \x1b[31m \u202e.json"
    assert main(["explain", TEXT, *QUICK, "--out", name]) == 0
    shown = capsys.readouterr().out
    assert "[/] ␛[31m" in shown
    assert not set("\x1b\u202e") & set(shown)
    assert (tmp_path / name).is_file()


# Defects


@pytest.mark.parametrize(
    "problem", [RuntimeError("a [/] defect \x1b"), RecursionError(), MemoryError(), OSError(5, "x", "/else")]
)
def test_a_defect_is_reported_in_a_file_and_ends_with_1(
    problem: Exception, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise problem

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(options, "load", broken)
    assert main(["explain", TEXT]) == 1
    told = capsys.readouterr().err
    assert told.startswith("didact: internal error: ")
    assert told.count("\n") == 1
    (report,) = tmp_path.iterdir()
    assert report.name in told
    text = report.read_text()
    assert f"command: didact explain '{TEXT}'" in text
    assert "Traceback" in text
    assert type(problem).__name__ in text
    assert "torch" in text


def test_the_disks_failure_on_a_given_path_is_the_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for problem in (
        PermissionError(13, "Permission denied", str(tmp_path / "model" / "x")),
        OSError(28, "No space left"),
    ):

        def broken(_: object, problem: OSError = problem) -> None:
            raise problem

        monkeypatch.setattr(options, "load", broken)
        assert str(problem.strerror) in refused(["explain", TEXT, "--model", str(tmp_path / "model")], capsys)


def test_stopped_by_hand(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(options, "load", stopped)
    assert main(["explain", TEXT]) == 130
    assert capsys.readouterr().err == "didact: stopped\n"


@pytest.mark.filterwarnings("default")
def test_warnings_are_lines_in_which_nothing_acts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def warning(_: object) -> None:
        warnings.warn(f"a model {HOSTILE}\nnext", stacklevel=1)
        raise KeyboardInterrupt

    monkeypatch.setattr(options, "load", warning)
    main(["explain", TEXT])
    told = capsys.readouterr().err
    assert told.startswith("didact: warning: a model [/] [link=")
    assert told.count("\n") == 2
    assert not set("\x1b\x9b\u202e\ud800") & set(told)
