"""How many steps per second students make one at a time and together, and whether both give the same results.

With ``--channels``, how much longer a step takes with a channel than without one, all students together.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.common import SHARED, machine, prepare
from didact.data.corpus import generate
from didact.ops.lstm import LstmWeights
from didact.ops.units import word_spans
from didact.progress import listening
from didact.students.base import (
    CHANNELS,
    STUDENTS,
    Cohort,
    Hint,
    LabelledExample,
    Student,
    StudentOutcome,
    StudentRun,
    TaskSetup,
)
from didact.students.kinds._recurrent import Recurrent, RecurrentCohort, StackedLstm
from didact.types import Example

WARM = 5  # steps before the clock starts: first kernels, first allocations
EXAM = 64
NONE = "none"  # no channel
SPREAD = 0.25  # texts are this share shorter at most than the longest


@dataclass(frozen=True, eq=False)
class Setting:
    """Training texts, test texts and courses of the students."""

    pool: list[LabelledExample]
    exam: list[Example]
    courses: list[StudentRun]
    device: str


class Stopwatch:
    """Times the training steps after the first few, as work under ``listening`` reports them."""

    def __init__(self, device: str, steps: int) -> None:
        self.device, self.steps = device, steps
        self.seen, self.seconds, self.begun = 0, 0.0, 0.0

    def start(self, what: str, total: int) -> None:
        """Nothing is timed yet: students are still being made."""

    def advance(self, steps: int) -> None:
        """One step of all students was given to the device."""
        self.seen += 1
        number = (self.seen - 1) % self.steps + 1
        if number == WARM:
            self.begun = self._now()
        elif number == self.steps:
            self.seconds += self._now() - self.begun

    def stop(self) -> None:
        """All is over."""

    def _now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
            return time.perf_counter()
        # With one thread, CPU time, which other processes do not disturb.
        return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def main() -> None:
    """Run the benchmark."""
    args = _options().parse_args()
    prepare(args.threads)
    rows = []
    for name in args.students.split(","):
        for precision in args.precision.split(",") if args.device == "cuda" else ["float32"]:
            if precision == "bfloat16" and name != "transformer":
                continue
            try:
                rows.append(_costs(name, precision, args) if args.channels else _compared(name, precision, args))
            except Exception as problem:  # the other comparisons are worth having all the same
                traceback.print_exc()
                message = f"{type(problem).__name__}: {problem}"
                rows.append({"student": name, "precision": precision, "failed": message})
            if args.out is not None:
                args.out.parent.mkdir(parents=True, exist_ok=True)
                args.out.write_text(json.dumps(_page(rows, args), indent=1) + "\n", encoding="utf-8")
    print(json.dumps([{k: v for k, v in row.items() if k != "raw"} for row in rows], indent=1))
    if any("failed" in row for row in rows):
        raise SystemExit(1)


def _options() -> argparse.ArgumentParser:
    examples = (
        "examples:\n"
        "  python -m benchmarks.students --device cpu --students bilstm --together 4 --steps 8\n"
        "  python -m benchmarks.students --device cuda --steps 40 --precision float32,tf32 --out runs/students.json\n"
        "  python -m benchmarks.students --device cuda --students transformer --channels head_mix --length 256"
    )
    options = argparse.ArgumentParser(
        description=__doc__, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--students", default="transformer,bilstm,bilstm_attention", help="names, by commas")
    options.add_argument("--channels", help="channels whose cost is measured, by commas, instead of the comparison")
    options.add_argument("--together", type=int, default=16, help="students at once (default 16)")
    options.add_argument(
        "--steps", type=int, default=40, help=f"steps per run, the first {WARM} not timed (default 40)"
    )
    options.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    options.add_argument("--length", type=int, default=128, help="tokens of the longest texts (default 128)")
    options.add_argument("--batch", type=int, default=16, help="training texts per step (default 16)")
    options.add_argument("--precision", default="float32", help="float32, tf32, bfloat16, by commas (GPU only)")
    options.add_argument("--same", type=int, help="students whose results are compared (default: all of them)")
    options.add_argument("--threads", type=int, default=1, help="threads on the CPU (default 1)")
    options.add_argument("--model", help="encoder of the transformer student (default: MiniLM where it is at hand)")
    options.add_argument("--out", type=Path, help="JSON file to write, after every comparison")
    return options


def _compared(name: str, precision: str, args: argparse.Namespace) -> dict[str, object]:
    """One kind of student, one at a time in every way there is, and together."""
    setting = _setting(name, args)
    student = _student(name, precision, args)
    alone = {"as shipped": student, **_others(student)}
    rates: dict[str, list[float]] = {way: [] for way in (*alone, "together")}
    for number in range(args.rounds):
        ways = list(rates) if number % 2 == 0 else list(rates)[::-1]
        for way in ways:
            size = args.together if way == "together" else 1
            some = replace(setting, courses=setting.courses[:size])
            rates[way].append(_timed(alone.get(way, student), some, size, args)[0])
            print(f"{name} {precision} round {number + 1}: {way}: {rates[way][-1]:.1f} student-steps/s", flush=True)
    best = max(alone, key=lambda way: statistics.median(rates[way]))
    ratios = [many / single for many, single in zip(rates["together"], rates[best], strict=True)]
    same = args.same or args.together
    apart = _timed(student, replace(setting, courses=setting.courses[:same]), 1, args)[1]
    joined = _timed(student, setting, args.together, args)[1][:same]
    row = {
        "student": name,
        "precision": precision,
        "together": args.together,
        "length": args.length,
        "batch": args.batch,
        "student_steps_per_second": {way: statistics.median(values) for way, values in rates.items()},
        "fastest_alone": best,
        "ratio": statistics.median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
        "largest_difference": _difference(apart, joined),
        "compared": same,
        "memory_gb": torch.cuda.max_memory_allocated() / 2**30 if args.device == "cuda" else None,
        "raw": rates,
    }
    print(f"{name} {precision}: ratio {row['ratio']:.2f}, difference {row['largest_difference']:.1e}", flush=True)
    return row


def _costs(name: str, precision: str, args: argparse.Namespace) -> dict[str, object]:
    """Seconds of a step with each channel, as a multiple of those without."""
    plain = _setting(name, args)
    hinted = replace(plain, courses=[_hinted(course, plain.pool) for course in plain.courses])
    student = _student(name, precision, args)
    channels = [NONE, *args.channels.split(",")]
    rates: dict[str, list[float]] = {channel: [] for channel in channels}
    for number in range(args.rounds):
        for channel in channels if number % 2 == 0 else channels[::-1]:
            setting = plain if channel == NONE else hinted
            rates[channel].append(_timed(student, setting, args.together, args, channel)[0])
            print(
                f"{name} {precision} round {number + 1}: {channel}: {rates[channel][-1]:.1f} student-steps/s",
                flush=True,
            )
    costs = {}
    for channel in channels[1:]:
        ratios = [one / other for one, other in zip(rates[NONE], rates[channel], strict=True)]
        costs[channel] = {"cost": statistics.median(ratios), "range": [min(ratios), max(ratios)]}
    print(f"{name} {precision}: {json.dumps(costs)}", flush=True)
    return {
        "student": name,
        "precision": precision,
        "together": args.together,
        "length": args.length,
        "batch": args.batch,
        "student_steps_per_second": {channel: statistics.median(values) for channel, values in rates.items()},
        "cost_of_channels": costs,
        "raw": rates,
    }


def _hinted(course: StudentRun, pool: Sequence[LabelledExample]) -> StudentRun:
    """The same with a weight for every word of every text."""
    rng = np.random.default_rng(course.seed)
    hints = {place: _weighted(pool[place].example.text, rng) for place in sorted(set(course.places.tolist()))}
    return replace(course, hints=[hints[place] for place in course.places.tolist()], weight=5.0)


def _weighted(text: str, rng: np.random.Generator) -> Hint:
    spans = tuple(word_spans(text))
    return Hint(spans, rng.dirichlet(np.ones(len(spans))))


def _timed(
    student: Student, setting: Setting, together: int, args: argparse.Namespace, channel: str = NONE
) -> tuple[float, list[StudentOutcome]]:
    """Student-steps per second, and what came out."""
    watch = Stopwatch(args.device, args.steps)
    made = None if channel == NONE else CHANNELS.get(channel)()
    with listening(watch):
        setup = TaskSetup(kind="number", outputs=1, channel=made, device=args.device, together=together)
        outcomes = student.train_and_predict(setting.pool, setting.courses, setting.exam, setup)
    return (args.steps - WARM) * len(setting.courses) / watch.seconds, outcomes


def _difference(apart: Sequence[StudentOutcome], joined: Sequence[StudentOutcome]) -> float:
    """Largest difference of any student's number for any test text; numbers have a spread of 1."""
    pairs = zip(apart, joined, strict=True)
    return max(float(np.abs(alone.answers - other.answers).max()) for alone, other in pairs)


