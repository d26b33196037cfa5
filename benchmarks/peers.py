"""didact against captum, lime, shap and interpreto: the same model, the same texts, the same number of evaluations."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from benchmarks.common import (
    Table,
    clock,
    load_network,
    load_texts,
    middle,
    parser,
    prepare,
    publish,
    timed,
    watched,
)
from didact.attribution.base import Attribution
from didact.attribution.kernel_shap import KernelShap
from didact.attribution.lime import Lime
from didact.attribution.occlusion import Occlusion
from didact.models.text import TextModel
from didact.types import Example, Floats

BATCHES = (16, 32, 64, 128)
BASE = "didact, mask"
TITLES = {"occlusion": "Occlusion", "lime": "LIME", "kernel_shap": "KernelSHAP"}

Run = Callable[["Item", int], object]
"""Explains a list of texts with so many samples each."""


@dataclass(frozen=True, eq=False)
class Text:
    """One text, prepared beforehand for the libraries that need it so."""

    text: str
    label: int
    words: list[str]
    ids: Tensor  # (1, tokens) without the special tokens at both ends
    owner: Tensor  # (1, tokens): word of each token


Item = list[Text]


@dataclass(frozen=True)
class Entry:
    """One line of a table: who, set how, and how to run it."""

    name: str
    differs: str
    run: Run


@dataclass(frozen=True)
class Measured:
    """One timed run of an entry: seconds and rows per text."""

    cpu: float
    wall: float
    rows: float


class Bench:
    """The model as the libraries need it."""

    def __init__(self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.network = network
        self.tokenizer = tokenizer
        self.didact = TextModel(network, tokenizer)
        self.mask = int(tokenizer.mask_token_id)
        ends = torch.tensor(tokenizer("")["input_ids"])
        self.first, self.last = ends[:1], ends[1:]

    def prepare(self, texts: Sequence[str]) -> Item:
        """Tokenise, find words and the predicted label."""
        examples = [Example(text) for text in texts]
        made = []
        for unit, prediction in zip(self.didact.units(examples), self.didact.predict(examples), strict=True):
            ids = torch.tensor(self.tokenizer(unit.example.text)["input_ids"])[None, 1:-1]
            owner = torch.zeros_like(ids)
            for number, positions in enumerate(unit.positions):
                owner[0, [place - 1 for place in positions]] = number
            made.append(Text(unit.example.text, prediction.index, list(unit.texts), ids, owner))
        return made

    def logits(self, ids: Tensor) -> Tensor:
        """Logits of rows of token ids of one length, without special tokens."""
        rows = torch.cat([self.first.expand(len(ids), -1), ids, self.last.expand(len(ids), -1)], 1)
        logits: Tensor = self.network(input_ids=rows).logits
        return logits

    def predict(self, texts: Sequence[str], batch: int) -> Floats:
        """Probabilities of strings: tokenised together, sorted by length, padded to the longest of their batch."""
        codes = self.tokenizer(list(texts))["input_ids"]
        order = sorted(range(len(codes)), key=lambda i: -len(codes[i]))
        found = np.zeros((len(codes), int(self.network.config.num_labels or 2)))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            inputs = self.tokenizer.pad({"input_ids": [codes[i] for i in chosen]}, return_tensors="pt")
            found[chosen] = self.network(**inputs).logits.softmax(-1).numpy()
        return found


def main() -> None:
    """Run the benchmark."""
    examples = (
        "  python -m benchmarks.peers --quick\n"
        "  python -m benchmarks.peers --rounds 10\n"
        "  python -m benchmarks.peers --methods occlusion --out runs/speed"
    )
    options = parser(__doc__ or "", examples)
    options.add_argument("--methods", nargs="+", choices=TITLES, default=list(TITLES), help="which to compare")
    options.add_argument("--samples", type=int, help="evaluations per text (default: LIME 500, KernelSHAP 250)")
    args = options.parse_args()
    if args.quick:
        args.rounds, args.samples = 2, args.samples or 60
    prepare(args.threads)
    network, tokenizer, name = load_network()
    bench = Bench(network, tokenizer)
    print(f"{name}; {args.threads} thread(s)")
    missing = [peer for peer in PEERS if importlib.util.find_spec(peer) is None]
    for peer in missing:
        print(f"{peer} is not installed: skipped (pip install 'didact[peers]')")
    tables, raw = [], {}
    for method in args.methods:
        table, raw[method] = _compare(bench, method, [peer for peer in PEERS if peer not in missing], args)
        tables.append(table)
    publish("peers", _text(name, missing, args), tables, raw, args)


def _text(name: str, missing: Sequence[str], args: argparse.Namespace) -> str:
    which = "CPU time of one thread" if clock(args.threads) == "cpu" else "wall time"
    absent = f" Not installed and left out: {', '.join(missing)}." if missing else ""
    return (
        f"{name}. SST-2 sentences of 15 to 18 words on which all libraries agree what a word is (made-up ones where "
        "the data is absent); an absent word is shown as mask tokens, for didact's second line its tokens are dropped. "
        f"All in evaluation mode without gradients; every peer has the best of the batch sizes {BATCHES}, except the "
        "line with captum's defaults. *Rows* are counted at the model; didact evaluates a repeated variant once, so "
        f"*ms per row* is the comparison at equal numbers of evaluations. Median and range of {which} over "
        f"{args.rounds} rounds, each with other texts, all libraries in turn.{absent}"
    )


def _compare(bench: Bench, method: str, peers: Sequence[str], args: argparse.Namespace) -> tuple[Table, object]:
    samples = 0 if method == "occlusion" else args.samples or {"lime": 500, "kernel_shap": 250}[method]
    per_round = 16 if method == "occlusion" else 1
    items = bench.prepare(load_texts(per_round * args.rounds))
    entries = _didact(bench, method)
    with torch.inference_mode():
        for peer in peers:
            entries += PEERS[peer](bench, method, items[:1], clock(args.threads))
        for entry in entries:
            entry.run(items[:1], 40)
        found: dict[str, list[Measured]] = {entry.name: [] for entry in entries}
        for number in range(args.rounds):
            group = items[number * per_round : (number + 1) * per_round]
            for entry in entries[number % len(entries) :] + entries[: number % len(entries)]:
                found[entry.name].append(_measure(bench, entry, group, samples))
            print(f"{method}: round {number + 1}/{args.rounds}, {_progress(found, clock(args.threads))}")
    asked = f"{samples:,} samples" if samples else "one variant per word"
    caption = f"{TITLES[method]}, {asked}, {per_round} text{'s' if per_round > 1 else ''} at a time"
    raw = {name: [vars(one) for one in measured] for name, measured in found.items()}
    return Table(caption, _COLUMNS, [_row(entry, found, clock(args.threads)) for entry in entries], []), raw


def _measure(bench: Bench, entry: Entry, group: Item, samples: int) -> Measured:
    with watched(bench.network) as passes:
        spent = timed(lambda: entry.run(group, samples))
    return Measured(spent.cpu / len(group), spent.wall / len(group), passes.rows / len(group))


_COLUMNS = [
    "library",
    "what differs",
    "rows per text",
    "ms per text",
    "ms per row",
    "time, in times of didact's with mask",
    "… with drop",
    "ms per row, in times of didact's with mask",
]


def _row(entry: Entry, found: dict[str, list[Measured]], which: str) -> list[str]:
    own = found[entry.name]
    times = [getattr(one, which) for one in own]
    against = {name: [getattr(one, which) for one in found[name]] for name in (BASE, "didact, drop")}
    rates = [time / one.rows for time, one in zip(times, own, strict=True)]
    base_rates = [time / one.rows for time, one in zip(against[BASE], found[BASE], strict=True)]
    return [
        entry.name,
        entry.differs,
        f"{statistics.median(one.rows for one in own):.0f}",
        middle([1e3 * time for time in times], 0),
        middle([1e3 * rate for rate in rates], 2),
        f"**{_times(times, against[BASE])}**",
        _times(times, against["didact, drop"]),
        _times(rates, base_rates),
    ]


def _times(own: Sequence[float], base: Sequence[float]) -> str:
    return middle([a / b for a, b in zip(own, base, strict=True)], 2)


def _progress(found: dict[str, list[Measured]], which: str) -> str:
    base = getattr(found[BASE][-1], which)
    return ", ".join(f"{name} {getattr(runs[-1], which) / base:.2f}" for name, runs in found.items())


def _didact(bench: Bench, method: str) -> list[Entry]:
    def make(absence: str, samples: int) -> Attribution:
        if method == "occlusion":
            return Occlusion(absence=absence)
        return (
            Lime(samples=samples, absence=absence) if method == "lime" else KernelShap(samples=samples, absence=absence)
        )

    def together(absence: str) -> Run:
        return lambda items, samples: make(absence, samples).explain(
            bench.didact, [item.text for item in items], [item.label for item in items]
        )

    def one_by_one(items: Item, samples: int) -> None:
        for item in items:
            together("mask")([item], samples)

    entries = [
        Entry(BASE, "", together("mask")),
        Entry("didact, drop", "absent words take no time; the model sees attention mask 0", together("drop")),
    ]
    if method == "occlusion":
        entries.append(Entry("didact, mask, one by one", "a call per text instead of one for all", one_by_one))
    return entries


def _captum(bench: Bench, method: str, trial: Item, which: str) -> list[Entry]:
    library = importlib.import_module("captum.attr")
    kind = {"occlusion": "FeatureAblation", "lime": "Lime", "kernel_shap": "KernelShap"}[method]
    explainer = getattr(library, kind)(bench.logits)

    def make(batch: int) -> Run:
        def run(items: Item, samples: int) -> None:
            for item in items:
                explainer.attribute(
                    item.ids,
                    baselines=bench.mask,
                    target=item.label,
                    feature_mask=item.owner,
                    perturbations_per_eval=batch,
                    **({} if method == "occlusion" else {"n_samples": samples}),
                )

        return run

    best = _best(make, trial, which)
    return [
        Entry("captum, defaults", "one row per pass; label given", make(1)),
        Entry(f"captum, {best} per pass", "label given", make(best)),
    ]


def _lime(bench: Bench, method: str, trial: Item, which: str) -> list[Entry]:
    if method != "lime":
        return []
    library = importlib.import_module("lime.lime_text")
    explainer = library.LimeTextExplainer(
        split_expression=str.split, bow=False, mask_string=bench.tokenizer.mask_token, feature_selection="none"
    )

    def make(batch: int) -> Run:
        def run(items: Item, samples: int) -> None:
            for item in items:
                explainer.explain_instance(
                    item.text, lambda texts: bench.predict(texts, batch), labels=(item.label,), num_samples=samples
                )

        return run

    best = _best(make, trial, which)
    return [
        Entry(
            f"lime, batches of {best}", "masks strings, one mask token per word; batched predict function", make(best)
        )
    ]


def _shap(bench: Bench, method: str, trial: Item, which: str) -> list[Entry]:
    if method != "kernel_shap":
        return []
    library = importlib.import_module("shap")

    def kernel(batch: int) -> Run:
        def run(items: Item, samples: int) -> None:
            for item in items:
                score = _coalition_function(bench, item, batch)
                explainer = library.KernelExplainer(score, np.zeros((1, len(item.words))))
                explainer.shap_values(np.ones(len(item.words)), nsamples=samples, l1_reg=False, silent=True)

        return run

    def partition(batch: int) -> Run:
        masker = library.maskers.Text(bench.tokenizer, mask_token=bench.tokenizer.mask_token, collapse_mask_token=False)
        explainer = library.PartitionExplainer(lambda texts: bench.predict([str(t) for t in texts], batch), masker)

        def run(items: Item, samples: int) -> None:
            for item in items:
                explainer([item.text], max_evals=samples, batch_size=batch, silent=True)

        return run

    best = {make: _best(make, trial, which) for make in (kernel, partition)}
    differs = "tokens, not words; Owen values over a tree instead of KernelSHAP"
    return [
        Entry(f"shap KernelExplainer, batches of {best[kernel]}", "batched function of ids", kernel(best[kernel])),
        Entry(f"shap PartitionExplainer, batches of {best[partition]}", differs, partition(best[partition])),
    ]


def _coalition_function(bench: Bench, item: Text, batch: int) -> Callable[[Floats], Floats]:
    """From rows of 0 and 1 per word to the label's logit, by token ids."""

    def score(rows: Floats) -> Floats:
        present = torch.from_numpy(np.asarray(rows) > 0)[:, item.owner[0]]
        ids = torch.where(present, item.ids, bench.mask)
        found = torch.cat([bench.logits(part)[:, item.label] for part in torch.split(ids, batch)])
        return found.double().numpy()

    return score


