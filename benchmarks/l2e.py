"""How fast a learned explainer is: against LIME, a forward pass of BERT-base, and in torch and in the ONNX runtime."""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

import didact
from benchmarks.common import (
    SHARED,
    Table,
    Timing,
    clock,
    load_network,
    load_texts,
    middle,
    parser,
    prepare,
    publish,
    timed,
)
from didact.attribution.gradient_x_input import GradientXInput
from didact.attribution.lime import Lime
from didact.models.compose import compose
from didact.models.network import NetworkModel
from didact.trained.explainer import LearnedExplainer
from didact.trained.onnx import LIMIT, ExportAgreement
from didact.trained.train import train
from didact.types import Example, Prediction

WORDS = (18, 22)
TOGETHER = 32
TURNS = 3  # of everything but LIME in a round; their times are added up
DEFAULT, TORCH, ONNX = "L2E", "L2E scorer", "L2E scorer, ONNX int8"
LIME, BERT, OWN = "LIME, 1000 samples", "BERT-base", "the explained model"
SHAPES = {DEFAULT: "auto", TORCH: "scorer"}
"""Networks: what `didact train l2e` makes by default, a copy of the explained model's; and the small one."""
NETWORK, CALL, USER = "network only", "explain(), prediction given", "didact.explain(text, model, explainer)"
PARTS = (NETWORK, CALL, USER)

Sides = dict[str, Callable[[], object]]
Times = dict[str, list[Timing]]


@dataclass(frozen=True, eq=False)
class Setting:
    """What is compared."""

    model: NetworkModel
    explainers: dict[str, LearnedExplainer]
    base: PreTrainedModel


@dataclass(frozen=True, eq=False)
class Texts:
    """The texts of a round and what the model says about them."""

    examples: list[Example]
    predictions: list[Prediction]


def main() -> None:
    """Run the benchmark."""
    examples = (
        "  python -m benchmarks.l2e --quick\n"
        "  python -m benchmarks.l2e --rounds 9\n"
        "  python -m benchmarks.l2e --train 1000 --out runs/speed"
    )
    options = parser(__doc__ or "", examples)
    options.add_argument("--train", type=int, default=400, help="texts that the explainer learns from (default 400)")
    args = options.parse_args()
    if args.quick:
        args.rounds, args.train = 2, 60
    prepare(args.threads)
    network, tokenizer, which = load_network()
    model = compose(network, tokenizer)
    texts = load_texts(TOGETHER * min(args.rounds, 3), WORDS)
    with tempfile.TemporaryDirectory() as folder:
        explainers, agreement = _explainers(model, texts, args, Path(folder))
    torch.manual_seed(0)
    base = AutoModelForSequenceClassification.from_config(AutoConfig.for_model("bert")).eval()
    setting = Setting(model, explainers, base)
    times = {size: _rounds(setting, texts, size, args) for size in (1, TOGETHER)}
    tables = [_times(times, args), _bars(times, agreement, args)]
    raw = {
        str(size): {name: [vars(timing) for timing in many] for name, many in by_name.items()}
        for size, by_name in times.items()
    }
    publish("l2e", _text(which, explainers, args), tables, {"times": raw, "agreement": vars(agreement)}, args)


def _explainers(
    model: NetworkModel, texts: Sequence[str], args: argparse.Namespace, folder: Path
) -> tuple[dict[str, LearnedExplainer], ExportAgreement]:
    """Briefly trained explainers, the small one in both runtimes, and how alike these are on the texts."""
    unseen = set(texts)
    learnt = [text for text in load_texts(args.train + len(texts), (5, 25)) if text not in unseen][: args.train]
    made: dict[str, LearnedExplainer] = {}
    for name, shape in SHAPES.items():
        own = train("l2e", model, learnt, GradientXInput(), shape=shape, epochs=4, fit={"device": "cpu"})
        print(f"{name}: trained on {len(learnt)} texts: {dict(own.about.scores)}")
        made[name] = own
    small = made[TORCH]
    agreement = small.export_onnx(folder, explanations=small.explain(model, texts), force=True)
    print(f"exported: {agreement}")
    made[ONNX] = LearnedExplainer.from_pretrained(folder, runtime="onnx", threads=args.threads)
    for own in made.values():
        own.reads_all = False  # matters where the prediction is given; see docs/identity.md
    return made, agreement


def _rounds(setting: Setting, texts: Sequence[str], size: int, args: argparse.Namespace) -> Times:
    """Seconds per text of every side and round, ``size`` texts at once."""
    times: Times = {}
    for number in range(args.rounds):
        start = number * TOGETHER % len(texts)
        examples = [Example(text) for text in texts[start : start + TOGETHER]]
        sides = _sides(setting, Texts(examples, setting.model.predict(examples)), size)
        for work in sides.values():
            work()  # the first time is slower everywhere
        order = list(sides) if number % 2 == 0 else list(sides)[::-1]
        turns = [{name: timed(sides[name]) for name in order} for _ in range(TURNS)]
        for name in sides:
            times.setdefault(name, []).append(_per_text([turn[name] for turn in turns], TOGETHER * TURNS))
        count = 1 if size == 1 else 4
        lime = timed(lambda some=examples[:count]: didact.explain(some, setting.model, Lime()))  # type: ignore[misc]
        times.setdefault(LIME, []).append(_per_text([lime], count))
        print(f"batch {size}: round {number + 1}/{args.rounds}")
    return times