def _setting(name: str, args: argparse.Namespace) -> Setting:
    """Texts joined from synthetic reviews, with random numbers to learn: each student its own training texts."""
    rng = np.random.default_rng(0)
    lessons = args.steps * args.batch
    size = min(lessons, 512)
    tokens = [word for example in generate(4000) for word in example.text.split()]
    share = 0.8 if name == "transformer" else 1.0  # its tokens are pieces of words
    lengths = rng.integers(int(args.length * (1 - SPREAD) * share), int(args.length * share) + 1, size + EXAM)
    starts = rng.integers(0, len(tokens) - args.length, size + EXAM)
    texts = [" ".join(tokens[a : a + n]) for a, n in zip(starts, lengths, strict=True)]
    pool = [LabelledExample(Example(text), float(rng.normal())) for text in texts[:size]]
    # An epoch is the whole course, so that the number of steps is the requested one.
    courses = [
        StudentRun(rng.permutation(np.arange(lessons) % size).astype(np.int64), [None] * lessons, 0.0, seed)
        for seed in range(args.together)
    ]
    return Setting(pool, [Example(text) for text in texts[size:]], courses, args.device)


def _student(name: str, precision: str, args: argparse.Namespace) -> Student:
    settings: dict[str, object] = {"epochs": 1, "batch_size": args.batch, "precision": precision}
    settings["max_length"] = args.length
    if name == "transformer":
        place = SHARED / "weights" / "minilm-base"
        settings["model"] = args.model or (str(place) if place.is_dir() else None)
    return STUDENTS.get(name).configured(**settings)


