"""The folder of a learned explainer: configuration, weights, what reading needs, and a README."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

from didact import checksums, disk
from didact.errors import FormatError, ModelError, ParameterError
from didact.provenance import versions
from didact.trained import checkpoints, onnx
from didact.trained.card import readme
from didact.trained.metadata import ExplainerMetadata, SavedConfig, SavedDescription
from didact.trained.shapes.base import SHAPES, Shape
from didact.trained.signals.base import SIGNALS, Signal
from didact.types import JsonValue

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
FORMAT = 3

Runtimes = dict[str, dict[str, JsonValue]]
"""Facts of runtimes other than torch that a folder was exported for, by name."""

CURE = "copy the folder again, or train the explainer again"

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt")


def write(
    folder: Path, described: SavedDescription, fill: Callable[[Path], Runtimes], place: str | None = None
) -> None:
    """Write a folder; files and runtimes that it already has of the same explainer stay.

    Files are written beside existing ones, and take their place when all are done; the configuration comes last, so
    that a torn folder lacks it or does not fit it.

    Args:
        folder: created when it does not exist.
        described: the configuration without files, runtimes and versions.
        fill: writes files into the folder that it is given, and returns facts about runtimes.
        place: what the README names as the place to load from; the folder's name when not given.
    """
    with disk.filling(folder, CONFIG) as beside:
        runtimes = fill(beside)
        files = checksums.hashes(beside)
        config = _merged(folder, SavedConfig(**described, files=files, runtimes=runtimes, versions=dict(versions())))
        disk.write_text(beside / "README.md", readme(config, place or folder.name))
        text = json.dumps(checksums.sealed(config), indent=1, ensure_ascii=False)
        disk.write_text(beside / CONFIG, text + "\n")


def located(source: str) -> Path:
    """The folder itself, or that of the Hub's copy."""
    path = Path(source)
    if path.is_dir():
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(source, ignore_patterns=list(_PICKLES)))
    except (HfHubHTTPError, OSError, ValueError) as problem:
        raise ModelError(
            f"cannot load the explainer {source!r}: it is not a folder here, so it was looked up at the Hub: "
            f"{problem!s:.200}"
        ) from None


def read_config(folder: Path) -> SavedConfig:
    """The configuration of a folder, converted from older formats; refused where it holds no explainer."""
    path = folder / CONFIG
    if not path.is_file():
        raise FormatError(f"{folder} holds no explainer: there is no {CONFIG} in it; write one with save_pretrained")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise FormatError(f"{path} is not JSON: {problem}") from None
    form = config.get("didact_explainer") if isinstance(config, dict) else None
    if form is None:
        raise FormatError(f"{path} does not describe a learned explainer; is {folder} the explained model's folder?")
    if form not in (1, 2, FORMAT):
        raise FormatError(
            f"{path} is of format {form!r}, and this version of didact reads 1 to {FORMAT}; install the didact it was "
            f"written with ({_written_with(config)}) or train it again"
        )
    if form == FORMAT and checksums.ENTRY not in config:
        raise FormatError(f"{path} has no checksum; {CURE}")
    checksums.check_sealed(config, path, CURE)
    config.pop(checksums.ENTRY, None)
    try:
        return _from_first_format(config) if form == 1 else cast("SavedConfig", config | {"didact_explainer": FORMAT})
    except (KeyError, TypeError, AttributeError) as problem:
        raise FormatError(f"{path} lacks something or has too much: {problem}; {CURE}") from None


def _written_with(config: dict[str, object]) -> str:
    recorded = config.get("versions")
    return str(recorded.get("didact", "not recorded")) if isinstance(recorded, dict) else "not recorded"


_RENAMED = {"teacher": "reference", "teacher_parameters": "reference_parameters", "doubt": "disagreement"}
_RENAMED_FACTS = {
    "doubt and error, spearman": "disagreement and error, spearman",
    "milliseconds per text of the teacher": "milliseconds per text of the reference",
}


