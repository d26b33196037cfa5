"""``import didact`` and ``didact --help`` stay light: they load none of the heavy libraries."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
HEAVY = {"torch", "transformers", "scipy", "pandas"}

HELP = """
import sys
sys.argv = ["didact", *{options}]
from didact.cli import main
try:
    status = main()
except SystemExit as stop:
    status = stop.code
assert not status, status
"""


def loaded(code: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter has after running ``code``."""
    report = "\nimport sys\nprint('loaded:', *{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code + report],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


LIGHT = {
    "import": "import didact\ndir(didact)",
    "help": HELP.format(options=["--help"]),
    "train": HELP.format(options=["train", "--help"]),
    "l2e": HELP.format(options=["train", "l2e", "--help"]),
}


@pytest.mark.parametrize("code", LIGHT.values(), ids=LIGHT)
def test_loads_nothing_heavy(code: str) -> None:
    assert loaded(code) & HEAVY == set()


def test_the_check_sees_what_is_loaded() -> None:
    assert loaded("import torch") & HEAVY >= {"torch"}
