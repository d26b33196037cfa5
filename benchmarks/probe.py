"""How good and how dear an explanation inside the prediction is: a probe beside other explainers, in one run.

Parts, each a record of its own; a run that is stopped resumes with the same command:

    python -m benchmarks.probe quality --model weights/minilm-sst2     # five metrics on all test texts
    python -m benchmarks.probe curve --model weights/minilm-sst2       # quality against evaluations of the model
    python -m benchmarks.probe cost --model weights/minilm-sst2        # prediction alone, and with the explanation
    python -m benchmarks.probe budget --model weights/minilm-sst2      # evaluations that correct learned scores
    python -m benchmarks.probe elsewhere --model weights/minilm-sst2   # texts of another kind
    python -m benchmarks.probe among --model weights/minilm-imdb       # the probe of a record of all texts on some
    python -m benchmarks.probe static --model weights/minilm-sst2      # what quality needs of the other explainers

Heads and training texts are chosen with ``--split validation --only probe``, before any test text is read.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from torch import Tensor

from benchmarks.common import machine, prepare
from didact.attribution.base import ATTRIBUTIONS
from didact.attribution.kernel_shap import KernelShap
from didact.data.load import load_data
from didact.disk import write_text
from didact.errors import CapabilityError
from didact.experiments.distillation.summary import LEARNED, gather
from didact.experiments.engine.naming import example_names
from didact.experiments.masking.judges import panel
from didact.models.batch import Inputs
from didact.models.eval_mode import evaluating, parameters
from didact.models.half_precision import HalfPrecision
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.replay import Replay
from didact.protocols import Explainer
from didact.provenance import content_hash
from didact.scale.collect import collect
from didact.stats.bootstrap import interval
from didact.stats.correlation import spearman
from didact.store import records
from didact.store.parts import Parts
from didact.trained.attached import AttachedModel, attach
from didact.trained.budgeted import BudgetedExplainer
from didact.trained.explainer import LearnedExplainer
from didact.trained.fallback import FallbackExplainer
from didact.trained.one_graph import OWNER
from didact.trained.train import train
from didact.types import Example, Explanation, Floats

REFERENCE = "kernel_shap 500"
NUMBERS = re.compile(r"\[[-+.,\d\seE]+\]")
"""A list of numbers, which a record has on one line."""
SLOW: dict[str, tuple[str, dict[str, object]]] = {
    REFERENCE: ("kernel_shap", {"evaluations": 500}),
    "lime 1000": ("lime", {"samples": 1000}),
    "deeplift": ("deeplift", {}),
    "lrp": ("lrp", {}),
    "integrated_gradients": ("integrated_gradients", {}),
    "gradient_x_input": ("gradient_x_input", {}),
    "random": ("random", {}),
}
L2E = "l2e"
"""The network of a study of distillation with one, which counts where it is named (``--only``)."""
TRUTH = KernelShap(evaluations=2000, fit="linear")
BUDGETS = (16, 32, 64, 128, 256)
CURVE = ((250, 4, 1), (500, 4, 2), (1000, 4, 2), (2000, 4, 3), (4000, 4, 3), (8000, 4, 4), (16000, 4, 4))
"""Training texts, pairs and rounds of the points of a curve."""
BATCHES = (32, 1)
COSTS = {
    "network": "network",
    "attached": "network",
    "prediction": "prediction",
    "with numbers of all classes": "prediction",
    "attached, with texts": "prediction",
    "explain": "prediction",
    "explain, all weights read": "prediction",
}
"""What is timed, and the prediction alone that each is held against: of tensors, or of texts."""
REPLAYED = {
    "attached, scores replayed": "network",
    "network, replayed": "network, replayed",
    "attached, replayed": "network, replayed",
    "attached, fused and replayed": "network, replayed",
}
"""The same on a GPU that records passes, or what follows them, and replays them."""
Row = dict[str, Any]


def main() -> None:
    """Run one part and write its record."""
    args = _options().parse_args()
    prepare(args.threads)
    if args.tf32:
        torch.backends.cuda.matmul.fp32_precision = "tf32"
    run = Run(args, _loaded(args))
    PARTS[args.part](run)


def _loaded(args: argparse.Namespace) -> NetworkModel:
    """The explained model, afresh."""
    model = load_model(str(args.model), device=args.device, max_length=args.max_length, max_truncated=1.0)
    if not isinstance(model, NetworkModel):
        raise TypeError("a probe reads a network")
    return model


class Run:
    """Texts, explainers and the record of one part.

    Args:
        args: of the command line.
        model: the explained model.
    """

    def __init__(self, args: argparse.Namespace, model: NetworkModel) -> None:
        self.args = args
        self.model = model
        self.known: dict[tuple[str, str, int], list[Example]] = {}
        self.place = args.out / f"{args.part}-{args.name or args.data}.json"
        command = f"python -m benchmarks.probe {args.part} {_given(args)} --model {args.model.name}"
        known = json.loads(self.place.read_text(encoding="utf-8")) if self.place.is_file() else {}
        rows = known["rows"] if known.get("command") == command else []
        lower = [judge.name for judge in panel() if judge.lower_is_better]
        about = {"data": args.data, "model": args.model.name, "fingerprint": model.fingerprint(), "lower": lower}
        rows = rows or self._rows_beside(about)
        self.record: dict[str, Any] = {"command": command, **machine(args.threads, args.device), **about, "rows": rows}

    def add(self, row: Row) -> None:
        """Write the record with one more row."""
        self.record["rows"].append(row)
        text = json.dumps(self.record, indent=1)
        write_text(self.place, NUMBERS.sub(lambda found: "".join(found[0].split()), text) + "\n")
        print({name: value for name, value in row.items() if not isinstance(value, (dict, list))}, flush=True)

    def _rows_beside(self, about: dict[str, Any]) -> list[Row]:
        """Rows of static methods, in which training has no part, that were measured on the same model and texts."""
        args = self.args
        if args.beside is None:
            return []
        if args.part not in ("quality", "among"):
            raise SystemExit(f"--beside belongs to quality and among, not to {args.part}")
        if args.beside.is_dir():
            rows = self._rows_of_study(args.beside)
        else:
            known = json.loads(args.beside.read_text(encoding="utf-8"))
            given = (f"--{name} {getattr(args, name)} " for name in ("split", "test", "truth", "seed"))
            texts = all(option in known["command"] for option in given)
            if not texts or any(known[name] != about[name] for name in about):
                raise SystemExit(f"{args.beside} is of another model or other texts")
            rows = known["rows"]
        return [row for row in rows if row["name"] in {*SLOW, L2E} and (not args.only or row["name"] in args.only)]

    def _rows_of_study(self, study: Path) -> list[Row]:
        """The references of a study of distillation, from its records, which have the values of each text."""
        summary = json.loads((study / "summary.json").read_text(encoding="utf-8"))["study"]
        labels = {
            name: own["label"]
            for name, (method, settings) in SLOW.items()
            for own in summary["references"]
            if own == {"label": own["label"], "method": method, **settings}
        } | {"random": "random"}
        table, texts = records.read(study / "records.parquet"), example_names(self.tested())
        averaged, rows = gather(table), []
        if L2E in (self.args.only or ()) and self.args.explainer is None:  # which may have that name
            networks = [label for label in averaged[panel()[0].name] if LEARNED.fullmatch(label)]
            if len(networks) != 1:
                raise SystemExit(f"{study} has not one network but {len(networks)}: leave out --only {L2E}")
            labels[L2E] = networks[0]
        for name, label in labels.items():
            own = table.filter(pc.equal(table["explainer"].cast("string"), label))
            models = set(own["model"].to_pylist())
            if set(texts) != set(own["example"].to_pylist()) or models != {self.model.fingerprint()}:
                raise SystemExit(f"{study} is of another model or other texts")
            grades = {judge.name: averaged[judge.name][label] for judge in panel()}
            row: Row = {"name": name, "metrics": {judge: _interval(own) for judge, own in grades.items()}}
            if name == L2E:  # values as the texts stand, which those of ``gather`` are sorted by
                row["values"] = {judge: _listed(own[np.argsort(np.argsort(texts))]) for judge, own in grades.items()}
            rows.append(row)
        return rows

    def done(self, name: str) -> bool:
        """Whether a row of this name was written before."""
        return any(row["name"] == name for row in self.record["rows"])

    def tested(self, data: str | None = None, count: int | None = None) -> list[Example]:
        """The texts that explainers are compared on, each once."""
        found: dict[str, Example] = {}
        for text in self.texts(self.args.split, self.args.test if count is None else count, data):
            found.setdefault(text.fingerprint, text)
        return list(found.values())

    def texts(self, split: str, count: int, data: str | None = None) -> list[Example]:
        """So many texts of a split, all of them where there are fewer; they are read once."""
        source = (data or self.args.data, split, count)
        if source not in self.known:
            found = load_data(source[0], split=split, limit=count or None, seed=self.args.seed).examples
            units = self.model.units(found)
            self.known[source] = [example for example, own in zip(found, units, strict=True) if len(own) > 1]
        return self.known[source]

    def training_texts(self, count: int) -> list[Example]:
        """Texts to learn from, those that are kept apart first; none of them is a test text."""
        kinds = self.args.learn or [self.args.data]
        tested = {text.fingerprint for split in {"test", self.args.split} for text in self.texts(split, 0)}
        found: list[Example] = []
        for data in kinds:
            if len(found) < (wanted := count + 2 * self.args.apart):
                found += [text for text in self.texts("train", wanted, data) if text.fingerprint not in tested]
        return found[: count + 2 * self.args.apart]

    def explained(self, explainer: Explainer, texts: Sequence[Example]) -> list[Explanation]:
        """Explanations of a static method, which are kept in the folder of work."""
        return collect(self.model, texts, explainer, Parts(self.args.work / "parts"), chunk=256)

    def probe(self, texts: int, pairs: int, rounds: int) -> LearnedExplainer:
        """The probe trained on so many texts; read from the folder of work where it was trained before."""
        args, further = self.args, dict(self.args.set or ())
        source = [args.data, args.learn, args.apart, args.seed]
        rounded = ["half"] if args.half else []
        drawn = content_hash([self.model.fingerprint(), source, texts, pairs, rounds, args.epochs, further, *rounded])
        folder = args.work / f"{args.data}-{drawn}"
        if (folder / "done" / "config.json").is_file():
            return LearnedExplainer.from_pretrained(folder / "done", model=self.model, device=self.args.device)
        found = self.training_texts(texts)
        apart, rest = found[: 2 * self.args.apart], found[2 * self.args.apart :]
        fit = {"batch_rows": 128, "batch_tokens": 16384, **further.pop("fit", {})}
        settings: dict[str, object] = {"pairs": pairs, "rounds": rounds, "seed": args.seed, **further}
        splits = {"validation": apart[: self.args.apart], "held_out": apart[self.args.apart :]}
        taught = HalfPrecision(_loaded(args)) if args.half else self.model
        kept = folder / "training"  # from which a training that is stopped goes on
        explainer = train("probe", taught, rest, folder=kept, epochs=args.epochs, fit=fit, **splits, **settings)  # type: ignore[arg-type]
        explainer.save_pretrained(folder / "done")
        return LearnedExplainer.from_pretrained(folder / "done", model=self.model, device=self.args.device)

    def prior(self) -> tuple[LearnedExplainer, str]:
        """The explainer whose scores evaluations correct: a saved one, or the probe."""
        if self.args.explainer is None:
            return self.probe(self.args.train, self.args.pairs, self.args.rounds), "probe"
        saved = self.saved(self.args.explainer)
        return saved, saved.card.name

    def saved(self, folder: Path) -> LearnedExplainer:
        """An explainer that was trained before."""
        return LearnedExplainer.from_pretrained(folder, model=self.model, device=self.args.device)


def quality(run: Run) -> None:
    """Five metrics of every explainer on the same test texts, and the rank correlation with KernelSHAP-2000."""
    args, texts = run.args, run.tested()
    truth = run.explained(TRUTH, texts[: args.truth])
    makers: dict[str, Callable[[], Explainer]] = {name: partial(_static, name) for name in SLOW}
    if args.explainer is not None:
        saved = run.saved(args.explainer)
        makers[saved.card.name] = lambda: saved
    else:
        makers["probe"] = lambda: run.probe(args.train, args.pairs, args.rounds)
        makers["l2e, equal evaluations"] = lambda: _l2e(run)
    for name, make in makers.items():
        if not run.done(name) and (not args.only or name in args.only):
            began = time.perf_counter()
            explainer = make()
            learned = isinstance(explainer, LearnedExplainer)
            explanations = explainer.explain(run.model, texts) if learned else run.explained(explainer, texts)
            taken = {"seconds": time.perf_counter() - began} | (_evaluations(explainer) if learned else {})
            run.add(_graded(run, name, explanations, truth) | taken)


def among(run: Run) -> None:
    """The probe of a record of all texts on some of them, beside what was measured on these alone."""
    if run.args.of is None:
        raise SystemExit("among takes the probe's values from a record of all texts: name it by --of")
    known = json.loads(run.args.of.read_text(encoding="utf-8"))
    place = {text.fingerprint: number for number, text in enumerate(run.tested(count=0))}
    chosen = [place[text.fingerprint] for text in run.tested()]
    (values,) = (row["values"] for row in known["rows"] if row["name"] == "probe")
    if known["fingerprint"] != run.model.fingerprint() or {len(own) for own in values.values()} != {len(place)}:
        raise SystemExit(f"{run.args.of} is of another model or other texts")
    some = {metric: [own[at] for at in chosen] for metric, own in values.items()}
    means = {metric: _interval(np.array(own, dtype=np.float64)) for metric, own in some.items()}
    run.add({"name": "probe", "metrics": means, "values": some})


def static(run: Run) -> None:
    """The static explanations of ``quality``, kept for it; no record."""
    texts = run.tested()
    for explainer in (TRUTH, *map(_static, SLOW)):
        began = time.perf_counter()
        run.explained(explainer, texts[: run.args.truth] if explainer is TRUTH else texts)
        print(explainer.card.name, f"{time.perf_counter() - began:.1f} s", flush=True)


def curve(run: Run) -> None:
    """Quality of probes by the evaluations of the model that their training took."""
    texts = run.tested()
    truth = run.explained(TRUTH, texts[: run.args.truth])
    for name in (REFERENCE, "random"):
        if not run.done(name):
            made = run.explained(_static(name), texts)
            run.add(_graded(run, name, made, truth) | {"evaluations": 0})
    for count, pairs, rounds in run.args.points:
        name = f"{count} texts, {pairs} pairs, {rounds} rounds"
        if not run.done(name) and count <= run.args.train:
            explainer = run.probe(count, pairs, rounds)
            run.add(_graded(run, name, explainer.explain(run.model, texts), truth) | _evaluations(explainer))


def cost(run: Run) -> None:
    """Seconds of predictions alone and of predictions with explanations, in turns.

    Each turn has a batch of its own, and counts the shortest of its repeated calls: what else the machine does makes a
    call longer and never shorter.
    """
    explainer, model = run.probe(run.args.train, run.args.pairs, run.args.rounds), run.model
    explainer.reads_all = False
    served = attach(model, explainer)
    on_gpu = run.args.device != "cpu"
    replays = _replays(model, explainer) if on_gpu else {}
    costs = COSTS | {name: REPLAYED[name] for name in replays}
    texts = run.tested(count=32 * run.args.turns)
    for size in BATCHES:
        if run.done(f"batch {size}"):
            continue
        parts = [texts[start : start + size] for start in range(0, min(len(texts), size * run.args.turns), size)]
        times: dict[str, list[float]] = {}
        for number, part in enumerate([parts[0], *parts]):  # the first one warms up
            calls = _calls(model, explainer, served, part)
            fed = served.encode(part)
            for name, call in replays.items():
                calls[name] = partial(call, fed)
                _ = [calls[name]() for _ in range(3)]  # the second one of a shape records it
            taken: dict[str, float] = {}
            for repeat in range(run.args.repeats or 1):
                for name in list(calls)[:: 1 if (number + repeat) % 2 else -1]:
                    taken[name] = min(_seconds(calls[name], run.args.device), taken.get(name, math.inf))
            for name, own in taken.items() if number else ():
                times.setdefault(name, []).append(own)
        medians = {name: float(np.median(times[name])) for name in costs}
        ratios = {name: float(np.median(np.array(times[name]) / times[alone])) for name, alone in costs.items()}
        run.add({"name": f"batch {size}", "seconds": medians, "times the prediction": ratios, "turns": len(parts)})


def _calls(
    model: NetworkModel, explainer: LearnedExplainer, served: AttachedModel, part: Sequence[Example]
) -> dict[str, Callable[[], object]]:
    """What is timed on a batch; the network is called with the same tensors alone and attached."""
    units, known, fed = model.units(part), model.predict(part), served.encode(part)
    alone = {name: value for name, value in fed.items() if name != OWNER}

    def network() -> object:
        with evaluating(model.network), torch.inference_mode():
            return model.network(**alone)

    return {
        "network": network,
        "attached": lambda: _call(served, fed),
        "prediction": lambda: model.predict(part),
        "with numbers of all classes": lambda: explainer.shape.with_prediction(model, units),
        "attached, with texts": lambda: served(part),
        "explain": lambda: explainer.explain(model, part, predictions=known),
        "explain, all weights read": lambda: explainer.explain(model, part),
    }


def _replays(model: NetworkModel, explainer: LearnedExplainer) -> dict[str, Callable[[Inputs], object]]:
    """The recorded pass of a batch's tensors, of the network alone and attached."""
    whole, scores = attach(model, explainer, replay=True), attach(model, explainer, replay="scores")
    fused = attach(model, explainer, replay=True, fuse=True)

    def passed(inputs: Inputs) -> tuple[Tensor, ...]:
        with evaluating(model.network):
            return (model.head.outputs(model.network(**inputs)),)

    alone = Replay(passed, parameters(model.network), padding=whole.padding)

    def network(fed: Inputs) -> object:
        return alone({name: value for name, value in fed.items() if name != OWNER})

    made = (partial(_call, scores), network, partial(_call, whole), partial(_call, fused))
    calls: dict[str, Callable[[Inputs], object]] = dict(zip(REPLAYED, made, strict=True))
    try:
        _call(fused, fused.encode(["A film."]))
    except CapabilityError as problem:
        print(problem)
        del calls["attached, fused and replayed"]
    return calls


