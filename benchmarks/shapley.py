"""How many evaluations Shapley estimators need: mean absolute error against evaluations, next to captum's KernelShap.

The embedded model's probability is tabled once for every coalition of the words of short texts, which gives the exact
Shapley values. Every estimator then reads the table instead of the model, so that many seeds cost little.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import math
import multiprocessing
import multiprocessing.pool
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import didact
from didact.attribution.base import Attribution
from didact.attribution.kernel_shap import KernelShap
from didact.attribution.shapley_sampling import ShapleySampling
from didact.data.corpus import generate
from didact.models.compose import compose
from didact.models.half_precision import HalfPrecision
from didact.models.network import NetworkModel
from didact.provenance import versions
from didact.types import Floats, Keep, Target, Units

BUDGETS = (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
BAR = 0.01
ROWS = 1 << 15
"""Coalitions that the model sees at once."""
AGREEMENT = 1e-2
"""How far a tabled probability may lie from a scored one; on a GPU the model counts in half precision."""
RIVAL = "captum KernelShap"
OURS: dict[str, Callable[[int, int], Attribution]] = {
    "kernel_shap": lambda evaluations, seed: KernelShap(evaluations=evaluations, seed=seed),
    "kernel_shap, fit=linear": lambda evaluations, seed: KernelShap(evaluations=evaluations, seed=seed, fit="linear"),
    "shapley_sampling": lambda evaluations, seed: ShapleySampling(evaluations=evaluations, seed=seed),
}
COLOURS = ("#c44e52", "#4c72b0", "#55a868", "#8172b3")


@dataclass(frozen=True, eq=False)
class Game:
    """The model's output for every coalition of the units of one text: unit i is bit i of the place in the table."""

    units: Units
    target: Target
    table: NDArray[np.float32]

    def at(self, keep: Keep) -> Floats:
        """The outputs for keep masks (variants, units)."""
        values = self.table[keep.astype(np.int64) @ (1 << np.arange(len(self.units)))]
        return values.astype(np.float64)

    def score(
        self, units: Sequence[Units], targets: Sequence[Target], keep: Sequence[Keep], absence: str | None = None
    ) -> list[Floats]:
        """What an attribution needs of a model."""
        return [self.at(rows) for rows in keep]


@dataclass(frozen=True)
class Point:
    """One estimator at one budget, over all texts and seeds."""

    estimator: str
    evaluations: int
    error: float
    standard_error: float
    claimed: float


def main() -> None:
    """Table the games, run the estimators, write the page."""
    options = _options()
    torch.set_num_threads(options.threads)
    games = _games(options)
    names = [*([RIVAL] if importlib.util.find_spec("captum") is not None else []), *OURS]
    points = []
    with _pool(games, options.processes) as pool:
        truth = pool.map(_exact_of, range(len(games)), chunksize=1)
        for name in names:
            for budget in (b for b in BUDGETS if b <= options.most):
                seeds = options.rival_seeds if name == RIVAL else options.seeds
                estimates = pool.map(partial(_estimates, name, budget, seeds), range(len(games)), chunksize=1)
                points.append(_point(name, budget, estimates, truth))
                print(f"{name:24} {budget:5} evaluations: error {points[-1].error:.5f}", flush=True)
    needed = {name: reaching([p for p in points if p.estimator == name], BAR) for name in names}
    for name, count in needed.items():
        print(f"{name:24} reaches {BAR} with {count:.0f} evaluations")
    if options.out is not None:
        _write(options.out, points, needed, games, options)


def exact(game: Game) -> Floats:
    """Shapley values from their definition, over all coalitions."""
    n = len(game.units)
    codes = np.arange(1 << n)
    sizes = ((codes[:, None] >> np.arange(n)) & 1).sum(axis=1)
    weights = np.array([1 / (n * math.comb(n - 1, size)) for size in range(n)])
    values = np.zeros(n)
    for unit in range(n):
        without = codes[(codes >> unit) & 1 == 0]
        values[unit] = weights[sizes[without]] @ (game.table[without | 1 << unit] - game.table[without])
    return values


def reaching(points: Sequence[Point], bar: float) -> float:
    """Evaluations at which the curve, straight between its points on logarithmic axes, first meets the bar."""
    for before, after in zip([None, *points[:-1]], points, strict=True):
        if after.error <= bar:
            if before is None:
                return float(after.evaluations)
            share = math.log(before.error / bar) / math.log(before.error / after.error)
            return float(before.evaluations * (after.evaluations / before.evaluations) ** share)
    return math.nan


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="examples:\n  python -m benchmarks.shapley --texts 60 --units 12-13\n"
        "  python -m benchmarks.shapley --texts 200 --units 12-20 --device cuda --processes 15",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--texts", type=int, default=60, help="texts of the generated corpus (default 60)")
    parser.add_argument("--units", default="12-13", help="how many words they have, at most 20 (default 12-13)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each estimator (default 5)")
    parser.add_argument("--rival-seeds", type=int, default=1, help="seeds of captum's, which is slow (default 1)")
    parser.add_argument("--most", type=int, default=BUDGETS[-1], help="largest budget of the curve")
    parser.add_argument("--device", default="cpu", help="where the model tables the coalitions (default cpu)")
    parser.add_argument("--threads", type=int, default=1, help="threads of the model (default 1)")
    parser.add_argument("--processes", type=int, default=1, help="processes of the estimators (default 1)")
    parser.add_argument("--cache", type=Path, default=Path("runs/shapley"), help="folder of the tables")
    parser.add_argument("--out", type=Path, help="folder for shapley.md, .json and .svg; nothing is written without")
    return parser.parse_args()


