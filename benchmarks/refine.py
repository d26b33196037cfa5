"""How fast explanations are refined: texts together against one at a time, and what an unrefined one costs."""

from __future__ import annotations

import argparse
import copy
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from benchmarks.common import Table, Timing, clock, load_network, load_texts, middle, parser, prepare, publish, timed
from didact.experiments.masking.judges import judge
from didact.models.compose import compose
from didact.models.network import NetworkModel
from didact.trained.explainer import LearnedExplainer
from didact.trained.metadata import ExplainerMetadata
from didact.trained.refine import RefineConfig, RefinedExplainer
from didact.trained.samples import TrainingBatch, batch_of
from didact.trained.shapes.base import SHAPES
from didact.trained.signals.base import SignalTask
from didact.trained.signals.mask import MaskSignal
from didact.types import Example, Explanation, Floats

STEPS, RANK = 10, 8
PREDICT, ONCE, PLAIN = "the model's prediction", "unrefined explanation", "one at a time, plain torch"


@dataclass(frozen=True, eq=False)
class Setting:
    """What is compared: a model, an explainer of it and texts."""

    model: NetworkModel
    learned: LearnedExplainer
    examples: list[Example]
    steps: int = STEPS


@dataclass(eq=False)
class Side:
    """One way to go over the texts.

    Attributes:
        work: goes over them.
        texts: how many.
        times: of the rounds.
        peak: bytes of the GPU that the work takes besides what is there before.
    """

    work: Callable[[], object]
    texts: int
    times: list[Timing] = field(default_factory=list)
    peak: int = 0


def main() -> None:
    """Run the benchmark."""
    examples = (
        "  python -m benchmarks.refine --quick\n"
        "  python -m benchmarks.refine --device cuda --texts 64\n"
        "  python -m benchmarks.refine --texts 8 --few 4"
    )
    options = parser(__doc__ or "", examples)
    options.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    options.add_argument("--texts", type=int, default=32, help="texts that are refined (default 32)")
    options.add_argument("--few", type=int, default=8, help="of them, texts that are refined one at a time (default 8)")
    options.add_argument("--rows", type=int, default=32, help="texts refined together (default 32)")
    args = options.parse_args()
    steps = STEPS
    if args.quick:
        args.rounds, args.texts, args.few, steps = 1, 4, 2, 2
    prepare(args.threads)
    network, tokenizer, which = load_network()
    model = compose(network.to(args.device), tokenizer)
    setting = _setting(model, args, steps)
    sides = _sides(setting, args)
    for number in range(args.rounds + 1):  # the first round warms up
        for name in list(sides) if number % 2 else list(sides)[::-1]:
            _measure(sides[name], args.device, keep=number > 0)
        print(f"round {number}/{args.rounds}")
    agreement = _agreement(setting, args)
    raw = {name: {"times": [vars(time) for time in side.times], "peak": side.peak} for name, side in sides.items()}
    table = _table(sides, setting, args)
    publish("refine", _text(which, setting, agreement, args), [table], {**raw, "agreement": agreement}, args)


def _setting(model: NetworkModel, args: argparse.Namespace, steps: int) -> Setting:
    """An encoder that is a copy of the explained one; time does not depend on what it learned."""
    examples = [Example(text) for text in load_texts(args.texts)]
    build = SHAPES.get("encoder").build
    shape = build(model, model.units(examples), 1, {"backbone": "explained", "seed": 0}).to(args.device)
    learned = LearnedExplainer(shape, MaskSignal(), ExplainerMetadata.of(model, method="aml"))
    return Setting(model, learned, examples, steps)


def _sides(setting: Setting, args: argparse.Namespace) -> dict[str, Side]:
    model, every, few = setting.model, setting.examples, setting.examples[: args.few]

    def together(name: str, rows: int, some: list[Example], **settings: object) -> tuple[str, Side]:
        config = RefineConfig.configured(steps=setting.steps, rows=rows, **settings)
        refined = RefinedExplainer(setting.learned, config, judge=judge("comp"))
        return name, Side(lambda: refined.explain(model, some), len(some))

    return {
        PREDICT: Side(lambda: model.predict(every), len(every)),
        ONCE: Side(lambda: setting.learned.explain(model, every), len(every)),
        PLAIN: Side(lambda: [_alone(setting, one) for one in few], len(few)),
        **dict(
            [
                together("one at a time", 1, few),
                together(f"{args.rows} together", args.rows, every),
                together(f"one at a time, rank {RANK}", 1, few, rank=RANK),
                together(f"{args.rows} together, rank {RANK}", args.rows, every, rank=RANK),
            ]
        ),
    }


