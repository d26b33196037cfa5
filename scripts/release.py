"""Builds wheel and sdist, and checks them where nothing but the wheel and what it needs is installed.

Usage:
    python scripts/release.py --out dist                  # build, check contents and metadata, and try the wheel
    python scripts/release.py --out dist --no-install     # build and check contents only
"""

from __future__ import annotations

import argparse
import email
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = f"{PROJECT['name']}-{PROJECT['version']}"
IN_WHEEL = (
    "didact/__init__.py",
    "didact/py.typed",
    "didact/embedded/sentiment/config.json",
    "didact/embedded/sentiment/model.safetensors",
    "didact/embedded/sentiment/tokenizer.json",
    "didact/embedded/sentiment/tokenizer_config.json",
    f"{NAME}.dist-info/METADATA",
    f"{NAME}.dist-info/entry_points.txt",
    f"{NAME}.dist-info/licenses/LICENSE",
)
IN_SDIST = (
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "pyproject.toml",
    "constraints.txt",
    "requirements.lock",
    "Makefile",
)
FORBIDDEN = ("__pycache__", ".pyc", ".bin", ".pkl", ".pt", ".env")


def main() -> None:
    """Build and check; stops with a message at the first thing that does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=REPO / "dist", help="folder (default: dist)")
    parser.add_argument("--no-install", action="store_true", help="leave out the trial in a bare environment")
    options = parser.parse_args()
    wheel, sdist = build(options.out.resolve())
    check_wheel(wheel)
    check_sdist(sdist, wheel)
    if not options.no_install:
        try_wheel(wheel)
    print(wheel, sdist, sep="\n")


def build(out: Path) -> tuple[Path, Path]:
    """The wheel and the sdist; what an earlier build left of this version is replaced."""
    out.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(out)], cwd=REPO)
    return out / f"{NAME}-py3-none-any.whl", out / f"{NAME}.tar.gz"


def check_wheel(wheel: Path) -> None:
    """Everything that a user needs is in it, all modules and nothing foreign, and its metadata are the project's."""
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        meta = email.message_from_bytes(file.read(f"{NAME}.dist-info/METADATA"))
    _need([name for name in IN_WHEEL if name not in names], "the wheel lacks")
    _need([name for name in names if not name.startswith(("didact/", f"{NAME}.dist-info/"))], "the wheel holds")
    _need([name for name in names if name.endswith(FORBIDDEN) or "__pycache__" in name], "the wheel holds")
    sources = {path.relative_to(REPO / "src").as_posix() for path in (REPO / "src" / "didact").rglob("*.py")}
    _need(sorted(sources - names), "the wheel lacks")
    wanted = {"Name": PROJECT["name"], "Version": PROJECT["version"], "License-Expression": PROJECT["license"],
              "Requires-Python": PROJECT["requires-python"], "Description-Content-Type": "text/markdown"}  # fmt: skip
    _need(
        [f"{key}: {meta[key]}" for key, value in wanted.items() if meta[key] != value],
        "the wheel's metadata are wrong:",
    )
    runtime = [line for line in meta.get_all("Requires-Dist") or () if "extra ==" not in line]
    if len(runtime) != len(PROJECT["dependencies"]):
        raise SystemExit(f"release: the wheel needs {runtime}, the project {PROJECT['dependencies']}")


def _unpack(file: tarfile.TarFile, place: str) -> None:
    """By the strict rules for members where this Python has them; those before 3.11.4 do not."""
    if hasattr(tarfile, "data_filter"):
        file.extractall(place, filter="data")
    else:
        file.extractall(place)


def check_sdist(sdist: Path, wheel: Path) -> None:
    """Sources, tests and their data are in it, and it builds the same wheel."""
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(sdist) as file:
            file.extractall(place, filter="data")
        root = Path(place) / NAME
        _need([name for name in IN_SDIST if not (root / name).is_file()], "the sdist lacks")
        tracked = _run(["git", "ls-files", "src", "tests", "fuzz"], cwd=REPO).split()
        _need([name for name in tracked if not (root / name).is_file()], "the sdist lacks")
        _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place], cwd=root)
        again = Path(place) / wheel.name
        with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
            if sorted((item.filename, item.CRC) for item in one.infolist()) != sorted(
                (item.filename, item.CRC) for item in other.infolist()
            ):
                raise SystemExit("release: the sdist builds another wheel than the repository")


def try_wheel(wheel: Path) -> None:
    """Install it into a new environment, and explain a text there without a network."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        pip = [
            str(python),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "-c",
            str(REPO / "constraints.txt"),
        ]
        _run([*pip, "torch"], cwd=folder)
        _run([*pip, str(wheel)], cwd=folder)
        _run([str(python), "-m", "pip", "check"], cwd=folder)
        didact = str(folder / "venv" / "bin" / "didact")
        light = "import sys, didact; didact.explain; assert didact.__file__.startswith(sys.prefix)"
        _run([str(python), "-c", light], cwd=folder)
        _need([] if "explain" in _run([didact, "--help"], cwd=folder) else ["no help"], "the command has")
        if _run([didact, "--version"], cwd=folder).strip() != f"didact {PROJECT['version']}":
            raise SystemExit("release: the command gives another version")
        made = json.loads(
            _run(
                [didact, "explain", "A warm and wonderful film.", "--method", "occlusion", "--format", "json"],
                cwd=folder,
            )
        )
        words = [row["prediction"]["labels"] for row in made["explanations"]]
        _need([] if words else ["no explanation"], "didact explain gives")


def _need(problems: Sequence[str], what: str) -> None:
    if problems:
        raise SystemExit(f"release: {what} {', '.join(problems[:8])}")


def _run(command: Sequence[str], cwd: Path) -> str:
    """Standard output; a command that fails ends the release with what it printed."""
    alone = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "DIDACT_"))}
    done = subprocess.run(
        command, cwd=cwd, env=alone | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"release: {' '.join(command[:6])} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