def _from_first_format(config: dict[str, dict[str, object]]) -> SavedConfig:
    """Names as they are now: a learned explainer's teacher became its reference, its doubt its disagreement."""
    about = {_RENAMED.get(name, name): value for name, value in config["about"].items()}
    for group in ("scores", "cost"):
        facts = cast("dict[str, JsonValue]", about.get(group) or {})
        about[group] = {_RENAMED_FACTS.get(name, name): value for name, value in facts.items()}
    settings = cast("dict[str, object]", config["shape"]["settings"])
    settings = {"references" if name == "teachers" else name: value for name, value in settings.items()}
    shape = {**config["shape"], "settings": settings}
    return cast("SavedConfig", {**config, "didact_explainer": FORMAT, "about": about, "shape": shape})


def check_runtime(runtime: str, device: str | None, config: SavedConfig, folder: Path) -> None:
    """Refuse a runtime that does not exist, or that the folder was not exported for."""
    if runtime != onnx.NAME:
        raise ParameterError(f"unknown runtime {runtime!r}; allowed: 'torch', '{onnx.NAME}'")
    if device not in (None, "cpu"):
        raise ParameterError(f"the {onnx.NAME} runtime computes on the CPU, but device={device!r} was given")
    if runtime not in config.get("runtimes", {}) or onnx.FILE not in config["files"]:
        raise FormatError(f"{folder} was not exported for the {onnx.NAME} runtime; write it with export_onnx")


def rebuilt(config: SavedConfig, folder: Path) -> tuple[Shape, Signal, ExplainerMetadata]:
    """Shape with its weights, signal and metadata."""
    if WEIGHTS not in config.get("files", {}):
        if onnx.FILE in config.get("files", {}):
            raise FormatError(f"{folder} was exported and has no weights for torch; load it with runtime='onnx'")
        raise FormatError(f"{folder / WEIGHTS} cannot be checked: its hash is not recorded in {CONFIG}; copy it again")
    shape, signal, about = built(config, folder)
    tensors, _ = checkpoints.read(folder / WEIGHTS, CURE, sealed=False)
    try:
        shape.load_state_dict(tensors)
    except RuntimeError as problem:
        first = str(problem).splitlines()[-1].strip()
        raise FormatError(f"{folder / WEIGHTS} does not fit {CONFIG}: {first:.200}") from None
    return shape, signal, about


def built(config: SavedConfig, folder: Path) -> tuple[Shape, Signal, ExplainerMetadata]:
    """Shape without its weights, signal and metadata."""
    checksums.check_files(folder, config.get("files", {}).items(), CURE)
    try:
        shape = SHAPES.get(config["shape"]["name"]).from_settings(config["shape"]["settings"], folder)
        signal = SIGNALS.get(config["signal"]["name"])(**config["signal"]["settings"])
        explained = config["explained"]
        about = ExplainerMetadata(
            model=explained["name"],
            fingerprint=explained["fingerprint"],
            labels=tuple(explained["labels"]),
            method=config["method"],
            level=config["level"],
            scale=config["scale"],
            **config["about"],
        )
    except (KeyError, TypeError) as problem:
        raise FormatError(f"{folder / CONFIG} lacks something or has too much: {problem}") from None
    return shape, signal, about


def _merged(folder: Path, config: SavedConfig) -> SavedConfig:
    """The configuration with the files and runtimes that an old one has of the same network."""
    try:
        old = read_config(folder)
    except FormatError:
        return config
    same = [(old[name], config[name]) for name in ("shape", "signal", "weights")]
    if any(before != now for before, now in same):
        return config
    kept = {file: digest for file, digest in old["files"].items() if (folder / file).is_file()}
    config["files"] = kept | config["files"]
    config["runtimes"] = old.get("runtimes", {}) | config["runtimes"]
    return config


def pushed(folder: Path, repo_id: str, *, private: bool, message: str, token: str | None) -> str:
    """Upload a folder to a repository of the Hugging Face Hub, created when it does not exist; returns its address."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(token=token)
    try:
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=str(folder), commit_message=message)
    except (HfHubHTTPError, OSError, ValueError) as problem:
        raise ModelError(f"cannot push to {repo_id!r}: {problem!s:.200}. Check id, login and network") from None
    return str(address)