def _games(options: argparse.Namespace) -> list[Game]:
    least, most = (int(part) for part in options.units.split("-"))
    model = didact.load_model()
    if not isinstance(model, NetworkModel):
        raise TypeError("the embedded model should be a text model")
    if options.device != "cpu":
        model = HalfPrecision(compose(model.network.to(options.device), model.tokenizer))
    options.cache.mkdir(parents=True, exist_ok=True)
    pool = model.units(generate(200 + 25 * options.texts))
    chosen = [units for units in pool if least <= len(units) <= min(most, 20)][: options.texts]
    if len(chosen) < options.texts:
        raise ValueError(f"only {len(chosen)} of {len(pool)} texts have {options.units} words; use fewer texts")
    return [_game(model, units, options.cache) for units in chosen]


def _game(model: NetworkModel, units: Units, cache: Path) -> Game:
    prediction = model.predict([units.example])[0]
    target = Target(prediction.index, prediction.label, "probability")
    place = cache / f"{model.fingerprint()[:12]}-{units.example.fingerprint}-{len(units)}.npy"
    if not place.exists():
        np.save(place, _tabled(model, units, target))
    return Game(units, target, np.load(place))


@torch.inference_mode()
def _tabled(model: NetworkModel, units: Units, target: Target) -> NDArray[np.float32]:
    """The target's probability for every coalition: all rows are made on the device, held against ``score``."""
    (encoding,) = model.reader.encode([units.example])
    device = model.network.device
    owner = torch.full((len(encoding.ids),), len(units), device=device)  # the unit of each position, or none
    for number, positions in enumerate(units.positions):
        owner[list(positions)] = number
    ids = torch.from_numpy(encoding.ids).to(device)
    absent = torch.tensor(model.tokenizer.mask_token_id, device=device)
    parts = []
    for start in range(0, 1 << len(units), ROWS):
        codes = torch.arange(start, min(start + ROWS, 1 << len(units)), device=device)
        present = (codes[:, None] >> owner) & 1 == 1
        rows = torch.where(present | (owner == len(units)), ids, absent)
        logits = model.network(input_ids=rows, attention_mask=torch.ones_like(rows)).logits
        parts.append(logits.float().softmax(-1)[:, target.index])
    table: NDArray[np.float32] = torch.cat(parts).cpu().numpy()
    some = np.random.default_rng(0).integers(len(table), size=32)
    (scored,) = model.score([units], [target], [(some[:, None] >> np.arange(len(units)) & 1).astype(np.bool_)])
    if np.abs(scored - table[some]).max() > AGREEMENT:
        raise ValueError(f"the table of {units.example.text!r} is not what the model scores")
    return table


_GAMES: list[Game] = []
"""What the processes of the pool share: they are forked, so tables of megabytes need not travel."""


def _pool(games: Sequence[Game], processes: int) -> multiprocessing.pool.Pool:
    _GAMES[:] = games
    return multiprocessing.get_context("fork").Pool(processes, initializer=torch.set_num_threads, initargs=(1,))


def _exact_of(number: int) -> Floats:
    return exact(_GAMES[number])


def _estimates(name: str, budget: int, seeds: int, number: int) -> list[tuple[Floats, float]]:
    game = _GAMES[number]
    if name == RIVAL:
        return [_captum(game, budget, seed) for seed in range(seeds)]
    return [_ours(OURS[name], game, budget, seed) for seed in range(seeds)]


def _point(name: str, budget: int, estimates: list[list[tuple[Floats, float]]], truth: Sequence[Floats]) -> Point:
    errors = np.array(
        [[np.abs(values - exactly).mean() for values, _ in own] for own, exactly in zip(estimates, truth, strict=True)]
    )
    claims = np.array([[claim for _, claim in own] for own in estimates])
    spread = errors.mean(axis=1).std(ddof=1) / math.sqrt(len(estimates))
    return Point(name, budget, float(errors.mean()), float(spread), float(claims.mean()))


def _ours(make: Callable[[int, int], Attribution], game: Game, budget: int, seed: int) -> tuple[Floats, float]:
    """Shapley values, and the error that they claim (NaN where they claim none)."""
    (outcome,) = make(budget - 2, seed).attribute(game, [game.units], [game.target])  # full and empty are two
    return outcome.scores, outcome.details.get("mean_standard_error", math.nan)


