"""How close ``Model.score`` comes to bare, ideally packed forward passes of the same model over the same rows."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from benchmarks.common import (
    Table,
    Timing,
    clock,
    load_long_texts,
    load_network,
    load_texts,
    middle,
    parser,
    prepare,
    publish,
    timed,
    watched,
)
from didact.models.compose import compose
from didact.models.network import NetworkModel
from didact.models.planner import CPU_TOKENS
from didact.ops.coalitions import lime_samples
from didact.types import Example, Floats, Keep, Target, Units

BUDGETS = (512, 1024, 2048, 4096, 8192, 16384)
OPERATORS = ("mask", "drop", "delete")
BAR = 0.9

Batch = dict[str, Tensor]
Packing = tuple[int, bool]  # tokens per batch, and whether only rows of equal length share one


@dataclass(frozen=True, eq=False)
class Work:
    """Some texts and the masked variants of each."""

    units: list[Units]
    keep: list[Keep]
    target: Target


@dataclass(frozen=True)
class Pair:
    """One round: the same rows through the planner and as bare passes."""

    planner: Timing
    bare: Timing
    tokens: int
    rows: int
    outside: float
    difference: float


def main() -> None:
    """Run the benchmark."""
    examples = (
        "  python -m benchmarks.planner --quick\n"
        "  python -m benchmarks.planner --rounds 10 --threads 1\n"
        "  python -m benchmarks.planner --texts 8 --variants 500 --out runs/speed"
    )
    options = parser(__doc__ or "", examples)
    options.add_argument("--texts", type=int, default=20, help="short texts, dealt out over the rounds (default 20)")
    options.add_argument("--variants", type=int, default=1000, help="masked variants of each text (default 1000)")
    args = options.parse_args()
    if args.quick:
        args.rounds, args.texts, args.variants = 2, 2, 100
    prepare(args.threads)
    network, tokenizer, name = load_network()
    model = compose(network, tokenizer)
    print(f"{name}; {args.threads} thread(s)")
    ratios, raw = _compare(model, args)
    sweep, swept = _sweep(model, args)
    text = (
        f"{name}. {args.texts} texts of about 20 tokens, {args.variants:,} random variants of each, drawn as LIME "
        "draws them; a repeated variant is evaluated once by both sides. The bare side has its tensors built "
        "beforehand, rows sorted by length over all texts of a round, no attention mask where nothing is padded, and "
        "the best of ten ways to cut them into batches. "
        f"Median and range over {args.rounds} interleaved rounds, each with other texts."
    )
    publish("planner", text, [ratios, sweep], {"rounds": raw, "sweep": swept}, args)


def _compare(model: NetworkModel, args: argparse.Namespace) -> tuple[Table, object]:
    texts = load_texts(args.texts)
    rows, raw = [], {}
    for operator in OPERATORS:
        packing = _best_packing(model, _work(model, texts[:: args.rounds], args.variants), operator, args)
        pairs = []
        for number in range(args.rounds):
            work = _work(model, texts[number % len(texts) :: args.rounds], args.variants)
            pairs.append(_round(model, work, operator, packing, number % 2 == 0))
            print(f"{operator}: round {number + 1}/{args.rounds}, ratio {_ratio(pairs[-1], clock(args.threads)):.3f}")
        rows.append(_row(operator, packing, pairs, args.threads))
        raw[operator] = [
            {"planner": vars(p.planner), "bare": vars(p.bare), "rows": p.rows, "tokens": p.tokens} for p in pairs
        ]
    which = "CPU" if clock(args.threads) == "cpu" else "wall"
    notes = [
        f"Bar: at least {BAR} of the bare throughput. Times are {which} time"
        + (
            " of one thread, which other work on the machine disturbs least; wall times are in `speed.json`."
            if which == "CPU"
            else "."
        ),
        "Outside the model: share of the planner's CPU time before and after the forward passes (finding repeats, "
        "building rows, reading the target).",
        "Difference: largest between the two sides' logits.",
    ]
    columns = ["absent units", "planner, tokens/s", "bare, tokens/s", "ratio", "outside the model"]
    return Table("Throughput", [*columns, "bare batches, tokens", "difference"], rows, notes), raw


def _row(operator: str, packing: Packing, pairs: Sequence[Pair], threads: int) -> list[str]:
    which = clock(threads)
    return [
        f'"{operator}"',
        middle([pair.tokens / getattr(pair.planner, which) for pair in pairs], 0),
        middle([pair.tokens / getattr(pair.bare, which) for pair in pairs], 0),
        f"**{middle([_ratio(pair, which) for pair in pairs], 3)}**",
        f"{statistics.median(pair.outside for pair in pairs):.2%}",
        _name(packing),
        f"{max(pair.difference for pair in pairs):.1e}",
    ]


def _ratio(pair: Pair, which: str) -> float:
    return float(getattr(pair.bare, which) / getattr(pair.planner, which))


def _round(model: NetworkModel, work: Work, operator: str, packing: Packing, planner_first: bool) -> Pair:
    owner, rows = _bare_rows(model, work, operator)
    batches = _pack(rows, packing)
    values: list[Floats] = []
    logits: list[Tensor] = []

    def planner() -> None:
        values.extend(model.score(work.units, [work.target] * len(work.units), work.keep, operator))

    def bare() -> None:
        logits.extend(_forward(model.network, [batch for batch, _ in batches]))

    if not planner_first:
        second = timed(bare)
    with watched(model.network) as passes:
        first = timed(planner)
    if planner_first:
        second = timed(bare)
    plain = torch.cat(logits)[torch.argsort(torch.cat([order for _, order in batches]))][:, work.target.index].numpy()
    gaps = [np.abs(value - plain[numbers]).max() for value, numbers in zip(values, owner, strict=True)]
    tokens = sum(len(row["input_ids"]) for row in rows)
    return Pair(first, second, tokens, len(rows), 1 - passes.seconds / first.cpu, float(max(gaps)))


def _work(model: NetworkModel, texts: Sequence[str], variants: int) -> Work:
    units = model.units([Example(text) for text in texts])
    rng = np.random.default_rng(0)
    return Work(units, [lime_samples(len(unit), variants, rng) for unit in units], Target(1, model.labels[1], "logit"))


def _bare_rows(model: NetworkModel, work: Work, operator: str) -> tuple[list[NDArray[np.int64]], list[Batch]]:
    """Distinct rows as model inputs without padding, and per text which of them each variant is: plain and slow."""
    rows: list[Batch] = []
    numbers = []
    for unit, keep in zip(work.units, work.keep, strict=True):
        encoded = model.tokenizer(unit.example.text, return_tensors="pt")
        seen: dict[bytes, int] = {}
        for mask in keep:
            if mask.tobytes() not in seen:
                seen[mask.tobytes()] = len(rows)
                rows.append(_bare_row(dict(encoded), unit, mask, operator, model.tokenizer.mask_token_id))
        numbers.append(np.array([seen[mask.tobytes()] for mask in keep]))
    return numbers, rows


def _bare_row(encoded: Batch, units: Units, mask: Keep, operator: str, mask_id: int) -> Batch:
    absent = [place for unit, kept in zip(units.positions, mask, strict=True) if not kept for place in unit]
    row = {name: column[0].clone() for name, column in encoded.items() if name != "attention_mask"}
    if operator == "mask":
        row["input_ids"][absent] = mask_id
        return row
    if operator == "drop":
        row["position_ids"] = torch.arange(len(row["input_ids"]))
    left = torch.ones(len(row["input_ids"]), dtype=torch.bool)
    left[absent] = False
    return {name: column[left] for name, column in row.items()}


def _pack(rows: Sequence[Batch], packing: Packing) -> list[tuple[Batch, Tensor]]:
    """Batches of about the same length, with the numbers of their rows."""
    budget, alike = packing
    lengths = torch.tensor([len(row["input_ids"]) for row in rows])
    order = torch.argsort(lengths, descending=True, stable=True)
    batches = []
    while len(order):
        longest = int(lengths[order[0]])
        chosen = order[: max(1, budget // longest)]
        chosen = chosen[lengths[chosen] == longest] if alike else chosen
        order = order[len(chosen) :]
        columns = {
            name: torch.nn.utils.rnn.pad_sequence([rows[i][name] for i in chosen.tolist()], batch_first=True)
            for name in rows[0]
        }
        if int(lengths[chosen].min()) < longest:
            columns["attention_mask"] = (torch.arange(longest) < lengths[chosen][:, None]).long()
        batches.append((columns, chosen))
    return batches


def _forward(network: PreTrainedModel, batches: Sequence[Batch]) -> list[Tensor]:
    with torch.inference_mode():
        return [network(**batch).logits for batch in batches]


def _best_packing(model: NetworkModel, work: Work, operator: str, args: argparse.Namespace) -> Packing:
    """The fastest way to pack the bare passes, tried on some 400 evenly chosen rows each."""
    _, rows = _bare_rows(model, work, operator)
    seconds: dict[Packing, list[float]] = {(budget, alike): [] for budget in BUDGETS[:5] for alike in (False, True)}
    samples: dict[Packing, list[tuple[Batch, int]]] = {}
    for packing in seconds:
        batches = [
            (batch, int(sum(len(rows[i]["input_ids"]) for i in order.tolist())))
            for batch, order in _pack(rows, packing)
        ]
        step = max(1, round(len(rows) / 400))
        samples[packing] = batches[step // 2 :: step] or batches
    for _ in range(3):
        for packing, batches in samples.items():
            spent = timed(lambda batches=batches: _forward(model.network, [batch for batch, _ in batches]))  # type: ignore[misc]
            seconds[packing].append(getattr(spent, clock(args.threads)) / sum(tokens for _, tokens in batches))
    best = min(seconds, key=lambda packing: statistics.median(seconds[packing]))
    print(f"{operator}: bare passes are fastest with batches of {_name(best)} tokens")
    return best


def _name(packing: Packing) -> str:
    return f"{packing[0]}{', equal lengths' if packing[1] else ''}"


def _sweep(model: NetworkModel, args: argparse.Namespace) -> tuple[Table, object]:
    """Cost of a row by the planner's budget, for short and long texts."""
    kinds = {
        "about 20 tokens": _work(model, load_texts(2), 60 if args.quick else 240),
        "about 250 tokens": _work(model, load_long_texts(1), 16 if args.quick else 33),
    }
    milliseconds: dict[str, dict[int, list[float]]] = {kind: {budget: [] for budget in BUDGETS} for kind in kinds}
    for number in range(args.rounds):
        for kind, work in kinds.items():
            for budget in BUDGETS if number % 2 == 0 else BUDGETS[::-1]:
                trial = compose(model.network, model.tokenizer, batch_tokens=budget)
                trial.__dict__["traits"] = model.traits  # probing the network once is enough
                with watched(model.network) as passes:
                    spent = timed(
                        lambda t=trial, w=work: t.score(w.units, [w.target] * len(w.units), w.keep, "mask")  # type: ignore[misc]
                    )
                milliseconds[kind][budget].append(getattr(spent, clock(args.threads)) / passes.rows * 1e3)
        print(f"tokens per batch: round {number + 1}/{args.rounds}")
    rows = [[kind, *(middle(times, 2) for times in by_budget.values())] for kind, by_budget in milliseconds.items()]
    notes = [f'Milliseconds per evaluated row, "mask". The default on a CPU is {CPU_TOKENS}.']
    return Table("Tokens per batch", ["texts", *map(str, BUDGETS)], rows, notes), milliseconds


if __name__ == "__main__":
    main()
