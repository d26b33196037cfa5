"""Chooses settings of a masking recipe on validation texts: of training, and of refinement.

    python scripts/aml_rates.py --recipe recipes/aml/sst2.toml --device cuda --workers 12 --out rates.json

For every combination of learning rate, masking, number of training texts and batch, explainers are trained with the
same draws of the loss's weights, and the best draw's value on the validation texts is compared. The best explainer of
every combination is then refined with each of the refinement's rates. Test texts have no part in it.
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
from didact.provenance import content_hash
from didact.trained.explainer import LearnedExplainer
from didact.trained.presets.base import PRESETS, TrainingInput
from didact.trained.refine import RefineConfig, RefinedExplainer

Row = dict[str, Any]
AXES = ("metric", "rate", "masking", "texts", "rows")


def main() -> None:
    """Compare the rates and write every value."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--metrics", nargs="+", default=["suff", "comp"])
    parser.add_argument("--rates", nargs="+", type=float, default=[4e-5, 1e-4, 2e-4, 4e-4, 1e-3])
    parser.add_argument("--maskings", nargs="+", default=["soft"])
    parser.add_argument("--texts", nargs="+", type=int, default=[1000], help="training texts")
    parser.add_argument("--rows", nargs="+", type=int, default=[20], help="texts of a batch")
    parser.add_argument("--refined", nargs="+", type=float, default=[4e-5, 2e-4, 1e-3], help="rates of refinement")
    parser.add_argument("--steps", nargs="+", type=int, default=[10], help="of refinement")
    parser.add_argument("--checked", type=int, default=100, help="validation texts that are refined")
    parser.add_argument("--draws", type=int, default=6, help="of the weights, the same for every rate")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device")
    parser.add_argument("--keep", type=Path, default=Path("runs/rates"), help="folder of the trained explainers")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    draws = np.random.default_rng(0).random((args.draws, 3)).round(3).tolist()
    axes = (args.metrics, args.rates, args.maskings, args.texts, args.rows)
    jobs = [dict(zip(AXES, each, strict=True)) | {"draw": draw} for each in itertools.product(*axes) for draw in draws]
    with ProcessPoolExecutor(args.workers, get_context("spawn"), _start, (args,)) as pool:
        trained = list(pool.map(_train, jobs))
        _report(trained, args.out, AXES)
        best = [_best(group) for group in _groups(trained, AXES)]
        refined = list(pool.map(_refine, itertools.product(best, args.refined, args.steps)))
    _report(trained + refined, args.out, (*AXES, "refined", "steps"))


_STATE: dict[str, Any] = {}


def _start(args: argparse.Namespace) -> None:
    recipe = cast("MaskingRecipe", read_recipe(args.recipe)[1])
    _STATE.update(args=args, job=MaskingJob(recipe, RunOptions(args.keep, device=args.device)))


def _train(row: Row) -> Row:
    job: MaskingJob = _STATE["job"]
    judge, named = job.recipe.judge(row["metric"]), dict(zip(tunable(PRESET), row["draw"], strict=True))
    own = {"level": job.recipe.level, **job.recipe.explainer, **named, "masking": row["masking"]}
    own |= {"learning_rate": row["rate"], "epochs": _STATE["args"].epochs, "fit": {"batch_rows": row["rows"]}}
    given = TrainingInput(
        model=job.model,
        examples=job.texts["train"][: row["texts"]],
        validation=job.validation,
        held_out=0.0,
        judge=judge,
    )
    began = time.perf_counter()
    explainer = PRESETS.get(PRESET).configured(**own).train(given)
    seconds = time.perf_counter() - began
    value = judge.mean(job.model, explainer.explain(job.model, job.validation))
    place = _STATE["args"].keep / content_hash([job.name, row])
    explainer.save_pretrained(place)
    better = -value if judge.lower_is_better else value
    made = {**row, "weights": named, "value": value, "seconds": seconds, "order": better, "place": str(place)}
    print(_line(made, (*AXES, "seconds")), file=sys.stderr, flush=True)
    return made


def _refine(given: tuple[Row, float, int]) -> Row:
    row, rate, steps = given
    job: MaskingJob = _STATE["job"]
    judge = job.recipe.judge(row["metric"])
    learned = LearnedExplainer.from_pretrained(row["place"], model=job.model, device=str(job.model.network.device))
    explainer = RefinedExplainer(learned, RefineConfig(steps=steps, learning_rate=rate), judge=judge)
    texts = job.validation[: _STATE["args"].checked]
    began = time.perf_counter()
    value = judge.mean(job.model, explainer.explain(job.model, texts))
    seconds = time.perf_counter() - began
    better = -value if judge.lower_is_better else value
    made = {**row, "refined": rate, "steps": steps, "value": value, "seconds": seconds, "order": better}
    print(_line(made, (*AXES, "refined", "steps", "seconds")), file=sys.stderr, flush=True)
    return made


def _groups(rows: Sequence[Row], names: Sequence[str]) -> list[list[Row]]:
    keys = list(dict.fromkeys(tuple(row.get(name) for name in names) for row in rows))
    return [[row for row in rows if tuple(row.get(name) for name in names) == key] for key in keys]


def _best(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda row: float(row["order"]))


def _report(rows: Sequence[Row], out: Path, names: Sequence[str]) -> None:
    """All values as JSON, and the best of every group on the terminal."""
    out.parent.mkdir(parents=True, exist_ok=True)
    kept = [{name: value for name, value in row.items() if name not in ("order", "place", "draw")} for row in rows]
    out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for group in _groups(rows, names):
        print(_line(_best(group), names), flush=True)


def _line(row: Row, names: Sequence[str]) -> str:
    shown = [
        f"{name} {row[name]:g}" if isinstance(row[name], float) else str(row[name]) for name in names if name in row
    ]
    return f"{row['value']:.4f} {' '.join(shown)} {row['weights']}"


if __name__ == "__main__":
    main()
