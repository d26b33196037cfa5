"""Noise in, nothing out: how often reports claim what is not there, and how often intervals hold the truth.

    python scripts/trust_statistics.py --workers 16      # everything; writes docs/results/trust/statistics.json
    python scripts/trust_statistics.py --reports 10 --repetitions 200 --out runs/statistics.json

1. ``didact.evaluate`` on explanations that are pure noise: four explainers that draw their scores at random, beside the
   controls, on ``--texts`` generated reviews and a function model whose words have random weights, a few of them large.
   Metrics of faithfulness and plausibility; records, tests and headlines are those of the public function.
2. ``didact.simulate`` on three such explainers with the students that are solved in closed form, all four controls.
3. The whole report: any significant difference, on any metric, between two explainers that both are noise, or between
   one and its shuffled copy.
4. Intervals of means: how many of ``--repetitions`` samples have an interval that holds the true mean, and how many
   have none, for several distributions and sizes. Beside them the test of a mean: how often it rejects a true one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import didact
from didact.attribution.base import Attribution, Outcome, generator
from didact.data.corpus import generate
from didact.experiments.grading.report.findings import GradingFindings
from didact.experiments.simulability.findings import SimulabilityFindings
from didact.models.load import load_model
from didact.protocols import Model
from didact.provenance import versions
from didact.stats.bootstrap import interval, intervals
from didact.stats.means import mean_tests
from didact.stats.paired import signed_rank
from didact.types import Card, Cost, Floats, Target, Units

METRICS = ("comprehensiveness", "sufficiency", "log_odds_difference", "prediction_agreement", "rationale_auc")
SIZES = (20, 50, 200)
ALPHA = 0.05

DISTRIBUTIONS: dict[str, tuple[float, Callable[[np.random.Generator, tuple[int, int]], Floats]]] = {
    "normal": (0.0, lambda rng, shape: rng.normal(size=shape)),
    "lognormal": (math.exp(0.5), lambda rng, shape: rng.lognormal(size=shape)),
    "Bernoulli(.1)": (0.1, lambda rng, shape: (rng.random(shape) < 0.1).astype(np.float64)),
    "exponential": (1.0, lambda rng, shape: rng.exponential(size=shape)),
    "Bernoulli(.5)": (0.5, lambda rng, shape: (rng.random(shape) < 0.5).astype(np.float64)),
}
"""Name -> true mean, and how it is drawn."""
BARRED = ("normal", "lognormal", "Bernoulli(.1)")
TEXT = """Explainers that draw their scores at random, through whole reports of `didact.evaluate` (40 texts, four such
explainers beside the controls, five metrics) and `didact.simulate` (three such explainers, 40 training texts). Below,
intervals of the mean of n numbers, and how often the two-sided test at 5 % rejects the true mean (500 of the samples):
it rejects too often for few and very skewed numbers. The correction of intervals for skewness was chosen on the first
three of these distributions."""


@dataclass(frozen=True, kw_only=True)
class Noise(Attribution):
    """Scores drawn from the text and a seed; a method as far as any report can see."""

    card = Card(
        name="noise",
        family="perturbation",
        summary="Random scores.",
        reference="a test",
        cost="1 forward",
        seeded=False,
    )

    number: int = 0

    def attribute(self, model: Model, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Draw."""
        return [Outcome(generator(1000 + self.number, unit.example).normal(size=len(unit)), None) for unit in units]

    def cost(self, units: Units) -> Cost:
        """Only the plain prediction."""
        return Cost(forwards=1)


def word_weights(seed: int) -> Callable[[list[str]], Floats]:
    """A function model: each word has a random weight with long tails, so that a few words decide."""

    def probabilities(texts: list[str]) -> Floats:
        sums = np.array([sum(_weight(word, seed) for word in text.lower().split()) for text in texts])
        positive = 1 / (1 + np.exp(-sums))
        return np.stack([1 - positive, positive], axis=1)

    return probabilities


def _weight(word: str, seed: int) -> float:
    digest = hashlib.md5(f"{seed} {word}".encode(), usedforsecurity=False).digest()
    uniform = (int.from_bytes(digest[:6], "big") + 0.5) / 2**48
    return float(np.clip(math.tan(math.pi * (uniform - 0.5)) / 3, -6, 6))


def evaluated(job: tuple[int, int]) -> dict[str, object]:
    """One report of ``didact.evaluate`` on noise: its headlines, and the differences that it claims."""
    seed, texts = job
    with tempfile.TemporaryDirectory() as folder:
        result = didact.evaluate(
            generate(texts, seed=seed),
            load_model(word_weights(seed), labels=("negative", "positive")),
            {f"noise{number}": Noise(number=10 * seed + number) for number in range(4)},
            METRICS,
            out=Path(folder) / "run",
            progress=False,
        )
        findings = result.findings
        return {
            "seed": seed,
            "winner": any(_claims(line) for line in result.answers),
            "difference": _any_difference(findings),
            "metrics that count": len(findings.sound),
            "headlines": result.answers,
            "needed": findings.summary.fewest,
        }


def simulated(job: tuple[int, int]) -> dict[str, object]:
    """One report of ``didact.simulate`` on noise, likewise."""
    seed, texts = job
    with tempfile.TemporaryDirectory() as folder:
        result = didact.simulate(
            [example.text for example in generate(3 * texts, seed=seed)],
            load_model(word_weights(seed), labels=("negative", "positive")),
            {f"noise{number}": Noise(number=10 * seed + number) for number in range(3)},
            ["ridge"],
            sizes=[texts],
            subsets=5,
            seed=seed,
            out=Path(folder) / "run",
            progress=False,
        )
        findings = result.findings
        return {
            "seed": seed,
            "winner": any(_claims(line) for line in result.answers),
            "difference": _any_simulated(findings),
            "headlines": result.answers,
            "needed": findings.verdict.fewest,
        }


