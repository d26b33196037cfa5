"""How long didact takes to start, in fresh processes: importing it, its help, and a first explanation."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks.common import Table, middle, parser, publish

BAR = 0.5
CLI = "import sys; from didact.cli import main; sys.exit(main())"
TEXT = "A warm, funny and wonderful film."


@dataclass(frozen=True)
class Start:
    """One thing to start."""

    name: str
    code: str
    arguments: tuple[str, ...] = ()
    bar: float | None = None


STARTS = (
    Start("python, nothing else", "pass"),
    Start("import didact", "import didact", bar=BAR),
    Start("didact --help", CLI, ("--help",), bar=BAR),
    Start(f'didact explain "{TEXT}"', CLI, ("explain", TEXT)),
    Start(
        "import torch, transformers' model class",
        "import torch; from transformers import BertForSequenceClassification",
    ),
)


def main() -> None:
    """Run the benchmark."""
    examples = "  python -m benchmarks.startup --quick\n  python -m benchmarks.startup --rounds 9"
    args = parser(__doc__ or "", examples).parse_args()
    if args.quick:
        args.rounds = 2
    if importlib.util.find_spec("didact.cli") is None:
        print("didact.cli is missing: the commands will be reported as failed")
    seconds: dict[str, list[tuple[float, float]]] = {start.name: [] for start in STARTS}
    failed: dict[str, str] = {}
    for number in range(args.rounds + 1):  # the first round fills the file cache and does not count
        for start in STARTS:
            if start.name in failed:
                continue
            times, problem = _run(start, args.threads)
            if problem:
                failed[start.name] = problem
                print(f"{start.name} FAILED: {problem}")
            elif number:
                seconds[start.name].append(times)
        print(f"round {number}/{args.rounds}")
    rows = [_row(start, seconds[start.name], failed.get(start.name)) for start in STARTS]
    notes = [f"Bar: import and help under {BAR} seconds. CPU time is what a quiet machine would need."]
    text = f"Fresh processes, files in the cache, median and range of {args.rounds} interleaved rounds."
    table = Table("Seconds", ["started", "wall", "CPU", "bar"], rows, notes)
    publish("startup", text, [table], {"seconds": seconds, "failed": failed}, args)
    sys.exit(1 if failed else 0)


def _run(start: Start, threads: int) -> tuple[tuple[float, float], str]:
    """Wall and CPU seconds of one fresh process, and what went wrong."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    before, begun = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", start.code, *start.arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    wall, after = time.perf_counter() - begun, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    problem = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1] if done.returncode else ""
    return (wall, cpu), problem


def _row(start: Start, times: list[tuple[float, float]], problem: str | None) -> list[str]:
    if problem is not None:
        return [f"`{start.name}`", f"failed: {problem}", "", ""]
    wall, cpu = ([pair[i] for pair in times] for i in (0, 1))
    bar = (
        ""
        if start.bar is None
        else f"under {start.bar} s: {'met' if sorted(cpu)[len(cpu) // 2] < start.bar else 'missed'}"
    )
    return [f"`{start.name}`", middle(wall, 2), middle(cpu, 2), bar]


if __name__ == "__main__":
    main()
