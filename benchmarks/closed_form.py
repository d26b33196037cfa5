"""How quickly closed-form students grade explainers: many ridge students on the words of film reviews, and the gains.

The teacher is the MiniLM sentiment model; its explanations are made once and kept. With ``--planted`` there is none:
people's labels take its place, and the explanations are log-odds of words under more and more noise, so it is known
beforehand which is better.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerBase

from benchmarks.common import SHARED, machine, prepare
from didact.attribution.base import ATTRIBUTIONS
from didact.data.load import load_data
from didact.models.compose import compose
from didact.models.eval_mode import quiet
from didact.models.network import NetworkModel
from didact.ops.units import word_spans
from didact.scale.collect import collect
from didact.simulation.controls import control
from didact.simulation.execution import simulate
from didact.simulation.hints import HintFormat
from didact.simulation.simulability import NONE, Plan, Setting, SimulabilityData, WeightedChannel
from didact.stats.crossed import Crossed, crossed_gain, crossed_interval
from didact.stats.paired import holm
from didact.store.parts import Parts
from didact.students.base import Hint, LabelledExample
from didact.students.channels.prior import PriorChannel
from didact.students.kinds.ridge import Ridge
from didact.types import Example, Explanation, Floats

EXPLAINERS = (
    "gradient_x_input",
    "attention",
    "lrp",
    "gim",
    "attention_x_gradient",
    "attention_rollout",
    "gradient_norm",
    "deeplift",
)
CONTROLS = ("random", "trivial", "label_leak", "shuffled_positions")
NOISES = (0.0, 0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 100.0)
"""Deviations of noise on planted log-odds; the last one drowns them."""

Hints = Mapping[str, Sequence[Hint]]


@dataclass(frozen=True, eq=False)
class Class:
    """Training texts, test texts and explanations.

    Attributes:
        pool: training texts with the teacher's answers.
        test: test texts with the teacher's answers.
        hints: of the explainers, computed within the measured time from ``explanations`` where there are such.
        explanations: of the explainers; empty for planted ones.
    """

    pool: list[LabelledExample]
    test: list[LabelledExample]
    hints: Hints
    explanations: Mapping[str, list[Explanation]]


@dataclass(frozen=True)
class Row:
    """What one explainer adds, in points of accuracy."""

    method: str
    gain: float
    low: float
    high: float
    half_width: float
    p: float
    is_control: bool


def main() -> None:
    """Run the benchmark."""
    args = _options().parse_args()
    if args.quick:
        args.pool, args.test, args.students, args.training = min(args.pool, 300), 200, 4, 100
    prepare(args.threads)
    task = _planted(args) if args.planted else _taught(args)
    wall, cpu = time.perf_counter(), time.process_time()
    hints = {name: HintFormat(share=args.share).hints(explanations) for name, explanations in task.explanations.items()}
    scores = _scores(task, {**hints, **task.hints}, args)
    none = crossed_interval(scores[NONE])
    rows = _rows({name: crossed_gain(matrix, scores[NONE]) for name, matrix in scores.items() if name != NONE})
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rows += _controls(task, scores[NONE], args)
    _report(rows, none, {"wall_seconds": wall, "cpu_seconds": cpu}, args)


def load_teacher() -> NetworkModel:
    """The sentiment model that students imitate."""
    place = SHARED / "weights" / "minilm-imdb"
    with quiet():
        network = AutoModelForSequenceClassification.from_pretrained(place, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
    network.name_or_path = "minilm-imdb"
    return compose(network.eval(), tokenizer)


def load_reviews(split: str, count: int, tokens: int, tokenizer: PreTrainedTokenizerBase) -> list[Example]:
    """The first reviews of a split, without line breaks and cut behind so many of the teacher's tokens."""
    texts = [example.text.replace("<br />", " ") for example in load_data("imdb", split=split).examples[:count]]
    read = tokenizer(texts, truncation=True, max_length=tokens, return_offsets_mapping=True)
    ends = [max(end for _, end in offsets) for offsets in read["offset_mapping"]]
    return [Example(text[:end]) for text, end in zip(texts, ends, strict=True)]