def _sides(setting: Setting, texts: Texts, size: int) -> Sides:
    """Ways to go over all texts of a round, ``size`` at once."""
    cuts = [slice(start, start + size) for start in range(0, TOGETHER, size)]
    sides: Sides = {}
    for name, explainer in setting.explainers.items():
        sides[f"{name}: {NETWORK}"] = _network(setting.model, explainer, texts, size)
        sides[f"{name}: {CALL}"] = lambda e=explainer: [  # type: ignore[misc] # mypy sees no default
            e.explain(setting.model, texts.examples[cut], predictions=texts.predictions[cut]) for cut in cuts
        ]
        sides[f"{name}: {USER}"] = lambda e=explainer: [  # type: ignore[misc] # mypy sees no default
            didact.explain(texts.examples[cut], setting.model, e) for cut in cuts
        ]
    for name, network in ((BERT, setting.base), (OWN, setting.model.network)):
        sides[f"{name}: forward"] = _forward(network, setting.model, texts, cuts)
    return sides


def _network(model: NetworkModel, explainer: LearnedExplainer, texts: Texts, size: int) -> Callable[[], object]:
    """The passes of the explainer's network alone, on batches that are ready."""
    shape, rows = explainer.shape, min(size, explainer._budget.rows)
    units = model.units(texts.examples, explainer.about.level)
    items = shape.read(model, units, [prediction.index for prediction in texts.predictions], texts.predictions)
    batches = [shape.collate(items[start : start + rows]) for start in range(0, TOGETHER, rows)]

    def work() -> None:
        with torch.inference_mode():
            for batch in batches:
                explainer._forward(batch)

    return work


def _forward(
    network: PreTrainedModel, model: NetworkModel, texts: Texts, cuts: Sequence[slice]
) -> Callable[[], object]:
    """Plain passes of a classifier, on tensors that are ready."""
    written = [example.text for example in texts.examples]
    batches = [dict(model.tokenizer(written[cut], padding=True, return_tensors="pt")) for cut in cuts]

    def work() -> None:
        with torch.inference_mode():
            for batch in batches:
                network(**batch)

    return work


def _times(times: dict[int, Times], args: argparse.Namespace) -> Table:
    which = clock(args.threads)
    rows = []
    for name in times[1]:
        row = [name]
        for by_name in times.values():
            row += [
                middle([1000 * getattr(timing, which) for timing in by_name[name]], 2),
                f"{1000 * statistics.median(timing.wall for timing in by_name[name]):.2f}",
            ]
        rows.append(row)
    kind = "CPU time of one thread" if which == "cpu" else "wall time"
    columns = [head for size in times for head in (f"batch {size}, ms", f"batch {size}, wall ms")]
    notes = [
        f"Milliseconds per text, {kind} with its range and the median wall time; other work disturbs the second.",
        "With 8 bits each text goes through the network alone, also in a batch, so that its scores do not depend on "
        "the texts beside it.",
        "LIME explains one text in a round, four at once in place of the batch of 32.",
        f"{USER} is what a user calls: it checks the model, has it predict and runs the network. The other lines leave "
        "work out that every explanation needs.",
        "Where the prediction is given, reads_all = False: the model is looked at, and read when it looks different or "
        "after a while.",
    ]
    return Table("Time per text", ["", *columns], rows, notes)


def _bars(times: dict[int, Times], agreement: ExportAgreement, args: argparse.Namespace) -> Table:
    rows = []
    for part, size, slow, fast, bar in (
        (NETWORK, 1, f"{TORCH}: {NETWORK}", f"{ONNX}: {NETWORK}", "3"),
        (CALL, 1, f"{TORCH}: {CALL}", f"{ONNX}: {CALL}", ""),
        *(
            (part, size, LIME, f"{name}: {part}", "" if part == USER else "1000")
            for size in times
            for name in (DEFAULT, TORCH, ONNX)
            for part in PARTS
        ),
        *(
            (part, size, f"{BERT}: forward", f"{name}: {part}", "1")
            for size in times
            for name in (DEFAULT, TORCH, ONNX)
            for part in (NETWORK, CALL)
        ),
    ):
        pairs = zip(times[size][slow], times[size][fast], strict=True)
        ratios = [
            getattr(slower, clock(args.threads)) / getattr(faster, clock(args.threads)) for slower, faster in pairs
        ]
        against = slow.partition(":")[0]
        rows.append([fast.partition(":")[0], part, against, str(size), f"**{middle(ratios, 1)}**", bar])
    return Table(
        "Times faster",
        ["", "measured", "than", "batch", "ratio", "bar"],
        rows,
        [
            f"Agreement of ONNX int8 with torch: {agreement} (bar: a mean of {LIMIT}); embeddings of "
            f"{'8 bits' if agreement.int8_embeddings else 'floats'}.",
        ],
    )


def _text(which: str, explainers: dict[str, LearnedExplainer], args: argparse.Namespace) -> str:
    kind = "SST-2 sentences" if (SHARED / "data" / "sst2").is_dir() else "made-up texts"
    sizes = {name: sum(weight.numel() for weight in explainers[name].shape.parameters()) for name in SHAPES}
    return (
        f"Explained model: {which}. Texts: {TOGETHER} {kind} of {WORDS[0]} to {WORDS[1]} words in each round. "
        f"{DEFAULT} is the network that `didact train l2e` trains by default, a copy of the explained model's "
        f"({sizes[DEFAULT]:,} weights); {TORCH} a small one ({sizes[TORCH]:,}). Both were trained for 4 epochs on "
        f"{args.train} other texts with gradient x input as their reference: enough to have ranks worth comparing, not "
        "to be good. BERT-base is a random network of that shape that reads the same tokens. "
        f"Median and range over {args.rounds} interleaved rounds of {TURNS} turns."
    )


def _per_text(times: Sequence[Timing], texts: int) -> Timing:
    return Timing(sum(timing.wall for timing in times) / texts, sum(timing.cpu for timing in times) / texts)


if __name__ == "__main__":
    main()