def _call(served: AttachedModel, fed: Inputs) -> object:
    return served(**fed)  # type: ignore[arg-type]


def budget(run: Run) -> None:
    """Error, rank correlation and coverage by evaluations, with the learned scores, without them, and as published."""
    explainer, kind = run.prior()
    texts = run.tested(count=run.args.truth)
    truth = run.explained(TRUTH, texts)
    if not run.done(f"{kind} alone"):
        run.add(_compared(f"{kind} alone", explainer.explain(run.model, texts), truth))
    for count in BUDGETS:
        makers: dict[str, Explainer] = {
            f"{kind}, {count}": BudgetedExplainer(explainer, count),
            f"kernel_shap, {count}": KernelShap(evaluations=count),
            f"kernel_shap by least squares, {count}": KernelShap(evaluations=count, fit="linear"),
        }
        for name, own in makers.items():
            if not run.done(name):
                run.add(_compared(name, own.explain(run.model, texts), truth))


def elsewhere(run: Run) -> None:
    """Expected disagreement on texts of two kinds, what is there, and what a fallback restores."""
    explainer = run.probe(run.args.train, run.args.pairs, run.args.rounds)
    slow = KernelShap(evaluations=500)
    for data in (run.args.data, run.args.other):
        texts = run.tested(data, run.args.truth)
        wanted = run.explained(slow, texts)
        if not run.done(f"{REFERENCE}, {data}"):
            run.add(_graded(run, f"{REFERENCE}, {data}", wanted, wanted) | {"data": data})
        makers: dict[str, Explainer] = {
            "probe": explainer,
            "fallback": FallbackExplainer(explainer, slow),
            "checked fallback": FallbackExplainer(explainer, slow, check=True),
        }
        if explainer.disagreement is not None:
            usual = explainer.disagreement.report["predicted"]
            makers["fallback above the mean"] = FallbackExplainer(explainer, slow, above=usual)
        for kind, own in makers.items():
            name = f"{kind}, {data}"
            if not run.done(name):
                made = own.explain(run.model, texts)
                expected = [one.details["disagreement"] for one in made]
                again = float(np.mean([one.method != "probe" for one in made]))
                found = _graded(run, name, made, wanted) | {"data": data}
                run.add(found | {"expected disagreement": _interval(np.array(expected)), "explained again": again})