def _others(student: Student) -> dict[str, Student]:
    """Other ways to train one student at a time."""
    if not isinstance(student, Recurrent):
        return {}
    kind = type(student)

    class Ours(kind):  # type: ignore[misc, valid-type] # the kind is known only now
        def cohort(self, seeds: Sequence[int], words: int, setup: TaskSetup) -> Cohort:
            return _swapped(kind.cohort(self, seeds, words, setup), packed=False)

    class Packed(kind):  # type: ignore[misc, valid-type]
        def cohort(self, seeds: Sequence[int], words: int, setup: TaskSetup) -> Cohort:
            return _swapped(kind.cohort(self, seeds, words, setup), packed=True)

    return {"our LSTM": Ours(**student.parameters), "packed nn.LSTM": Packed(**student.parameters)}


def _swapped(cohort: Any, packed: bool) -> RecurrentCohort:
    """The cohort of one with another LSTM inside."""
    first = cohort.lstm.directions[0]
    width, hidden = first.input_size, first.hidden_size
    cohort.lstm = _Packed(width, hidden) if packed else StackedLstm(_plain_weights(width, hidden))
    swapped: RecurrentCohort = cohort
    return swapped


def _plain_weights(width: int, hidden: int) -> LstmWeights:
    spread = hidden**-0.5
    shapes = ((1, 2, width, 4 * hidden), (1, 2, hidden, 4 * hidden), (1, 2, 4 * hidden))
    return LstmWeights(*[torch.rand(shape) * 2 * spread - spread for shape in shapes])


class _Packed(nn.Module):
    """``nn.LSTM`` as it is usually called: both directions in one call, padding packed away."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        self.lstm.train()  # cuDNN differentiates in no other mode
        return self

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(inputs[0], lengths[0].cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=inputs.shape[2])
        return states[None]


def _page(rows: Sequence[dict[str, object]], args: argparse.Namespace) -> dict[str, object]:
    about = machine(args.threads)
    if args.device == "cuda":
        about["machine"] = f"one {torch.cuda.get_device_name(0)}"
    settings = {k: v for k, v in vars(args).items() if k not in ("out", "model")}
    return {**about, "settings": settings, "students": list(rows)}


if __name__ == "__main__":
    main()
