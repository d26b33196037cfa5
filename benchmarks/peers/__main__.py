"""Time every method that a peer has, and write the tables."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import benchmarks.peers
from benchmarks.common import (
    Table,
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
from benchmarks.peers.own import GRADIENTS, LABEL_GIVEN, own_entries
from benchmarks.peers.setting import Bench, Case, Entry, Item
from benchmarks.peers.with_captum import captum_entries
from benchmarks.peers.with_interpreto import interpreto_entries
from benchmarks.peers.with_lime import lime_entries
from benchmarks.peers.with_shap import shap_entries
from didact.models.eval_mode import frozen
from didact.models.pending import GUARD_EVERY

PEERS: dict[str, Callable[[Bench, Case, Item, str], list[Entry]]] = {
    "captum": captum_entries,
    "lime": lime_entries,
    "shap": shap_entries,
    "interpreto": interpreto_entries,
}

MANY, ROWS, LONG_ROWS = (32, 64, 128), (10, 25, 50), (4, 10)
"""Batch sizes to choose from: variants; points of a short text; points of a long one."""

TURNS, PATIENCE = 8, 1.0
"""How often each library explains the texts of a round, at most; seconds that the quickest may take for it."""

CASES = (
    Case("occlusion", "short", 0, 8, MANY),
    Case("lime", "short", 200, 1, MANY),
    Case("kernel_shap", "short", 200, 1, MANY),
    Case("shapley_sampling", "short", 200, 1, MANY),
    Case("partition_shap", "short", 200, 1, MANY),
    Case("gradient_x_input", "short", 0, 16, (16,)),
    Case("gradient_x_input", "long", 0, 4, (4,)),
    Case("gradient_norm", "short", 0, 16, (16,)),
    Case("gradient_norm", "long", 0, 4, (4,)),
    *(
        case
        for method in ("integrated_gradients", "smoothgrad", "gradient_shap", "layer_conductance")
        for case in (Case(method, "short", 50, 1, ROWS), Case(method, "long", 20, 1, LONG_ROWS))
    ),
    Case("deeplift", "short", 0, 1, (1,)),
    Case("deeplift", "long", 0, 1, (1,)),
    Case("deep_shap", "short", 8, 1, (1,)),
    Case("deep_shap", "long", 8, 1, (1,)),
)
METHODS = list(dict.fromkeys(case.method for case in CASES))


@dataclass(frozen=True)
class Measured:
    """One timed run: seconds and rows per text, and seconds of the plain pass that finds the label."""

    cpu: float
    wall: float
    rows: float
    finding: float


@dataclass(frozen=True)
class Result:
    """What was measured in one case, didact's own line first."""

    case: Case
    entries: list[Entry]
    runs: dict[str, list[Measured]]
    which: str

    def seconds(self, entry: Entry, with_prediction: bool) -> list[float]:
        """Per round, with the plain pass added where the library needs the label and the prediction is counted."""
        extra = with_prediction and not entry.finds_label
        return [getattr(run, self.which) + (run.finding if extra else 0.0) for run in self.runs[entry.name]]

    def own(self, with_prediction: bool) -> Entry:
        """Didact's line: with the label given where the prediction is not counted, if the method has one."""
        labelled = (entry for entry in self.entries if entry.name == LABEL_GIVEN and not with_prediction)
        return next(labelled, self.entries[0])

    def against(self, entry: Entry, with_prediction: bool) -> list[float]:
        """Time in times of didact's, per round."""
        own = self.seconds(self.own(with_prediction), with_prediction)
        return [time / base for time, base in zip(self.seconds(entry, with_prediction), own, strict=True)]

    def fastest(self, with_prediction: bool) -> Entry | None:
        """The peer with the smallest median."""
        rivals = [entry for entry in self.entries if not entry.name.startswith("didact") and entry.same]
        return min(rivals, key=lambda entry: statistics.median(self.against(entry, with_prediction)), default=None)


