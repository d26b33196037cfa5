"""The folder of a learned explainer: configuration, weights, what reading needs, and a README."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from didact.errors import FormatError, ModelError, ParameterError
from didact.provenance import versions
from didact.trained import checkpoints, onnx, shapes, signals
from didact.trained.card import readme
from didact.trained.metadata import ExplainerMetadata
from didact.trained.shapes.base import Shape
from didact.trained.signals.base import Signal

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
FORMAT = 1

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt")


def write(
    folder: Path, described: Mapping[str, Any], fill: Callable[[Path], dict[str, Any]], place: str | None = None
) -> None:
    """Write a folder with what ``fill`` writes and tells about runtimes; what it has of the same explainer stays.

    Files are made beside those that are there, and take their place when all are done.

    Args:
        folder: made when it does not exist.
        described: the configuration without files, runtimes and versions.
        fill: writes files into the folder that it is given.
        place: what the README names as the place to load from; the folder's name when not given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        beside = Path(name)
        runtimes = fill(beside)
        paths = sorted(path for path in beside.rglob("*") if path.is_file())
        files = {path.relative_to(beside).as_posix(): _file_hash(path) for path in paths}
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (beside / file).replace(folder / file)
    config = _merged(folder, {**described, "files": files, "runtimes": runtimes, "versions": versions()})
    (folder / "README.md").write_text(readme(config, place or folder.name), encoding="utf-8")
    text = json.dumps(config, indent=1, ensure_ascii=False)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")  # last: a torn folder lacks it or does not fit it


def found(source: str) -> Path:
    """The folder itself, or where the Hub's copy of it was put."""
    path = Path(source)
    if path.is_dir():
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(source, ignore_patterns=list(_PICKLES)))
    except (HfHubHTTPError, OSError, ValueError) as problem:
        raise ModelError(
            f"cannot load the explainer {source!r}: it is not a folder here, so it was asked for at the Hub: "
            f"{problem!s:.200}"
        ) from None


def read_config(folder: Path) -> dict[str, Any]:
    """What the folder says of itself; refused where it holds no explainer, or one of another format."""
    path = folder / CONFIG
    if not path.is_file():
        raise FormatError(f"{folder} holds no explainer: there is no {CONFIG} in it; write one with save_pretrained")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise FormatError(f"{path} is not JSON: {problem}") from None
    form = config.get("didact_explainer") if isinstance(config, dict) else None
    if form is None:
        raise FormatError(f"{path} does not describe a learned explainer; is {folder} the explained model's folder?")
    if form != FORMAT:
        raise FormatError(
            f"{path} is of format {form!r}, and this version of didact reads {FORMAT}; install the didact it was made "
            f"with ({config.get('versions', {}).get('didact', 'not recorded')}) or train it again"
        )
    return config  # type: ignore[no-any-return] # checked to be a dict


def check_runtime(runtime: str, device: str | None, config: Mapping[str, Any], folder: Path) -> None:
    """Refuse a runtime that there is not, or that the folder was not exported for."""
    if runtime != onnx.NAME:
        raise ParameterError(f"unknown runtime {runtime!r}; allowed: 'torch', '{onnx.NAME}'")
    if device not in (None, "cpu"):
        raise ParameterError(f"the {onnx.NAME} runtime computes on the CPU, but device={device!r} was given")
    if runtime not in config.get("runtimes", {}) or onnx.FILE not in config["files"]:
        raise FormatError(f"{folder} was not exported for the {onnx.NAME} runtime; write it with export_onnx")


def rebuilt(config: Mapping[str, Any], folder: Path) -> tuple[Shape, Signal, ExplainerMetadata]:
    """Shape with its weights, signal and what is known about them."""
    if WEIGHTS not in config.get("files", {}):
        if onnx.FILE in config.get("files", {}):
            raise FormatError(f"{folder} was exported and has no weights for torch; load it with runtime='onnx'")
        raise FormatError(f"{folder / WEIGHTS} cannot be checked: its hash is not recorded in {CONFIG}; copy it again")
    shape, signal, about = built(config, folder)
    tensors, _ = checkpoints.read(folder / WEIGHTS, "copy it again")
    try:
        shape.load_state_dict(tensors)
    except RuntimeError as problem:
        first = str(problem).splitlines()[-1].strip()
        raise FormatError(f"{folder / WEIGHTS} does not fit {CONFIG}: {first:.200}") from None
    return shape, signal, about


def built(config: Mapping[str, Any], folder: Path) -> tuple[Shape, Signal, ExplainerMetadata]:
    """Shape without its weights, signal and what is known about them."""
    _check_files(config, folder)
    try:
        shape = shapes.get(config["shape"]["name"]).from_settings(config["shape"]["settings"], folder)
        signal: Signal = signals.get(config["signal"]["name"])(**config["signal"]["settings"])
        explained = config["explained"]
        about = ExplainerMetadata(
            model=explained["name"],
            fingerprint=explained["fingerprint"],
            labels=tuple(explained["labels"]),
            level=config["level"],
            scale=config["scale"],
            **config["about"],
        )
    except (KeyError, TypeError) as problem:
        raise FormatError(f"{folder / CONFIG} lacks something or has too much: {problem}") from None
    return shape, signal, about


def _merged(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the files and runtimes that an old one has of the same network."""
    try:
        old = read_config(folder)
    except FormatError:
        return config
    if any(old.get(name) != config[name] for name in ("shape", "signal", "weights")):
        return config
    kept = {file: digest for file, digest in old["files"].items() if (folder / file).is_file()}
    return config | {"files": kept | config["files"], "runtimes": old.get("runtimes", {}) | config["runtimes"]}


def _check_files(config: Mapping[str, Any], folder: Path) -> None:
    """Refuse files that are missing or not the ones that were saved."""
    for name, digest in config.get("files", {}).items():
        path = folder / name
        if not path.is_file():
            raise FormatError(f"{folder} is not complete: {name} is missing; copy it again")
        if digest != _file_hash(path):
            raise FormatError(f"{path} is not the file that was saved: its hash differs; copy it again")


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
