"""What a step of SMaT costs beside a plain step of its students, and how near its gradient is to the exact one."""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast, get_args

import numpy as np
import torch
from torch import Tensor

from benchmarks.common import SHARED, machine, prepare
from didact.data.corpus import generate
from didact.models.encoders import embedded_path
from didact.models.load import load_model
from didact.protocols import Model
from didact.trained._collated import collated
from didact.trained.samples import TrainingSamples
from didact.trained.scaffolding.meta_gradients import Difference, MetaGradient
from didact.trained.scaffolding.population import Population
from didact.trained.shapes.base import SHAPES, Shape
from didact.trained.signals.base import SignalTask
from didact.trained.signals.scaffold import ScaffoldSignal
from didact.types import Example

WARM = 3
"""Calls before the clock starts."""


@dataclass(frozen=True, eq=False)
class Bench:
    """A population and what it is taught."""

    signal: ScaffoldSignal
    shape: Shape
    samples: TrainingSamples
    population: Population
    rows: list[np.ndarray]
    device: torch.device


def main() -> None:
    """Run the benchmark."""
    args = _options().parse_args()
    prepare(args.threads)
    page = {**machine(args.threads), "settings": {k: v for k, v in vars(args).items() if k not in ("out", "model")}}
    if args.device == "cuda":
        page["machine"] = f"one {torch.cuda.get_device_name(0)}"
    rows = []
    for precision in args.precision.split(","):
        rows.append(_row(precision, args))
        print(json.dumps(rows[-1], indent=1), flush=True)
        if args.out is not None:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(json.dumps({**page, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.ArgumentParser:
    examples = (
        "examples:\n"
        "  python -m benchmarks.scaffold --students 2 --length 64 --batch 8 --calls 4\n"
        "  python -m benchmarks.scaffold --device cuda --students 16 --precision float32,tf32,bfloat16 --out s.json"
    )
    options = argparse.ArgumentParser(
        description=__doc__, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--students", type=int, default=6, help="in the population (default 6)")
    options.add_argument("--batch", type=int, default=32, help="texts per step (default 32)")
    options.add_argument("--outer-batch", type=int, default=32, help="texts of the outer loss (default 32)")
    options.add_argument("--length", type=int, default=256, help="tokens of the longest texts (default 256)")
    options.add_argument("--calls", type=int, default=20, help="calls that are timed, of each kind (default 20)")
    options.add_argument("--precision", default="float32", help="float32, tf32, bfloat16, by commas (GPU only)")
    options.add_argument("--model", help="explained model and students (default: MiniLM, or the embedded one)")
    options.add_argument("--no-exact", action="store_true", help="leave out the comparison with the exact gradient")
    options.add_argument("--threads", type=int, default=1, help="threads on the CPU (default 1)")
    options.add_argument("--out", type=Path, help="JSON file to write")
    return options


def _row(precision: str, args: argparse.Namespace) -> dict[str, object]:
    """Milliseconds of every kind of step, interleaved, and their ratios to the plain step."""
    bench = _bench(precision, args)
    ways = _ways(bench)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(WARM + args.calls):
        for name, call in ways.items():
            seconds = _seconds(call, bench.device)
            if number >= WARM:
                taken[name].append(seconds)
    plain = statistics.median(taken["student step"])
    return {
        "precision": precision,
        "milliseconds": {name: round(1000 * statistics.median(values), 2) for name, values in taken.items()},
        "times a student step": {name: round(statistics.median(values) / plain, 3) for name, values in taken.items()},
        "memory_gb": torch.cuda.max_memory_allocated() / 2**30 if args.device == "cuda" else None,
        "agreement": {} if args.no_exact else _agreement(bench),
    }


def _ways(bench: Bench) -> Mapping[str, Callable[[], object]]:
    """What is timed; students go on learning in all of them."""
    population, generator = bench.population, torch.Generator().manual_seed(0)
    students, steps, size = population.layout
    places = bench.rows[0].reshape(students, steps, size)
    hints = _hints(bench)
    batch = population.batch(places[:, 0], hints[:, 0])
    trainer, central = population.trainer, copy.deepcopy(population)
    central.config = replace(central.config, difference="central")

    kept = collated(bench.shape, bench.samples, bench.device)
    if kept is None:
        raise SystemExit("the samples are too large to be kept on the device; use fewer or shorter texts")

    def smat() -> None:
        inputs = kept.batch(bench.rows[0], bench.samples.shared)
        outputs = bench.shape(inputs.inputs)
        torch.autograd.backward(bench.signal.loss(outputs, replace(inputs, generator=generator)).mean())

    return {
        "student step": lambda: trainer.step(batch, 1e-4),
        "student step as a function": lambda: population.step(places[:, 0], hints[:, 0]),
        "student step and meta-gradient": lambda: population.window(places, hints, generator),
        "the same by central differences": lambda: central.window(places, hints, generator),
        "SMaT step": smat,
    }


def _agreement(bench: Bench) -> dict[str, dict[str, float]]:
    """Cosine with the exact meta-gradient of the same step, and relative error."""
    exact = _gradient(bench, "exact", "central")
    made: dict[str, dict[str, float]] = {}
    for difference in get_args(Difference):
        linear = _gradient(bench, "linear", difference)
        made[f"linear, {difference}"] = {
            "cosine": float(torch.nn.functional.cosine_similarity(linear, exact, dim=0)),
            "relative error": float((linear - exact).norm() / exact.norm()),
        }
    return made


def _gradient(bench: Bench, kind: str, difference: str) -> Tensor:
    """The meta-gradient of the first window, of a copy of the population."""
    students = copy.deepcopy(bench.population)
    meta = MetaGradient.parsed(kind)
    students.config = replace(students.config, meta=meta, difference=cast("Difference", difference))
    places = bench.rows[0].reshape(students.layout)
    gradient, _ = students.window(places, _hints(bench), torch.Generator().manual_seed(1))
    return gradient.double().flatten()


def _hints(bench: Bench) -> Tensor:
    """Equal weights on all tokens of the first window's texts."""
    places = bench.rows[0].reshape(bench.population.layout)
    return torch.from_numpy(bench.population.tokens.text[places]).float().to(bench.device)


def _bench(precision: str, args: argparse.Namespace) -> Bench:
    place = SHARED / "weights" / "minilm-base"
    student = args.model or (str(place) if place.is_dir() else None)
    model = _teacher(args)
    signal = ScaffoldSignal(
        students=args.students,
        examples=2 * args.batch,
        batch=args.batch,
        outer_batch=args.outer_batch,
        student={"model": student, "max_length": args.length, "precision": precision},
        device=args.device,
    )
    texts = _texts(4 * args.batch, args.length)
    shape = SHAPES.get("head_mix").build(model, model.units(texts[:1]), 1, {}).to(args.device)
    samples = signal.prepare(SignalTask(model, texts[:-4], texts[-4:], level="token"), shape)
    assert samples.batches is not None
    population = cast("Population", samples.shared["students"])
    return Bench(signal, shape, samples, population, list(samples.batches(0)), torch.device(args.device))


def _teacher(args: argparse.Namespace) -> Model:
    place = SHARED / "weights" / "minilm-imdb"
    return load_model(args.model or str(place if place.is_dir() else embedded_path()), device=args.device)


def _texts(count: int, length: int) -> list[Example]:
    """Texts joined from synthetic reviews, all of them nearly as long as the limit."""
    words = [word for example in generate(2000) for word in example.text.split()]
    starts = np.random.default_rng(0).integers(0, len(words) - length, count)
    return [Example(" ".join(words[start : start + length])) for start in starts]


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    """Time of a call; CPU time on the CPU, which other processes do not disturb."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    clock = time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    begun = clock()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return clock() - begun


if __name__ == "__main__":
    main()
