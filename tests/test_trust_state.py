"""The record of kills and flipped bits: one kill of each kind of run that no other test kills, by its own script."""

import json
import os
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]


def test_a_killed_run_ends_with_the_same_results(tmp_path: Path) -> None:
    out = tmp_path / "state.json"
    given = ["--kinds", "simulability,distillation", "--kills", "2", "--flips", "0", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(REPO / "src"), "OMP_NUM_THREADS": "1"}
    script = [sys.executable, str(REPO / "scripts" / "trust_state.py"), *given]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    kills = json.loads(out.read_text())["kills"]
    assert {kind: row["kills"] for kind, row in kills.items()} == {"simulability": 1, "distillation": 1}
    assert all(row["runs compared"] and not row["differing"] for row in kills.values())
