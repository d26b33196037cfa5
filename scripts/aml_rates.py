"""Chooses the learning rates of a masking recipe on validation texts: of training, and of refinement.

    python scripts/aml_rates.py --recipe recipes/aml/sst2.toml --device cuda --workers 12 --out rates.json

For every rate explainers are trained with the same draws of the loss's weights, and the best draw's value on the
validation texts is compared. The best explainer of every rate is then refined with each of the refinement's rates. Test
texts have no part in it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import numpy as np

from didact.experiments.engine.kinds import read_recipe
from didact.experiments.engine.steps import RunOptions
from didact.experiments.masking.job import MaskingJob
from didact.experiments.masking.recipe import PRESET, MaskingRecipe
from didact.experiments.masking.tuning import tunable
from didact.trained.explainer import LearnedExplainer
from didact.trained.presets.base import PRESETS, TrainingInput
from didact.trained.refine import RefineConfig, RefinedExplainer

Row = dict[str, Any]


def main() -> None:
    """Compare the rates and write every value."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--metrics", nargs="+", default=["suff", "comp"])
    parser.add_argument("--rates", nargs="+", type=float, default=[4e-5, 1e-4, 2e-4, 4e-4, 1e-3])
    parser.add_argument("--refined", nargs="+", type=float, default=[4e-5, 2e-4, 1e-3], help="rates of refinement")
    parser.add_argument("--steps", nargs="+", type=int, default=[10], help="of refinement")
    parser.add_argument("--texts", type=int, default=100, help="validation texts that are refined")
    parser.add_argument("--draws", type=int, default=6, help="of the weights, the same for every rate")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device")
    parser.add_argument("--keep", type=Path, default=Path("runs/rates"), help="folder of the trained explainers")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    draws = np.random.default_rng(0).random((args.draws, 3)).round(3).tolist()
    jobs = list(itertools.product(args.metrics, args.rates, enumerate(draws)))
    with ProcessPoolExecutor(args.workers, get_context("spawn"), _start, (args,)) as pool:
        trained = list(pool.map(_train, jobs))
        _report(trained, args.out, ("metric", "rate"))
        best = [_best(group) for group in _groups(trained, ("metric", "rate"))]
        refined = list(pool.map(_refine, itertools.product(best, args.refined, args.steps)))
    _report(trained + refined, args.out, ("metric", "rate", "refined", "steps"))


_STATE: dict[str, Any] = {}


def _start(args: argparse.Namespace) -> None:
    recipe = cast("MaskingRecipe", read_recipe(args.recipe)[1])
    _STATE.update(args=args, job=MaskingJob(recipe, RunOptions(args.keep, device=args.device)))


def _train(given: tuple[str, float, tuple[int, Sequence[float]]]) -> Row:
    metric, rate, (number, weights) = given
    job: MaskingJob = _STATE["job"]
    judge, named = job.recipe.judge(metric), dict(zip(tunable(PRESET), weights, strict=True))
    own = {"level": job.recipe.level, **job.recipe.explainer, **named}
    own |= {"learning_rate": rate, "epochs": _STATE["args"].epochs}
    given_texts = TrainingInput(
        model=job.model, examples=job.texts["train"], validation=job.validation, held_out=0.0, judge=judge
    )
    began = time.perf_counter()
    explainer = PRESETS.get(PRESET).configured(**own).train(given_texts)
    seconds = time.perf_counter() - began
    value = judge.mean(job.model, explainer.explain(job.model, job.validation))
    place = _STATE["args"].keep / f"{job.name}-{metric}-{rate}-{number}"
    explainer.save_pretrained(place)
    print(metric, rate, named, round(value, 4), f"{seconds:.0f} s", file=sys.stderr, flush=True)
    better = -value if judge.lower_is_better else value
    return {"metric": metric, "rate": rate, "weights": named, "value": value, "order": better, "place": str(place)}


def _refine(given: tuple[Row, float, int]) -> Row:
    row, rate, steps = given
    job: MaskingJob = _STATE["job"]
    judge = job.recipe.judge(row["metric"])
    learned = LearnedExplainer.from_pretrained(row["place"], model=job.model, device=str(job.model.network.device))
    explainer = RefinedExplainer(learned, RefineConfig(steps=steps, learning_rate=rate), judge=judge)
    texts = job.validation[: _STATE["args"].texts]
    began = time.perf_counter()
    value = judge.mean(job.model, explainer.explain(job.model, texts))
    seconds = time.perf_counter() - began
    print(row["metric"], row["rate"], rate, steps, round(value, 4), f"{seconds:.0f} s", file=sys.stderr, flush=True)
    better = -value if judge.lower_is_better else value
    return {**row, "refined": rate, "steps": steps, "value": value, "order": better}


def _groups(rows: Sequence[Row], names: Sequence[str]) -> list[list[Row]]:
    keys = list(dict.fromkeys(tuple(row.get(name) for name in names) for row in rows))
    return [[row for row in rows if tuple(row.get(name) for name in names) == key] for key in keys]


def _best(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda row: float(row["order"]))


def _report(rows: Sequence[Row], out: Path, names: Sequence[str]) -> None:
    """All values as JSON, and the best of every group on the terminal."""
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = [{name: value for name, value in row.items() if name not in ("order", "place")} for row in rows]
    out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for group in _groups(rows, names):
        row = _best(group)
        print(*(f"{name} {row.get(name)}" for name in names), f"value {row['value']:.4f}", row["weights"], flush=True)


if __name__ == "__main__":
    main()
