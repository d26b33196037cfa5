"""The command line as a user meets it: answers, formats, help, and one line for every mistake."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from didact.cli import COMMANDS, main
from didact.render.html import read_page
from didact.render.jsonio import load
from didact.testing.tiny import tiny_language_model, tiny_model

TEXT = "A truly wonderful film."


def run(*arguments: str) -> int:
    return main(list(arguments))


def test_explain_draws_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", TEXT, "--method", "occlusion") == 0
    shown = capsys.readouterr().out
    assert "wonderful" in shown
    assert "occlusion" in shown


@pytest.mark.parametrize("command", ["explain", "compare"])
def test_every_format(command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    method = ("--method", "random") if command == "explain" else ("--methods", "random,occlusion")
    for form in ("json", "html", "latex", "terminal"):
        assert run(command, TEXT, *method, "--format", form) == 0
        shown = capsys.readouterr().out
        assert "wonderful" in shown
        assert run(command, TEXT, *method, "--format", form, "--out", str(tmp_path / "a" / form)) == 0  # no ending
        assert capsys.readouterr().out.strip() == str(tmp_path / "a" / form)
    assert load((tmp_path / "a" / "json").read_text())[0].example.text == TEXT
    assert read_page((tmp_path / "a" / "html").read_text())[-1].example.text == TEXT


def test_files_and_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = tmp_path / "texts.txt"
    lines.write_text("A dull plot.\n\nA warm heart.\n")
    rows = tmp_path / "texts.jsonl"
    rows.write_text('{"text": "A dull plot.", "label": "negative"}\n{"text": "A warm heart."}\n')
    monkeypatch.setattr(sys, "stdin", io.StringIO("A dull plot.\nA warm heart.\n"))
    for source in (str(lines), str(rows), "-"):
        assert run("explain", source, "--method", "random", "--format", "json") == 0
        found = load(capsys.readouterr().out)
        assert [explanation.example.text for explanation in found] == ["A dull plot.", "A warm heart."]
    assert run("explain", str(rows), "--method", "random", "--format", "json") == 0
    assert load(capsys.readouterr().out)[0].example.label == "negative"


def test_a_model_of_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network, tokenizer = tiny_model("bert", ["entailment", "contradiction"])
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    arguments = ("--model", str(tmp_path), "--method", "occlusion", "--target", "1", "--format", "json")
    assert run("explain", "good food", "--pair", "dull plot", *arguments) == 0
    (found,) = load(capsys.readouterr().out)
    assert found.example.text_pair == "dull plot"
    assert found.target.label == "contradiction"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "  "], "empty or blank"),
        (["explain", ""], "empty or blank"),
        (["explain", "good film " * 10_000], "100,000 characters"),
        (["explain", TEXT, "--target", "great"], "unknown label 'great'"),
        (["explain", TEXT, "--target", "5"], "label index 5 does not exist"),
        (["explain", TEXT, "--model", "."], "holds no model"),
        (["explain", TEXT, "--model", "no-such/model"], "cannot load 'no-such/model'"),
        (["explain", TEXT, "--method", "lyme"], "unknown method 'lyme' (did you mean lime?)"),
        (["explain", TEXT, "--method", "lime", "--set", "samples=1"], "samples of lime must be at least 2"),
        (["explain", TEXT, "--method", "lime", "--set", "samples"], "a setting looks like name=value"),
        (["explain", TEXT, "--device", "cuda:99"], "CUDA"),
        (["explain", TEXT, "--pair", "another"], "a pair was given"),
        (["explain", "missing.txt"], "there is no file missing.txt"),
        (["explain", TEXT, "--max-length", "1"], "--max-length must be at least 3"),
        (["compare", TEXT, "--methods", "lime,shep"], "unknown method 'shep'"),
        (["demo", "--texts", "0"], "--texts must be at least 1"),
        (["demo", "--learn", "-1"], "--learn must be at least 0"),
    ],
)
def test_mistakes_end_with_one_line_and_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("didact: error: ")
    assert message in told
    assert told.count("\n") == 1


def test_broken_files_are_told_with_line_and_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "x.jsonl"
    for content, message in (
        ('{"text": "a"}\n{"txt": "b"}', "line 2: field 'text' is missing; found txt"),
        ('{"text": "a"}\nnonsense', "line 2: not JSON"),
        ('{"text": 3}', "line 1: field 'text' must be text, got int"),
        ("", "holds no example"),
    ):
        broken.write_text(content)
        assert run("explain", str(broken)) == 2
        assert message in capsys.readouterr().err
    binary = tmp_path / "x.txt"
    binary.write_bytes(b"\xff\xfe\x00")
    assert run("explain", str(binary)) == 2
    assert "not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("command", [module.NAME for module in COMMANDS])
def test_every_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(command, "--help")
    assert stop.value.code == 0
    assert f"examples:\n  didact {command}" in capsys.readouterr().out


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "methods", "--format", "json") == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)} >= {"lime", "attention"}
    assert run("list", "models") == 0
    assert "embedded" in capsys.readouterr().out
    assert run("list", "methods") == 0
    assert "kernel_shap" in capsys.readouterr().out


def test_lists_data(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIDACT_SHARED", raising=False)
    monkeypatch.setenv("DIDACT_DATA", str(tmp_path))
    (tmp_path / "sst2").mkdir()
    assert run("list", "data", "--format", "json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["sst2"]["from"] == str(tmp_path / "sst2")
    assert rows["imdb"]["from"] == "hub:stanfordnlp/imdb"
    assert "student_train" in rows["imdb"]["splits"]
    assert rows["corpus"]["from"] == "generated"
    assert run("list", "data") == 0
    assert "movie_rationales" in capsys.readouterr().out


def test_a_dry_run_tells_the_cost_and_explains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", TEXT, "--method", "lime", "--set", "samples=1000000", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "1,000,001" in shown
    assert "MiB" in shown
    assert run("compare", TEXT, "--methods", "occlusion,gradient_norm", "--dry-run", "--format", "json") == 0
    rows = {row["method"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["occlusion"]["forwards"], rows["occlusion"]["backwards"]) == (7, 0)  # 5 units
    assert rows["gradient_norm"]["backwards"] == 1
    assert all(row["seconds"] > 0 for row in rows.values())
    out = tmp_path / "a" / "cost.json"
    assert run("compare", TEXT, "--dry-run", "--format", "json", "--out", str(out)) == 0
    assert "human" not in {row["method"] for row in json.loads(out.read_text())}
    capsys.readouterr()
    assert run("explain", TEXT, "--dry-run", "--format", "html") == 2
    assert "--dry-run is written as terminal or json" in capsys.readouterr().err


def test_methods_that_need_a_rationale_are_left_to_texts_that_have_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "texts.jsonl"
    rows.write_text('{"text": "A dull plot.", "rationale": [[2, 6]]}\n')
    assert run("compare", str(rows), "--methods", "human,random", "--format", "json") == 0
    assert load(capsys.readouterr().out)[0].scores == (0.0, 1.0, 0.0, 0.0)
    assert run("explain", TEXT, "--method", "human") == 2
    assert "has no human rationale" in capsys.readouterr().err


def test_demo_prints_the_pages_path_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("demo", "--texts", "1", "--learn", "40", "--out", str(tmp_path / "demo")) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last == str(tmp_path / "demo" / "index.html")
    methods = {found.method for found in read_page(Path(last).read_text())}
    assert "l2e" in methods
    assert len(methods) >= 8
    page = (tmp_path / "demo" / "index.html").read_text(encoding="utf-8")
    verdict, legend, first = (page.index(f'class="{name}"') for name in ("answers", "legend", "method"))
    assert verdict < legend < first
    assert page[first:].startswith('class="method">human<')  # the planted words
    assert "too few to rank methods" in page
    assert (tmp_path / "demo" / "explanations.json").is_file()


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "didact", "explain", "  "], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_prompted_language_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network, tokenizer = tiny_language_model("llama")
    network.save_pretrained(tmp_path / "llm")
    tokenizer.save_pretrained(tmp_path / "llm")
    file = tmp_path / "prompt.toml"
    file.write_text('template = "Review: {text}\\nIt is"\nlabels = ["good", "dull"]\n')
    given = ("explain", "a warm film", "--model", str(tmp_path / "llm"), "--method", "occlusion", "--format", "json")
    assert run(*given, "--prompt", str(file)) == 0
    (explained,) = load(capsys.readouterr().out)
    assert explained.prediction.labels == ("good", "dull")
    assert run(*given) == 2
    assert "is a language model; give the prompt" in capsys.readouterr().err
    file.write_text('template = "Review: {text} {text}\\nIt is"\nlabels = ["good", "dull"]\n')
    assert run(*given, "--prompt", str(file)) == 2
    assert capsys.readouterr().err.count("\n") == 1
