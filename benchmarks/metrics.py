"""How close grading comes to bare, ideally packed forward passes of the same model over the same rows."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.common import Table, Timing, clock, load_network, load_texts, middle, parser, prepare, publish, timed
from benchmarks.planner import BAR, Packing, Work, _bare_rows, _best_packing, _forward, _name, _pack
from didact.attribution.random import Random
from didact.metrics.base import METRICS, BaseMetric
from didact.models.compose import compose
from didact.models.network import NetworkModel
from didact.protocols import Evidence
from didact.types import Explanation, Floats, Keep, Target, Units

NAMES = ("comprehensiveness", "sufficiency", "deletion_area")
TURNS = 3  # of both sides in a round, one after the other; their times are added up


@dataclass(frozen=True)
class Pair:
    """One round: the same rows graded and as bare passes."""

    metric: Timing
    bare: Timing
    rows: int
    tokens: int
    difference: float


class StandIn:
    """Stands in for the model: records which variants a metric requests, and returns values that are known already.

    Args:
        model: whose place it takes.
        shares: probabilities (variants, labels) per text; zeros when not given.
    """

    def __init__(self, model: NetworkModel, shares: Sequence[Floats] = ()) -> None:
        self.default_absence = model.default_absence
        self.shares = shares
        self.keep: list[Keep] = []
        self.absence = ""

    def score(
        self, units: Sequence[Units], targets: Sequence[Target], keep: Sequence[Keep], absence: str | None = None
    ) -> list[Floats]:
        """Record the variants; return the known values, or zeros."""
        self.keep, self.absence = list(keep), str(absence)
        if not self.shares:
            return [np.zeros(len(masks)) for masks in keep]
        return [rows[:, target.index].astype(float) for rows, target in zip(self.shares, targets, strict=True)]


def main() -> None:
    """Run the benchmark."""
    examples = (
        "  python -m benchmarks.metrics --quick\n"
        "  python -m benchmarks.metrics --rounds 10 --threads 1\n"
        "  python -m benchmarks.metrics --texts 200 --out runs/speed"
    )
    options = parser(__doc__ or "", examples)
    options.add_argument("--texts", type=int, default=64, help="texts graded together in a round (default 64)")
    args = options.parse_args()
    if args.quick:
        args.rounds, args.texts = 2, 8
    prepare(args.threads)
    network, tokenizer, which = load_network()
    model = compose(network, tokenizer)
    table, raw = _compare(model, args)
    text = (
        f"Model: {which}. Texts: {args.texts} SST-2 sentences of 15 to 18 words in each round, randomly explained; "
        "a metric gets them all in one call, its time is that of the whole call from explanations to grades. The bare "
        "side has its tensors built beforehand, each distinct row once, rows sorted by length over all texts, and the "
        "best of ten ways to cut them into batches. "
        f"Median and range over {args.rounds} interleaved rounds of {TURNS} turns, each round with other texts."
    )
    publish("metrics", text, [table], raw, args)


def _compare(model: NetworkModel, args: argparse.Namespace) -> tuple[Table, object]:
    texts = load_texts(args.texts * args.rounds)
    explained = [Random().explain(model, texts[number :: args.rounds]) for number in range(args.rounds)]
    rows, raw = [], {}
    for name in NAMES:
        metric = METRICS.get(name)()
        work, absence = _work(model, metric, explained[0])
        packing = _best_packing(model, work, absence, args)
        pairs = []
        for number, explanations in enumerate(explained):
            pairs.append(_round(model, metric, explanations, packing, number % 2 == 0))
            ratio = _ratio(pairs[-1], clock(args.threads))
            print(f"{name}: round {number + 1}/{args.rounds}, ratio {ratio:.3f}")
        rows.append(_row(name, absence, packing, pairs, clock(args.threads)))
        raw[name] = [{**vars(pair), "metric": vars(pair.metric), "bare": vars(pair.bare)} for pair in pairs]
    kind = "CPU time of one thread" if clock(args.threads) == "cpu" else "wall time"
    notes = [
        f"Bar: at least {BAR} of the bare throughput. Times are {kind}.",
        "Difference: largest between a grade and the same grade computed from the bare side's logits.",
    ]
    columns = ["metric", "absent units", "rows", "metric, rows/s", "bare, rows/s", "ratio", "bare batches, tokens"]
    return Table("Throughput", [*columns, "difference"], rows, notes), raw


def _row(name: str, absence: str, packing: Packing, pairs: Sequence[Pair], which: str) -> list[str]:
    return [
        f"`{name}`",
        f'"{absence}"',
        f"{statistics.median(pair.rows for pair in pairs):.0f}",
        middle([TURNS * pair.rows / getattr(pair.metric, which) for pair in pairs], 0),
        middle([TURNS * pair.rows / getattr(pair.bare, which) for pair in pairs], 0),
        f"**{middle([_ratio(pair, which) for pair in pairs], 3)}**",
        _name(packing),
        f"{max(pair.difference for pair in pairs):.1e}",
    ]


def _ratio(pair: Pair, which: str) -> float:
    return float(getattr(pair.bare, which) / getattr(pair.metric, which))


def _work(model: NetworkModel, metric: BaseMetric, explanations: Sequence[Explanation]) -> tuple[Work, str]:
    """The variants that a metric requests, and its absence operator."""
    stand_in = StandIn(model)
    metric.measure(Evidence(explanations, stand_in))  # type: ignore[arg-type] # has what metrics use
    units = [explanation.units for explanation in explanations]
    return Work(units, stand_in.keep, explanations[0].target), stand_in.absence


def _round(
    model: NetworkModel, metric: BaseMetric, explanations: Sequence[Explanation], packing: Packing, metric_first: bool
) -> Pair:
    work, absence = _work(model, metric, explanations)
    owner, rows = _bare_rows(model, work, absence)
    batches = _pack(rows, packing)
    values: list[float] = []
    logits: list[Tensor] = []

    def grade() -> None:
        values[:] = [each.value for each in metric.measure(Evidence(explanations, model))]

    def bare() -> None:
        logits[:] = _forward(model.network, [batch for batch, _ in batches])

    sides = (grade, bare) if metric_first else (bare, grade)
    times = [[timed(side) for side in sides] for _ in range(TURNS)]
    first, second = (_sum([turn[at] for turn in times]) for at in ((0, 1) if metric_first else (1, 0)))
    shares = torch.cat(logits)[torch.argsort(torch.cat([order for _, order in batches]))].softmax(-1).numpy()
    known = StandIn(model, [shares[numbers] for numbers in owner])
    again = metric.measure(Evidence(explanations, known))  # type: ignore[arg-type] # has what metrics use
    gap = max(abs(value - other.value) for value, other in zip(values, again, strict=True))
    return Pair(first, second, len(rows), sum(len(row["input_ids"]) for row in rows), float(gap))


def _sum(times: Sequence[Timing]) -> Timing:
    return Timing(sum(timing.wall for timing in times), sum(timing.cpu for timing in times))


if __name__ == "__main__":
    main()