def _captum(game: Game, budget: int, seed: int) -> tuple[Floats, float]:
    from captum.attr import KernelShap as Theirs  # may be absent

    torch.manual_seed(seed)
    n = len(game.units)
    forward = lambda rows: torch.from_numpy(game.at(rows.numpy() > 0.5))  # noqa: E731
    values = Theirs(forward).attribute(
        torch.ones(1, n), baselines=torch.zeros(1, n), n_samples=budget, perturbations_per_eval=budget
    )
    return torch.as_tensor(values[0]).double().numpy(), math.nan


def _write(
    out: Path, points: Sequence[Point], needed: dict[str, float], games: Sequence[Game], options: argparse.Namespace
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    sizes = sorted({len(game.units) for game in games})
    record = {
        "texts": len(games),
        "units": sizes,
        "seeds": options.seeds,
        "rival_seeds": options.rival_seeds,
        "device": options.device,
        "processes": options.processes,
        "scale": "probability",
        "truth": "all coalitions",
        "bar": BAR,
        "needed": needed,
        "points": [vars(point) for point in points],
        "versions": {**versions(), **_captum_version()},
    }
    text = json.dumps(record, indent=1).replace("NaN", "null")
    (out / "shapley.json").write_text(text + "\n", encoding="utf-8")
    (out / "shapley.svg").write_text(chart(points), encoding="utf-8")
    (out / "shapley.md").write_text(_page(points, needed, record), encoding="utf-8")


def _captum_version() -> dict[str, str]:
    return {"captum": importlib.metadata.version("captum")} if importlib.util.find_spec("captum") else {}


def _page(points: Sequence[Point], needed: dict[str, float], record: dict[str, Any]) -> str:
    names = list(needed)
    table = {(p.estimator, p.evaluations): p for p in points}
    budgets = sorted({p.evaluations for p in points})
    lines = [
        "# Evaluations that Shapley values need",
        "",
        f"Mean absolute error of the Shapley values of {record['texts']} texts of the generated corpus with "
        f"{record['units'][0]} to {record['units'][-1]} words, {record['seeds']} seeds each ({record['rival_seeds']} "
        "of captum's), on the probability of the predicted class of the embedded model; the truth is every coalition. "
        "Evaluations include the full and the empty text. "
        f"Made by `python -m benchmarks.shapley --texts {record['texts']} "
        f"--units {record['units'][0]}-{record['units'][-1]} --seeds {record['seeds']} --most {budgets[-1]} "
        f"--device {record['device']} --processes {record['processes']}`.",
        "",
        "![error against evaluations](shapley.svg)",
        "",
        "| evaluations | " + " | ".join(names) + " | standard error that kernel_shap states |",
        "|---|" + "---|" * (len(names) + 1),
    ]
    for budget in budgets:
        cells = [f"{table[name, budget].error:.4f}" for name in names]
        lines.append(f"| {budget} | " + " | ".join(cells) + f" | {table['kernel_shap', budget].claimed:.4f} |")
    lines += ["", f"To an error of {record['bar']}:", "", "| estimator | evaluations | of captum's |", "|---|---|---|"]
    for name in names:
        share = f"{needed[name] / needed[RIVAL]:.2f}" if RIVAL in needed else ""
        lines.append(f"| {name} | {needed[name]:.0f} | {share} |")
    used = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return "\n".join([*lines, "", f"{used}.", ""])


def chart(points: Sequence[Point], width: int = 640, height: int = 400) -> str:
    """The curves on logarithmic axes, as SVG."""
    left, top, right, bottom = 60, 16, width - 20, height - 44
    across = [math.log(p.evaluations) for p in points]
    up = [math.log(p.error) for p in points]

    def place(evaluations: float, error: float) -> tuple[float, float]:
        x = (math.log(evaluations) - min(across)) / (max(across) - min(across))
        y = (max(up) - math.log(error)) / (max(up) - min(up))
        return left + x * (right - left), top + y * (bottom - top)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for error in (0.05, 0.02, 0.01, 0.005, 0.002, 0.001):
        if min(up) <= math.log(error) <= max(up):
            _, y = place(math.e ** min(across), error)
            dash = "" if error == BAR else ' stroke-dasharray="2 4"'
            parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#888"{dash}/>')
            parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{error}</text>')
    for evaluations in sorted({p.evaluations for p in points}):
        x, _ = place(evaluations, math.e ** max(up))
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{evaluations}</text>')
    parts.append(f'<text x="{(left + right) / 2}" y="{height - 8}" text-anchor="middle">evaluations</text>')
    parts.append(
        f'<text x="14" y="{(top + bottom) / 2}" text-anchor="middle" transform="rotate(-90 14 '
        f'{(top + bottom) / 2})">mean absolute error</text>'
    )
    for number, name in enumerate(dict.fromkeys(p.estimator for p in points)):
        own = [place(p.evaluations, p.error) for p in points if p.estimator == name]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in own)
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        halo = 'stroke="white" stroke-width="4" paint-order="stroke"'
        parts.append(f'<text x="{right - 190}" y="{top + 16 * (number + 1)}" fill="{colour}" {halo}>{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    main()