def explained(
    teacher: NetworkModel, examples: Sequence[Example], names: Sequence[str], cache: Path
) -> dict[str, list[Explanation]]:
    """Explanations by method; what the cache holds is not computed again."""
    parts = Parts(cache / "explanations")
    by_method = {}
    for name in names:
        by_method[name] = collect(teacher, examples, ATTRIBUTIONS.get(name).configured(), parts)
        print(f"{name}: {len(examples)} texts explained", flush=True)
    return by_method


def answered(teacher: NetworkModel, examples: Sequence[Example], cache: Path) -> list[LabelledExample]:
    """Texts with the teacher's answers, kept in the cache."""
    place = cache / "answers.json"
    known = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    missing = [example for example in examples if example.fingerprint not in known]
    for start in range(0, len(missing), 256):
        some = missing[start : start + 256]
        pairs = zip(some, teacher.predict(some), strict=True)
        known |= {example.fingerprint: prediction.index for example, prediction in pairs}
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(known), encoding="utf-8")
    return [LabelledExample(example, known[example.fingerprint]) for example in examples]


def planted_hints(training: Sequence[LabelledExample], noise: float, share: float, seed: int) -> list[Hint]:
    """The words of each text with the largest log-odds of its label, in so many deviations of noise."""
    texts = [example.example.text for example in training]
    spans = [word_spans(text) for text in texts]
    words = [[text[span.start : span.end].lower() for span in row] for text, row in zip(texts, spans, strict=True)]
    counts: dict[str, list[int]] = {}
    for row, example in zip(words, training, strict=True):
        for word in set(row):
            counts.setdefault(word, [0, 0])[int(example.answer)] += 1  # type: ignore[arg-type]
    odds = {
        word: float(np.log((right + 1) / (wrong + 1))) * (right + wrong) / (right + wrong + 10)
        for word, (wrong, right) in counts.items()
    }
    rng = np.random.default_rng(seed)
    hints = []
    for row, places, example in zip(words, spans, training, strict=True):
        sign = 1 if example.answer == 1 else -1
        values: Floats = sign * np.array([odds[word] for word in row]) + noise * rng.normal(size=len(row))
        size = int(np.ceil(share * len(row)))
        best = np.sort(np.argsort(-values, kind="stable")[:size]).tolist()
        hints.append(Hint(tuple(places[place] for place in best), np.full(size, 1 / size)))
    return hints


def _options() -> argparse.ArgumentParser:
    examples = (
        "  python -m benchmarks.closed_form --quick --planted\n"
        "  python -m benchmarks.closed_form --planted --pool 8750 --test 2500 --threads 2\n"
        "  python -m benchmarks.closed_form --pool 1200 --test 2000 --tokens 128 --out runs/closed_form/gains.json"
    )
    options = argparse.ArgumentParser(
        description=__doc__, epilog=f"examples:\n{examples}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a small run that shows that everything works")
    options.add_argument("--planted", action="store_true", help="people's labels and planted explanations; no model")
    options.add_argument("--pool", type=int, default=1200, help="texts to draw training texts from (default 1200)")
    options.add_argument("--test", type=int, default=2000, help="test texts (default 2000)")
    options.add_argument("--students", type=int, default=64, help="students per explainer (default 64)")
    options.add_argument("--training", type=int, default=500, help="training texts of a student (default 500)")
    options.add_argument("--tokens", type=int, default=128, help="tokens of a text, with a model (default 128)")
    options.add_argument("--share", type=float, default=0.1, help="of the words that a hint names (default 0.1)")
    options.add_argument("--explainers", default=",".join(EXPLAINERS), help="methods, joined by commas")
    options.add_argument("--features", choices=("lexical", "frozen"), default="lexical", help="of the students")
    options.add_argument("--model", help="encoder of frozen features (default: the embedded one)")
    options.add_argument("--threads", type=int, default=2, help="threads (default 2; 1 where other work runs)")
    options.add_argument("--cache", type=Path, default=Path("runs/closed_form"), help="where explanations are kept")
    options.add_argument("--out", type=Path, help="a file for the numbers")
    return options