def main() -> None:
    """Run the benchmark."""
    examples = (
        "  python -m benchmarks.peers --quick\n"
        "  python -m benchmarks.peers --rounds 10\n"
        "  python -m benchmarks.peers --methods occlusion smoothgrad --out runs/speed"
    )
    options = parser(benchmarks.peers.__doc__ or "", examples)
    options.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="which to compare")
    options.add_argument("--lengths", nargs="+", choices=("short", "long"), default=("short", "long"))
    args = options.parse_args()
    args.rounds = 2 if args.quick else args.rounds
    prepare(args.threads)
    network, tokenizer, name = load_network()
    bench = Bench(network, tokenizer)
    print(f"{name}; {args.threads} thread(s)")
    missing = [peer for peer in PEERS if importlib.util.find_spec(peer) is None]
    for peer in missing:
        print(f"{peer} is not installed: skipped (pip install 'didact[peers]')")
    peers = [peer for peer in PEERS if peer not in missing]
    chosen = [case for case in CASES if case.method in args.methods and case.length in args.lengths]
    results = [_measure_case(bench, case, peers, args) for case in chosen]
    tables = [_summary(results), *map(_table, results)]
    raw = {
        f"{r.case.method}, {r.case.length}": {n: [asdict(run) for run in o] for n, o in r.runs.items()} for r in results
    }
    publish("peers", _text(name, missing, args), tables, raw, args)


