"""Pins everything that `make setup` installs, with the hashes of all its files.

requirements.lock          what didact, its tests, its checks and its site need
requirements-cuda.lock     what torch needs beside it where its build is the one for NVIDIA's GPUs

The hashes are those of the package index. Builds of torch for CPUs alone come from elsewhere: give their wheels with
--also, and their hashes are accepted too; those in the present lock stay.

Usage:
    python scripts/lock.py [--also torch-2.13.0+cpu-....whl]      (needs the command uv)
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
LOCK, CUDA = REPO / "requirements.lock", REPO / "requirements-cuda.lock"
HEAD = "# Made by `make lock` from pyproject.toml and constraints.txt; installed with --require-hashes --no-deps.\n"
_CUDA = re.compile(r"(nvidia|cuda|triton)\b")
_ENTRY = re.compile(r"^(?=[a-z0-9])", re.MULTILINE | re.IGNORECASE)


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also", type=Path, nargs="*", default=[], metavar="WHEEL", help="further builds of torch")
    options = parser.parse_args()
    entries = _resolved()
    known = _own_hashes() | {hashlib.sha256(path.read_bytes()).hexdigest() for path in options.also}
    entries = [_with_hashes(entry, known) if entry.startswith("torch==") else entry for entry in entries]
    LOCK.write_text(HEAD + "".join(entry for entry in entries if not _CUDA.match(entry)), encoding="utf-8")
    CUDA.write_text(HEAD + "".join(entry for entry in entries if _CUDA.match(entry)), encoding="utf-8")


def _resolved() -> list[str]:
    """One entry per package, for every platform and version of Python that didact supports."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "lock"
        for_all = ["--universal", "--generate-hashes", "--extra", "dev", "--extra", "docs", "--python-version", "3.11"]
        quiet = ["--quiet", "--no-header", "--no-annotate", "--no-emit-index-url"]
        files = ["-c", "constraints.txt", "-o", str(out), "pyproject.toml"]
        subprocess.run(["uv", "pip", "compile", *for_all, *quiet, *files], cwd=REPO, check=True)
        return [entry for entry in _ENTRY.split(out.read_text(encoding="utf-8")) if entry.strip()]


def _own_hashes() -> set[str]:
    """Hashes of torch in the present lock."""
    if not LOCK.is_file():
        return set()
    torch = next((entry for entry in _ENTRY.split(LOCK.read_text(encoding="utf-8")) if entry.startswith("torch==")), "")
    return set(re.findall("sha256:([0-9a-f]{64})", torch))


def _with_hashes(entry: str, further: set[str]) -> str:
    first, *lines = entry.rstrip("\n").removesuffix("\\").rstrip().split("\n")
    hashes = sorted(set(re.findall("sha256:([0-9a-f]{64})", "\n".join(lines))) | further)
    return first + "\n" + " \\\n".join(f"    --hash=sha256:{digest}" for digest in hashes) + "\n"


if __name__ == "__main__":
    main()