def _interpreto(bench: Bench, method: str, trial: Item, which: str) -> list[Entry]:
    library = importlib.import_module("interpreto")
    kind = {"occlusion": "Occlusion", "lime": "Lime", "kernel_shap": "KernelShap"}[method]

    def make(batch: int) -> Run:
        def run(items: Item, samples: int) -> None:
            more: dict[str, Any] = {} if method == "occlusion" else {"n_perturbations": samples}
            explainer = getattr(library, kind)(bench.network, bench.tokenizer, batch_size=batch, **more)
            explainer([item.text for item in items], torch.tensor([item.label for item in items]))

        return run

    best = _best(make, trial, which)
    differs = "label given; each word absent with probability 1/2" if method == "lime" else "label given"
    return [Entry(f"interpreto, batches of {best}", differs, make(best))]


def _best(make: Callable[[int], Run], trial: Item, which: str) -> int:
    """The batch size that is fastest on one text, of three interleaved tries."""
    runs = {batch: make(batch) for batch in BATCHES}
    found: dict[int, list[float]] = {batch: [] for batch in BATCHES}
    runs[BATCHES[0]](trial, 40)
    for _ in range(3):
        for batch, run in runs.items():
            found[batch].append(getattr(timed(lambda run=run: run(trial, 128)), which))  # type: ignore[misc]
    return min(found, key=lambda batch: min(found[batch]))


PEERS: dict[str, Callable[[Bench, str, Item, str], list[Entry]]] = {
    "captum": _captum,
    "lime": _lime,
    "shap": _shap,
    "interpreto": _interpreto,
}


if __name__ == "__main__":
    main()