def _alone(setting: Setting, example: Example) -> Floats:
    """The same for one text by a copy of the network and an ordinary training loop; grades of all maps."""
    model, learned, signal = setting.model, setting.learned, setting.learned.signal
    (first,) = learned.explain(model, [example])
    shape = copy.deepcopy(learned.shape).eval()
    weights, batch = shape.refined(), _batch(setting, example)
    optimizer = torch.optim.AdamW(weights, lr=4e-5, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / setting.steps)
    maps = [first]
    for _ in range(setting.steps):
        loss = signal.loss(shape(batch.inputs), batch).sum()
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.grad = gradient
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            scores = signal.scores(shape(batch.inputs))[0].double().cpu()
        maps.append(_with_scores(first, scores.tolist()))
    return judge("comp").grades(model, maps)


def _batch(setting: Setting, example: Example) -> TrainingBatch:
    shape = setting.learned.shape
    samples = setting.learned.signal.prepare(SignalTask(setting.model, [example]), shape)
    device = next(shape.parameters()).device
    return batch_of(shape, samples.of_epoch(0), np.zeros(1, dtype=np.int64), device, samples.shared)


def _with_scores(explanation: Explanation, scores: Sequence[float]) -> Explanation:
    return Explanation(
        explanation.method, explanation.units, tuple(scores), explanation.target, explanation.prediction, signed=False
    )


def _measure(side: Side, device: str, *, keep: bool) -> None:
    def work() -> None:
        side.work()
        if device == "cuda":
            torch.cuda.synchronize()

    if device != "cuda":
        time = timed(work)
    else:
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        time = timed(work)
        side.peak = torch.cuda.max_memory_allocated() - before
    if keep:
        side.times.append(Timing(time.wall / side.texts, time.cpu / side.texts))


def _agreement(setting: Setting, args: argparse.Namespace) -> float:
    """Largest difference of a score between texts refined together and alone."""
    few = setting.examples[: args.few]
    made = [
        RefinedExplainer(setting.learned, RefineConfig(steps=setting.steps, rows=rows)).explain(setting.model, few)
        for rows in (1, args.rows)
    ]
    return max(float(abs(alone.array - beside.array).max()) for alone, beside in zip(*made, strict=True))


def _table(sides: dict[str, Side], setting: Setting, args: argparse.Namespace) -> Table:
    which = "wall" if args.device == "cuda" else clock(args.threads)
    times = {name: [1000 * getattr(time, which) for time in side.times] for name, side in sides.items()}
    middles = {name: statistics.median(own) for name, own in times.items()}
    rows = [
        [
            name,
            middle(own, 2),
            f"{middles[name] / middles[PREDICT]:.1f}",
            f"{middles[PLAIN] / middles[name]:.1f}",
            f"{sides[name].peak / 2**20:.0f}" if args.device == "cuda" else "not measured",
        ]
        for name, own in times.items()
    ]
    columns = ["", "ms per text", "in predictions", f"faster than {PLAIN}", "peak MiB besides the networks"]
    kind = "Wall time" if which == "wall" else "CPU time of one thread"
    notes = [
        f"{kind}, median and range of {args.rounds} rounds; {args.few} texts one at a time, {args.texts} together.",
        f"Each refined text: {setting.steps} steps of AdamW, and the best of {setting.steps + 1} maps by "
        "comprehensiveness at 20 %.",
        f"Memory expected for {args.rows} texts of 24 tokens: {_expected(setting, args.rows)} MiB, with rank {RANK} "
        f"{_expected(setting, args.rows, rank=RANK)} MiB.",
    ]
    return Table("Time and memory per refined text", columns, rows, notes)


def _expected(setting: Setting, rows: int, rank: int | None = None) -> int:
    refined = RefinedExplainer(setting.learned, RefineConfig(rows=rows, rank=rank))
    return round(refined.memory(rows, 24) / 2**20)


def _text(which: str, setting: Setting, agreement: float, args: argparse.Namespace) -> str:
    size = sum(weight.numel() for weight in setting.learned.shape.refined())
    return (
        f"Explained: {which}, on {args.device}, texts of 15 to 18 words. The explainer is an encoder of the same size, "
        f"of which {size:,} numbers are refined. The largest difference of a score between texts refined together and "
        f"alone is {agreement:.1e}."
    )


if __name__ == "__main__":
    main()