def _measure_case(bench: Bench, case: Case, peers: Sequence[str], args: argparse.Namespace) -> Result:
    which = clock(args.threads)
    texts = (load_texts if case.length == "short" else load_long_texts)(case.together * args.rounds)
    items = bench.prepare(texts)
    entries = own_entries(bench, case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peers' own making
        with frozen(bench.network):
            for peer in peers:
                entries += PEERS[peer](bench, case, items[: case.together], which)
        for entry in entries:
            _measure(bench, entry, items[: case.together], min(case.evaluations, 10), which)
        runs: dict[str, list[Measured]] = {entry.name: [] for entry in entries}
        for number in range(args.rounds):
            group = items[number * case.together : (number + 1) * case.together]
            order = entries[number % len(entries) :] + entries[: number % len(entries)]
            turn = partial(_turn, bench, order, group, case.evaluations, which)
            turns = [turn()]
            spent = min(run.wall for run in turns[0].values()) * case.together
            turns += [turn() for _ in range(min(TURNS - 1, int(PATIENCE / spent)))]
            for entry in entries:
                runs[entry.name].append(_quickest([measured[entry.name] for measured in turns]))
    result = Result(case, entries, runs, which)
    print("\n".join(" ".join(row) for row in [[case.method, case.length], *_summary([result]).rows]), flush=True)
    return result


def _turn(bench: Bench, entries: Sequence[Entry], group: Item, evaluations: int, which: str) -> dict[str, Measured]:
    """All libraries once, in this order."""
    return {entry.name: _measure(bench, entry, group, evaluations, which) for entry in entries}


def _quickest(runs: Sequence[Measured]) -> Measured:
    """The smallest times of several turns: whatever else the machine did can only have added to them."""
    times = {name: min(getattr(run, name) for run in runs) for name in ("cpu", "wall", "finding")}
    return Measured(rows=runs[0].rows, **times)


def _measure(bench: Bench, entry: Entry, group: Item, evaluations: int, which: str) -> Measured:
    """Peers get a model whose weights need no gradients; didact takes care of that by itself."""
    with contextlib.nullcontext() if entry.name.startswith("didact") else frozen(bench.network):
        finding = getattr(timed(lambda: bench.find_labels(group)), which)
        with watched(bench.network) as passes:
            spent = timed(lambda: entry.run(group, evaluations))
    size = len(group)
    return Measured(spent.cpu / size, spent.wall / size, passes.rows / size, finding / size)


def _text(name: str, missing: Sequence[str], args: argparse.Namespace) -> str:
    which = "CPU time of one thread" if clock(args.threads) == "cpu" else "wall time"
    absent = f" Not installed and left out: {', '.join(missing)}." if missing else ""
    return (
        f"{name}. Short texts are SST-2 sentences of 15 to 18 words on which all libraries agree what a word is "
        "(made-up ones where the data is absent), long ones are joined from them, about 250 tokens. An absent word is "
        "shown as mask tokens, for the lines with *drop* its tokens are taken out; baselines are mask embeddings. "
        "All in evaluation mode; peers get no gradients for weights, token ids made beforehand where they take ids, "
        "and the best batch size of several (where a method needs one row per text, all texts in one pass). "
        "*Rows* are counted at the model.\n\n"
        "didact explains what the model predicts. Methods of a plain pass each guard by it that what was explained is "
        "what was predicted; the cheap gradient methods predict in the pass that they differentiate, and a plain pass "
        f"guards the first batch of a network and one of {GUARD_EVERY} after it. Its passes, other than plain ones, "
        "compute the last layer only at the position that the classifier reads. captum and interpreto need the label "
        "as input: their time is given as it is (*label given*, against didact with the label given where it has such "
        "a line) and together with a plain pass from text to label (*with the prediction*), which is the comparison "
        "of like with like. "
        f"Median and range of {which} over {args.rounds} rounds, each with other texts. In a round the libraries "
        f"take turns, up to {TURNS} where they are quick, and the best turn of each counts; ratios are taken within a "
        f"round.{absent}"
    )


def _summary(results: Sequence[Result]) -> Table:
    rows = []
    for result in results:
        row = [f"`{result.case.method}`", result.case.length]
        for with_prediction in (True, False):
            rival = result.fastest(with_prediction)
            row += (
                ["–", "–"]
                if rival is None
                else [rival.name, middle([1 / x for x in result.against(rival, with_prediction)])]
            )
        rows.append(row)
    columns = [
        "method",
        "texts",
        "fastest peer with the prediction",
        "didact's time, in times of it",
        "fastest peer, label given",
        "didact's time, in times of it",
    ]
    return Table("didact and the fastest peer of each method", columns, rows, _NOTES)


_NOTES = [
    "Bar: with the prediction at most 1.10; gradient_x_input and gradient_norm at most 0.75, and 1.10 with the label "
    "given; smoothgrad and gradient_shap at most 1.00.",
    "– : captum's DeepLIFT and Deep SHAP know modules, not functions: GELU, softmax, norms and products in a "
    "transformer keep their plain gradient, and the scores do not add up. They are timed below and are not the same "
    "method.",
    "No peer: captum's LRP refuses transformers (no rule for embeddings, norms and GELU); none of the libraries has "
    "sequential integrated gradients, GIM, attention, rollout, GlobEnc, ALTI, DecompX, ReAGent or Solvex.",
]

_COLUMNS = [
    "library",
    "what differs",
    "rows per text",
    "ms per text, label given",
    "… with the prediction",
    "in times of didact's, with the prediction",
    "… label given",
    "ms per row, in times of didact's",
]


def _table(result: Result) -> Table:
    case = result.case
    budget = (
        f", {case.evaluations} {'points' if case.method in GRADIENTS else 'evaluations'}" if case.evaluations else ""
    )
    together = f"{case.together} text{'s' if case.together > 1 else ''} at a time"
    caption = f"{case.method}, {case.length} texts{budget}, {together}"
    return Table(caption, _COLUMNS, [_row(result, entry) for entry in result.entries], [])


def _row(result: Result, entry: Entry) -> list[str]:
    plain, with_prediction = (result.seconds(entry, flag) for flag in (False, True))
    rows, own = ([run.rows for run in result.runs[name]] for name in (entry.name, result.entries[0].name))
    rates = [t * o / r for t, o, r in zip(result.against(entry, False), own, rows, strict=True)]
    return [
        entry.name,
        entry.differs,
        f"{statistics.median(rows):.0f}",
        middle([1e3 * time for time in plain], 0),
        middle([1e3 * time for time in with_prediction], 0),
        f"**{middle(result.against(entry, True))}**",
        middle(result.against(entry, False)),
        middle(rates),
    ]


if __name__ == "__main__":
    main()