def _claims(line: str) -> bool:
    """Whether a headline puts an explainer forward."""
    neutral = ("No ", "On no metric", "Not enough", "Warning", "no significant")
    named = "noise" in line and not line.startswith(neutral) and "no significant difference" not in line
    return named and "no explanation helps" not in line


def _any_difference(findings: GradingFindings) -> bool:
    """Whether two explainers that both are noise differ on any metric, or one beats its shuffled copy."""
    noise = [info.label for info in findings.run.measured.explainers if info.method in ("noise", "random")]
    for column in findings.summary.columns:
        if any(set(column.beats(label)) & set(noise) for label in noise if label in column.cells):
            return True
        if any(check.p < ALPHA for checks in column.checks.values() for check in checks.values()):
            return True
    return False


def _any_simulated(findings: SimulabilityFindings) -> bool:
    """Whether an explainer is said to gain over none, to help, or to teach best."""
    return any(one.helps or one.teaches or one.leads for one in findings.verdict.gains if not one.control)


def covered(job: tuple[str, int, int]) -> dict[str, object]:
    """How often the interval of a mean holds it, and how often there is none; and errors of the test of a mean."""
    name, n, repetitions = job
    mean, draw = DISTRIBUTIONS[name]
    values = draw(np.random.default_rng([n, len(name)]), (repetitions, n))
    ends = [(one.low, one.high) for one in intervals(values)]
    given = [(low, high) for low, high in ends if math.isfinite(low)]
    held = [low <= mean <= high for low, high in given]
    own = [mean_tests(row[None] - mean).p[0] < ALPHA for row in values[: min(repetitions, 500)]]
    ranked = [test.p < ALPHA for test in signed_rank(values - mean)]
    return {
        "distribution": name,
        "n": n,
        "covered": round(float(np.mean(held)), 4) if held else None,
        "refused": round(1 - len(given) / repetitions, 4),
        "too low": round(float(np.mean([high < mean for _, high in given])), 4) if given else None,
        "too high": round(float(np.mean([low > mean for low, _ in given])), 4) if given else None,
        "test of the mean rejects": round(float(np.mean(own)), 4),
        "signed-rank test rejects": round(float(np.mean(ranked)), 4),
    }


def share(rows: Sequence[dict[str, object]], key: str) -> dict[str, object]:
    """How many of the reports, with the interval of the share."""
    found = [float(bool(row[key])) for row in rows]
    ends = interval(found)
    return {"reports": len(rows), "count": int(sum(found)), "share": float(np.mean(found)), "high": ends.high}


def figures(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The record as the page of trust shows it."""
    rows = []
    for name in ("evaluate", "simulate"):
        for key, what in (("winner", "a headline puts noise forward"), ("difference", "any difference significant")):
            seen = result[name][key]
            value = f"{seen['count']} of {seen['reports']} (interval of the share up to {seen['high']:.3f})"
            rows.append({"what": f"{name}: reports in which {what}", "value": value, "bar": "at most 5 %"})
    for cell in result["intervals"]:
        bar = ".93 to .97" if cell["distribution"] in BARRED else ""
        value = f"{cell['covered']:.3f}; refused {cell['refused']:.3f}; test rejects {cell['test of the mean rejects']}"
        what = f"{cell['distribution']}, n = {cell['n']}: intervals that hold the mean"
        rows.append({"what": what, "value": value, "bar": bar})
    return rows


def main() -> None:
    """Run everything and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--reports", type=int, default=200, help="reports of each kind")
    parser.add_argument("--texts", type=int, default=40, help="texts of an evaluation; training texts of a student")
    parser.add_argument("--repetitions", type=int, default=2000, help="samples per distribution and size")
    parser.add_argument("--seed", type=int, default=0, help="of the first report")
    parser.add_argument("--out", type=Path, default=Path("docs/results/trust/statistics.json"))
    args = parser.parse_args()
    began = time.time()
    seeds = [(args.seed + number, args.texts) for number in range(args.reports)]
    cells = [(name, n, args.repetitions) for name in DISTRIBUTIONS for n in SIZES]
    with ProcessPoolExecutor(args.workers) as pool:
        coverage = _collected("intervals", pool.map(covered, cells))
        simulations = _collected("simulate", pool.map(simulated, seeds))
        evaluations = _collected("evaluate", pool.map(evaluated, seeds))
    result: dict[str, object] = {
        "command": f"python scripts/trust_statistics.py --reports {args.reports} --texts {args.texts} "
        f"--repetitions {args.repetitions} --seed {args.seed}",
        "evaluate": {key: share(evaluations, key) for key in ("winner", "difference")},
        "simulate": {key: share(simulations, key) for key in ("winner", "difference")},
        "claims": [row for row in (*evaluations, *simulations) if row["winner"] or row["difference"]],
        "texts needed for a verdict": {"evaluate": evaluations[0]["needed"], "simulate": simulations[0]["needed"]},
        "text": TEXT,
        "first report of evaluate": evaluations[0]["headlines"],
        "first report of simulate": simulations[0]["headlines"],
        "intervals": coverage,
        "minutes": round((time.time() - began) / 60, 1),
        "workers": args.workers,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": dict(versions()),
    }
    result["figures"] = figures(result)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps({key: result[key] for key in ("evaluate", "simulate", "intervals", "minutes")}, indent=1))


def _collected(name: str, rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    collected = []
    for number, row in enumerate(rows, 1):
        collected.append(row)
        print(f"{name}: {number} done", flush=True)
    return collected


if __name__ == "__main__":
    main()