def _static(name: str) -> Explainer:
    method, settings = SLOW[name]
    return ATTRIBUTIONS.get(method).configured(**settings)


def _l2e(run: Run) -> LearnedExplainer:
    """L2E with as many evaluations in all as the probe: a quarter of its texts, each with four times as many."""
    args = run.args
    texts = run.training_texts(args.train)[: 2 * args.apart + args.train // 4]
    few = KernelShap(evaluations=8 * args.pairs * args.rounds)
    apart, rest = texts[: 2 * args.apart], texts[2 * args.apart :]
    return train("l2e", run.model, rest, few, validation=apart[: args.apart], held_out=apart[args.apart :], epochs=5)


def _graded(run: Run, name: str, made: Sequence[Explanation], truth: Sequence[Explanation]) -> Row:
    grades = {judge.name: judge.grades(run.model, made) for judge in panel()}
    ranks = np.array([spearman(own.array, other.array) for own, other in zip(made, truth, strict=False)])
    alike = _interval(ranks, "rank correlation ") if len(ranks) else {}
    measures = {measure: _interval(values) for measure, values in grades.items()}
    values = {measure: _listed(own) for measure, own in grades.items()}
    return {"name": name, **alike, "metrics": measures, "values": values}


def _listed(values: Floats) -> list[float | None]:
    """For a record: rounded, and nothing where undefined."""
    return [None if np.isnan(value) else round(float(value), 5) for value in values]


def _evaluations(explainer: Explainer) -> Row:
    """Those of the model that the training and its checks took, as the card has them."""
    known = explainer.about.cost if isinstance(explainer, LearnedExplainer) else {}
    return {"evaluations": known["evaluations of the model"]} if "evaluations of the model" in known else {}


def _compared(name: str, made: Sequence[Explanation], truth: Sequence[Explanation]) -> Row:
    pairs = list(zip(made, truth, strict=True))
    errors = np.array([np.abs(own.array - other.array).mean() for own, other in pairs])
    ranks = np.array([spearman(own.array, other.array) for own, other in pairs])
    inside = [
        np.abs(o.array - t.array) <= 1.96 * np.hypot(o.errors, t.errors) for o, t in pairs if o.errors and t.errors
    ]
    covered = float(np.mean(np.concatenate(inside))) if inside else None
    evaluations = float(np.mean([own.cost.forwards for own in made]))
    row = {"name": name, "forwards": evaluations, "covered by 95 % intervals": covered}
    return {**row, **_interval(errors, "absolute error "), **_interval(ranks, "rank correlation ")}


def _interval(values: Floats, prefix: str = "") -> dict[str, float]:
    known = values[np.isfinite(values)]
    found = interval(known)
    return {
        f"{prefix}mean": found.mean,
        f"{prefix}low": found.low,
        f"{prefix}high": found.high,
        f"{prefix}n": len(known),
    }


def _seconds(work: Callable[[], object], device: str) -> float:
    """CPU seconds of a single thread, or seconds of the GPU until it is done."""
    if device == "cpu":
        began = time.thread_time()
        work()
        return time.thread_time() - began
    torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - began


PARTS: dict[str, Callable[[Run], None]] = {
    "quality": quality,
    "among": among,
    "curve": curve,
    "cost": cost,
    "budget": budget,
    "elsewhere": elsewhere,
    "static": static,
}


def _given(args: argparse.Namespace) -> str:
    """What decides the numbers of a record, as options."""
    unused = {"train", "apart", "pairs", "rounds", "epochs"} if args.part == "among" or args.explainer else set[str]()
    sizes = [
        size for size in ("train", "test", "apart", "truth", "pairs", "rounds", "epochs", "seed") if size not in unused
    ]
    further = {"cost": ("turns", "repeats"), "elsewhere": ("other",), "among": ("of",)}.get(args.part, ())
    names = ("data", "name", "learn", "explainer", "beside", "max_length", "split", "only", *sizes, *further, "device")
    known = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    listed = {name: shlex.join(value) if isinstance(value, list) else value for name, value in known.items()}
    shown = [f"--{name.replace('_', '-')} {value}" for name, value in listed.items()]
    rounded = [f"--{name}" for name in ("tf32", "half") if getattr(args, name)]
    points = [] if args.points is CURVE else ["--points", *("x".join(map(str, point)) for point in args.points)]
    settings = shlex.join(f"{name}={json.dumps(value)}" for name, value in args.set or ())
    return " ".join([*shown, *rounded, *points, *(["--set", settings] if settings else [])])


def _point(given: str) -> tuple[int, ...]:
    texts, pairs, rounds = map(int, given.split("x"))
    return texts, pairs, rounds


def _setting(given: str) -> tuple[str, object]:
    name, _, value = given.partition("=")
    return name, json.loads(value)


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("part", choices=PARTS)
    options.add_argument("--model", type=Path, required=True, help="a directory, or default for the embedded one")
    options.add_argument("--data", default="sst2")
    options.add_argument("--other", default="ag_news", help="texts of another kind, for elsewhere")
    options.add_argument("--learn", nargs="+", help="data whose training texts are learned (default: the same data)")
    options.add_argument(
        "--explainer", type=Path, help="a saved explainer, for quality or budget (default: a probe is trained)"
    )
    options.add_argument("--max-length", type=int, help="tokens that the model reads at most")
    options.add_argument("--name", help="of the record (default: the data)")
    options.add_argument("--train", type=int, default=8000, help="training texts (default 8000)")
    options.add_argument("--split", default="test", help="whose texts explainers are compared on (default test)")
    options.add_argument("--only", nargs="+", metavar="NAME", help="explainers of quality (default: all)")
    options.add_argument("--test", type=int, default=0, help="test texts (default: all)")
    options.add_argument("--apart", type=int, default=150, help="validation and held-out texts each (default 150)")
    options.add_argument("--truth", type=int, default=150, help="texts that KernelSHAP-2000 explains (default 150)")
    options.add_argument("--pairs", type=int, default=8)
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--epochs", type=int, default=20)
    options.add_argument(
        "--set", type=_setting, nargs="+", default=[], metavar="NAME=JSON", help="of the probe: blocks=1"
    )
    options.add_argument(
        "--points", type=_point, nargs="+", default=CURVE, metavar="TEXTSxPAIRSxROUNDS", help="of curve: 16000x2x1"
    )
    options.add_argument("--turns", type=int, default=20, help="batches that are timed")
    options.add_argument("--repeats", type=int, help="calls on each batch, of which the shortest is timed (default 1)")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--device", default="cpu")
    options.add_argument("--tf32", action="store_true", help="a GPU may round the factors of products to ten bits")
    options.add_argument("--half", action="store_true", help="a probe is trained with the model in half precision")
    options.add_argument(
        "--beside",
        type=Path,
        help="an earlier record of quality, or the folder of a study of distillation, whose static methods count",
    )
    options.add_argument("--of", type=Path, help="the record of all texts, for among")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--work", type=Path, default=Path("runs/probe"), help="where trained probes are kept")
    options.add_argument("--out", type=Path, default=Path("docs/results/probe"))
    return options


if __name__ == "__main__":
    main()
