"""How long ``didact evaluate`` takes with its defaults on 100 sentences of SST-2, and how near its estimate comes.

Usage:
    python -m benchmarks.evaluation             # measure, write docs/results/evaluation.json and the page
    python -m benchmarks.evaluation --page      # the page alone, from the record
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from didact.experiments.engine.run import run_job
from didact.experiments.engine.steps import RunOptions
from didact.experiments.grading.forecast import forecast
from didact.experiments.grading.job import GradingJob
from didact.experiments.grading.prepare import prepare
from didact.experiments.grading.recipe import GradingRecipe
from didact.experiments.grading.report import write_report
from didact.provenance import versions

RESULTS = Path("docs/results")
DATA = {"source": "sst2", "split": "validation"}


def main() -> None:
    """Measure and write, or only write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--page", action="store_true", help="only the page")
    options = parser.parse_args()
    path = RESULTS / "evaluation.json"
    if not options.page:
        path.write_text(json.dumps(measure(options.texts), indent=2) + "\n", encoding="utf-8")
    (RESULTS / "evaluation.md").write_text(page(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")


def measure(texts: int) -> dict[str, Any]:
    """Estimate the evaluation, then carry it out, report included, and time both."""
    recipe = GradingRecipe.from_dict({"name": "sst2", "data": {**DATA, "limit": texts}, "explainers": "default"})
    experiment = prepare(recipe)
    load_before = os.getloadavg()[0]
    start, cpu_start = time.perf_counter(), time.process_time()
    expected = forecast(experiment)
    estimating, cpu_estimating = time.perf_counter() - start, time.process_time() - cpu_start
    start, cpu_start = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        run_job(GradingJob(experiment, RunOptions(Path(folder) / "run")))
        write_report(Path(folder) / "run")
    return {
        "command": f"didact evaluate --data sst2 --split validation --limit {texts}",
        "texts": texts,
        "timed": expected.timed,
        "methods": list(expected.methods),
        "metrics": list(expected.metrics),
        "evaluations": expected.evaluations,
        "estimated": expected.seconds,
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - cpu_start,
        "estimating": estimating,
        "cpu_estimating": cpu_estimating,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "load": [load_before, os.getloadavg()[0]],
        "versions": dict(versions()),
    }


def page(record: dict[str, Any]) -> str:
    """What was measured, in sentences."""
    seconds, estimated, cores = record["seconds"], record["estimated"], record["cores"]
    ratio = max(estimated / seconds, seconds / estimated)
    methods = ", ".join(f"`{name}`" for name in record["methods"] if name not in ("random", "trivial"))
    metrics = ", ".join(f"`{name}`" for name in record["metrics"])
    before, after = record["load"]
    shared = (
        f" Other programs kept the cores busy meanwhile (load average {before:.1f} before, {after:.1f} after), so the "
        "wall time is not that of a quiet machine; CPU time is what one core takes."
    )
    machine = f"{cores} cores.{shared if max(before, after) > cores else ''}"
    lines = [
        "# An evaluation with defaults",
        f"`{record['command']}`, with the embedded model: {methods}, `random` and `trivial` as controls, by "
        f"{metrics};\nabout {record['evaluations']:,} evaluations of the model.",
        f"- CPU time of the run with its report: {record['cpu']:.0f} s (threads: {record['threads']}); of the estimate "
        f"before it: {record['cpu_estimating']:.0f} s.\n"
        f"- Wall time: {seconds:.0f} s; the estimate, timed on {record['timed']} texts: {estimated:.0f} s, a factor of "
        f"{ratio:.2f} away.",
        f"Measured with torch {record['versions']['torch']} on {machine}",
        "Made by `python -m benchmarks.evaluation`.",
    ]
    return "\n\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
