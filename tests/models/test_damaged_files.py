"""Directories with damaged, misshapen or hostile files: one plain line, and no code of theirs runs."""

import ast
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import didact
from didact.errors import ModelError
from didact.models.encoders import load_encoder
from didact.models.load import load_model
from didact.models.text_vectors import sentence_vectors
from didact.testing.tiny import tiny_model
from didact.types import Example

WEIGHTS = "model.safetensors"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    network, tokenizer = tiny_model("bert")
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def truncated(folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: len(content) // 2])


def corrupt_header(folder: Path) -> None:
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[8:40] = b"\xff" * 32
    (folder / WEIGHTS).write_bytes(bytes(content))


def huge_header(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((1 << 62).to_bytes(8, "little") + b"{}")


def empty_weights(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(b"")


def other_shapes(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["bert.encoder.layer.0.intermediate.dense.weight"] = torch.zeros(7, 32)
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


def no_weights_at_all(folder: Path) -> None:
    save_file({}, folder / WEIGHTS, metadata={"format": "pt"})


def config_is_no_json(folder: Path) -> None:
    (folder / "config.json").write_text("{'hidden_size': 3")


def config_is_a_list(folder: Path) -> None:
    (folder / "config.json").write_text("[1, 2]")


def config_is_deep(folder: Path) -> None:
    (folder / "config.json").write_text('{"a": ' * 100_000 + "1" + "}" * 100_000)


def configured(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    change.__name__ = "config_" + "_".join(changes)
    return change


def tokenizer_is_no_json(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")


def tokenizer_is_deep(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("[" * 100_000 + "]" * 100_000)


def tokenizer_has_another_form(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "BPE", "vocab": 3}}')


DAMAGE = [
    truncated,
    corrupt_header,
    huge_header,
    empty_weights,
    other_shapes,
    no_weights_at_all,
    config_is_no_json,
    config_is_a_list,
    config_is_deep,
    configured(hidden_size="wide"),
    configured(hidden_size=-5),
    configured(num_hidden_layers=10**9),
    configured(num_attention_heads=0),
    configured(architectures=[3]),
    configured(model_type="no such"),
    configured(vocab_size=10**15),
    tokenizer_is_no_json,
    tokenizer_is_deep,
    tokenizer_has_another_form,
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_directory_is_refused_in_one_line(directory: Path, damage: Callable[[Path], None]) -> None:
    damage(directory)
    for load in (load_model, load_encoder):
        if load is load_encoder and damage.__name__ == "config_architectures":
            continue  # an encoder is read without its head, whatever that was
        with pytest.raises(ModelError) as refused:
            load(directory)
        message = str(refused.value)
        assert "\n" not in message
        assert len(message) < 600


def test_misshapen_weights_are_named_with_both_shapes(directory: Path) -> None:
    other_shapes(directory)
    with pytest.raises(
        ModelError, match=r"intermediate\.dense\.weight has the shape \(7, 32\), and \(48, 32\) is needed"
    ):
        load_model(directory)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "\ud800"])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(ModelError, match="cannot load"):
        load_model(name)


class Asked(io.StringIO):
    """A standard input that must not be read."""

    def readline(self, *size: int) -> str:
        raise AssertionError("standard input was read")

    read = readline


@pytest.fixture
def with_code(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose model type only its own code knows; the code leaves a file when it runs."""
    configured(
        model_type="didact-unknown",
        auto_map={name: f"own.{name}" for name in ("AutoConfig", "AutoModel", "AutoModelForSequenceClassification")},
    )(directory)
    (directory / "own.py").write_text(f"open({str(directory / 'ran')!r}, 'w').close()\nraise RuntimeError('ran')\n")
    monkeypatch.setattr(sys, "stdin", Asked())
    monkeypatch.setenv("HF_MODULES_CACHE", str(directory / "modules"))
    return directory


DOORS: list[Callable[[Path], object]] = [
    load_model,
    load_encoder,
    lambda folder: load_encoder(folder, labels=["a", "b"]),
    lambda folder: load_encoder(folder, dropout=0.0),
    lambda folder: sentence_vectors(str(folder), [Example("a text")]),
]


@pytest.mark.parametrize("door", DOORS, ids=["model", "encoder", "neutral", "student", "text vectors"])
def test_code_that_comes_along_never_runs_and_nothing_is_asked(with_code: Path, door: Callable[[Path], object]) -> None:
    with pytest.raises(ModelError, match="cannot load"):
        door(with_code)
    assert not (with_code / "ran").exists()


def test_code_runs_only_when_the_caller_trusts_it(with_code: Path) -> None:
    with pytest.raises(ModelError, match="cannot load"):
        load_model(with_code, trust_remote_code=True)
    assert (with_code / "ran").exists()


def test_only_one_module_reads_with_classes_that_may_run_code() -> None:
    plain = {"LearnedExplainer", "NativeBertForSequenceClassification", "PeftModel", "PreTrainedTokenizerFast"}
    root = Path(didact.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "from_pretrained"
        if ast.unparse(node.func.value).rpartition(".")[2] not in plain
    }
    assert found == {"models/encoders.py"}


def test_a_tokenizer_that_panics_is_named(directory: Path) -> None:
    path = directory / "tokenizer.json"
    rules = json.loads(path.read_text("utf-8"))
    special = rules["post_processor"]["special_tokens"]
    special.pop(next(iter(special)))
    path.write_text(json.dumps(rules), "utf-8")
    with pytest.raises(ModelError, match=r"tokenizer.*damaged"):
        didact.explain("a good film", load_model(directory), "occlusion", progress=False)