def _taught(args: argparse.Namespace) -> Class:
    """The sentiment model as the teacher."""
    teacher = load_teacher()
    tokenizer = teacher.tokenizer
    pool = load_reviews("student_train", args.pool, args.tokens, tokenizer)
    test = load_reviews("student_test", args.test, args.tokens, tokenizer)
    explanations = explained(teacher, pool, args.explainers.split(","), args.cache)
    first = next(iter(explanations.values()))
    training = [LabelledExample(explanation.example, explanation.prediction.index) for explanation in first]
    return Class(training, answered(teacher, test, args.cache), {}, explanations)


def _planted(args: argparse.Namespace) -> Class:
    """People's labels as the teacher."""
    pool, test = (
        [
            LabelledExample(Example(example.text.replace("<br />", " ")), int(example.label == "positive"))
            for example in load_data("imdb", split=split).examples[:count]
        ]
        for split, count in (("student_train", args.pool), ("student_test", args.test))
    )
    hints = {f"noise {noise:g}": planted_hints(pool, noise, args.share, k) for k, noise in enumerate(NOISES)}
    return Class(pool, test, hints, {})


def _scores(task: Class, hints: Hints, args: argparse.Namespace) -> Mapping[str, Floats]:
    """Right or wrong (students, items) by method."""
    student = Ridge(features=args.features, model=args.model)
    plan = Plan(sizes=(args.training,), subsets=args.students)
    result = simulate(
        SimulabilityData(task.pool, task.test, hints),
        {"ridge": student},
        {"prior": WeightedChannel(PriorChannel())},
        plan,
    )
    return result.scores[Setting("ridge", "prior", args.training)]


def _controls(task: Class, none: Floats, args: argparse.Namespace) -> list[Row]:
    """Hints that explain nothing, made from the first explainer's explanations; not part of the measured time."""
    if not task.explanations:
        return []
    format, first = HintFormat(share=args.share), next(iter(task.explanations.values()))
    scores = _scores(task, {name: control(name, first, format, 0) for name in CONTROLS}, args)
    return _rows({name: crossed_gain(scores[name], none) for name in CONTROLS}, is_control=True)


def _rows(gains: Mapping[str, Crossed], *, is_control: bool = False) -> list[Row]:
    adjusted = holm([gain.p for gain in gains.values()]).tolist()
    rows = [
        Row(name, 100 * gain.mean, 100 * gain.low, 100 * gain.high, 100 * gain.half_width, p, is_control)
        for (name, gain), p in zip(gains.items(), adjusted, strict=True)
    ]
    return sorted(rows, key=lambda row: -row.gain)


def _report(rows: Sequence[Row], none: Crossed, seconds: Mapping[str, float], args: argparse.Namespace) -> None:
    explainers = [row for row in rows if not row.is_control]
    widest = max(row.half_width for row in explainers)
    print(f"\nwithout hints: {100 * none.mean:.1f} ({100 * none.low:.1f} to {100 * none.high:.1f}) % like the teacher")
    print(f"{'hints of':32}{'gain':>7}{'low':>8}{'high':>8}{'p (Holm)':>10}")
    for row in rows:
        name = f"{row.method} (control)" if row.is_control else row.method
        print(f"{name:32}{row.gain:+7.2f}{row.low:+8.2f}{row.high:+8.2f}{row.p:10.4f}")
    print(
        f"\n{len(explainers)} explainers x {args.students} students of {args.training} training texts, "
        f"{len(explainers) + 1} x {args.students} students trained and tested on {args.test} texts: "
        f"{seconds['wall_seconds']:.1f} s, "
        f"{seconds['cpu_seconds']:.1f} s of CPU; widest half of an interval {widest:.2f} points"
    )
    if args.out is not None:
        settings = {name: value for name, value in vars(args).items() if name not in ("cache", "out", "model")}
        record = {
            **machine(args.threads),
            "settings": settings,
            **seconds,
            "widest_half": widest,
            "none": asdict(none),
            "rows": [asdict(row) for row in rows],
        }
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
