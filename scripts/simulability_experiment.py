"""The experiments of docs/results/simulability.md in one process, within a time limit; made for one GPU.

    python scripts/simulability_experiment.py --out results --seconds 570 --stage explain,movies,noise,qed,imdb
    python scripts/simulability_experiment.py --out runs/tiny --tiny --device cpu

Stages, in the order in which they are named:

    explain  explanations of film reviews by the attributions of recipes/simulability/imdb.toml
    movies   movies.toml at 600 lessons: human rationales
    noise    movies_noise.toml: the same with marked words lost
    qed      qed.toml at 500 lessons: questions
    imdb     imdb.toml: the table of attributions

Every stage writes what it has when its share of the time is over:

    OUT/NAME/             a run as ``didact run`` writes it, without its parts; ``didact report OUT/NAME`` shows it
    OUT/summary.json      seconds and device of every stage
    OUT/labels.parquet    scores of every explanation (stages explain and imdb)
    OUT/outcomes.parquet  what every student answered
    OUT/results.tar       all of these

With --resume DIR labels and outcomes are read first, so that a run on another machine goes on where that one was.
--change STAGE.FIELD=JSON changes a recipe: --change movies.subsets=6, or
--change 'qed.channels=[{"channel":"alignment","weight":5}]'.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tarfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from didact.errors import DidactError
from didact.experiments.simulability import outcomes
from didact.experiments.simulability.findings import find
from didact.experiments.simulability.prepare import Experiment, configured, prepare, texts
from didact.experiments.simulability.recipe import Recipe
from didact.experiments.simulability.report import write
from didact.experiments.simulability.runner import RunOptions, run
from didact.models import half_precision
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import Model
from didact.simulation.gains import compute_gains
from didact.store import compact, files, keys
from didact.store import explanations as explanation_store
from didact.store.parts import Parts
from didact.students.base import StudentOutcome
from didact.trained.collect import collect
from didact.types import Example

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # asking for a GPU must not hinder forks from using it

BEGAN = time.perf_counter()
RECIPES = Path(__file__).resolve().parents[1] / "recipes" / "simulability"
WEIGHTS = {"explain": 1.5, "movies": 1.2, "noise": 0.8, "qed": 1.2, "imdb": 4.0}
"""How the time is shared between the stages that are left."""

LABELS = pa.schema([("explainer", pa.string()), *compact.COLUMNS])
OUTCOMES = pa.schema(
    [
        ("key", pa.string()),
        ("columns", pa.int32()),
        ("answers", pa.list_(pa.float32())),
        ("trouble", pa.string()),
        ("details", pa.string()),
    ]
)


def main() -> None:
    """Run the stages."""
    options = _options()
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high")  # of explanations on a GPU; students have a setting of their own
    bench = Bench(options)
    bench.resume()
    stages = [stage.strip() for stage in options.stage.split(",") if stage.strip()]
    for number, stage in enumerate(stages):
        left = [WEIGHTS[other] for other in stages[number:]]
        share = (options.seconds - _now()) * left[0] / sum(left)
        _say(f"stage {stage}: {share:.0f} s of {options.seconds - _now():.0f} s left")
        try:
            getattr(bench, f"stage_{stage}")(_now() + share)
        except Exception:  # the next stage may still succeed
            _say(f"stage {stage} FAILED\n{traceback.format_exc()[-3000:]}")
        bench.save()
    _say("done")


class Bench:
    """What the stages share: folders, device and changes of recipes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.out, self.work = Path(options.out), Path(options.work or f"{options.out}/work")
        self.out.mkdir(parents=True, exist_ok=True)
        self.parts = Parts(self.work / "parts")
        self.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.seconds: dict[str, float] = {}
        self._imdb: tuple[Recipe, Experiment] | None = None

    def stage_explain(self, until: float) -> None:
        """Explanations of the reviews that stage imdb teaches, by many processes: one cannot keep a GPU busy."""
        recipe = self._recipe("imdb", "imdb", {})
        pool = texts(recipe)[0].examples
        used = [pool[place] for place in recipe.plan().used(len(pool)).tolist()]
        unique = _distinct(used)
        starts = range(0, len(unique), recipe.chunk)
        tasks = [(entry.label, unique[at : at + recipe.chunk]) for entry in recipe.explainers for at in starts]
        # Forked before this process has touched the GPU.
        with ProcessPoolExecutor(self.options.workers, multiprocessing.get_context("fork")) as workers:
            chunks = [
                workers.submit(_explained, recipe, self.device, self.parts.root, label, some) for label, some in tasks
            ]
            spent: dict[str, float] = {}
            for (label, _), chunk in zip(tasks, chunks, strict=True):
                try:
                    spent[label] = spent.get(label, 0.0) + chunk.result(max(0.0, until - _now()))
                except TimeoutError:
                    workers.shutdown(wait=False, cancel_futures=True)
                    break
                except DidactError as problem:  # the stage that needs it will try again
                    _say(f"  {label}: {problem}")
        self.seconds |= {f"explain {label}, all processes": round(own, 1) for label, own in spent.items()}
        _say(f"  {sum(chunk.done() and not chunk.cancelled() for chunk in chunks)} of {len(chunks)} chunks")

    def stage_movies(self, until: float) -> None:
        """Human rationales: with and without."""
        self._run("movies", self._recipe("movies", "movies", {"sizes": [600]}), until)

    def stage_noise(self, until: float) -> None:
        """Human rationales of which words are lost."""
        self._run("movies_noise", self._recipe("noise", "movies_noise", {}), until)

    def stage_qed(self, until: float) -> None:
        """Questions."""
        self._run("qed", self._recipe("qed", "qed", {"sizes": [500]}), until)

    def stage_imdb(self, until: float) -> None:
        """The table of attributions."""
        recipe, experiment = self._prepared()
        self._run("imdb", recipe, until, experiment)
        self._pack_labels(experiment)

    def resume(self) -> None:
        """Take over what an earlier run saved."""
        for folder in self.options.resume:
            path = Path(folder) / "outcomes.parquet"
            if path.is_file():
                self._unpack_outcomes(path)
            path = Path(folder) / "labels.parquet"
            if path.is_file() and "explain" not in self.options.stage.split(","):  # which must not load a model here
                self._unpack_labels(path)

    def save(self) -> None:
        """All outcomes so far in one file."""
        memory = outcomes.OutcomeStore(self.parts)
        rows = []
        for key in list(self.parts.keys()):
            table = self.parts.read(key)
            if b"didact.outcome" not in (table.schema.metadata or {}):
                continue
            outcome = memory.get(key)
            assert outcome is not None
            answers = np.asarray(outcome.answers, dtype=np.float32)
            rows.append(
                {
                    "key": key,
                    "columns": 1 if answers.ndim == 1 else answers.shape[1],
                    "answers": answers.ravel().tolist(),
                    "trouble": outcome.failure,
                    "details": json.dumps(dict(outcome.details)),
                }
            )
        files.write(self.out / "outcomes.parquet", pa.Table.from_pylist(rows, OUTCOMES))
        told = {
            "seconds": self.seconds,
            "device": torch.cuda.get_device_name(0) if self.device != "cpu" else "cpu",
            "torch": torch.__version__,
        }
        (self.out / "summary.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        with tarfile.open(self.out / "results.tar", "w") as tar:
            for path in sorted(self.out.iterdir()):
                if path.name not in ("results.tar", "work") and path != self.work:
                    tar.add(path, path.name)

    def _run(self, name: str, recipe: Recipe, until: float, experiment: Experiment | None = None) -> None:
        began = _now()
        folder = self.work / name
        hall = RunOptions(
            folder,
            self.parts.root,
            self.device,
            self.options.together,
            "scripts/simulability_experiment.py",
            _late(until),
        )
        run(experiment or prepare(recipe), hall)
        found = outcomes.read(folder / "students.parquet")
        verdict = compute_gains(found)
        self.seconds[name] = round(_now() - began, 1)
        target = self.out / name
        target.mkdir(exist_ok=True)
        for file in ("manifest.json", "extras.json", "students.parquet"):  # the recipe names paths of this machine
            (target / file).write_bytes((folder / file).read_bytes())
        write(find(target))
        _say(f"  {name}: {_now() - began:.0f} s, {len(found.failures)} diverged")
        for one in verdict.gains:
            _say(
                f"    {one.student:18} {one.channel:10} {one.size:5} {one.method:22} {100 * one.score:6.2f} "
                f"gain {100 * one.gain:+6.2f} [{100 * one.low:+.2f}, {100 * one.high:+.2f}] p {one.adjusted:.3f} "
                f"({one.subsets} students)"
            )

    def _recipe(self, stage: str, name: str, changes: Mapping[str, Any]) -> Recipe:
        plain = Recipe.from_toml(RECIPES / f"{name}.toml").to_dict() | dict(changes)
        if self.options.tiny:
            plain |= _tiny(plain)
        for text in self.options.change:
            path, _, value = text.partition("=")
            owner, _, key = path.partition(".")
            if owner == stage:
                plain[key] = json.loads(value)
        return Recipe.from_dict(plain, name)

    def _prepared(self) -> tuple[Recipe, Experiment]:
        """The experiment of stages explain and imdb, loaded once."""
        if self._imdb is None:
            recipe = self._recipe("imdb", "imdb", {})
            model = load_model(**{**recipe.model, "device": self.device})
            self._imdb = recipe, prepare(recipe, model=model)
        return self._imdb

    @staticmethod
    def _taught(experiment: Experiment) -> list[Example]:
        used = experiment.recipe.plan().used(len(experiment.pool)).tolist()
        return [experiment.pool[place].example for place in used]

    def _chunks(self, experiment: Experiment) -> list[tuple[str, list[Example], str]]:
        """(explainer, texts, key) of every part of explanations, as ``collect`` makes them."""
        model = experiment.model
        assert model is not None
        unique = _distinct(self._taught(experiment))
        read = keys.readings(model, unique)
        size = experiment.recipe.chunk
        return [
            (label, unique[start : start + size], keys.explanations(model, explainer, read[start : start + size]))
            for label, explainer in experiment.explainers.items()
            for start in range(0, len(unique), size)
        ]

    def _pack_labels(self, experiment: Experiment) -> None:
        rows = []
        for label, _, key in self._chunks(experiment):
            if self.parts.has(key):
                made = explanation_store.from_table(self.parts.read(key))
                rows += [{"explainer": label} | compact.packed(one) for one in made]
        files.write(self.out / "labels.parquet", pa.Table.from_pylist(rows, LABELS))

    def _unpack_labels(self, path: Path) -> None:
        experiment = self._prepared()[1]
        model = experiment.model
        assert model is not None
        known = {(row["explainer"], row["text"]): row for row in files.read(path).to_pylist()}
        count = 0
        for label, some, key in self._chunks(experiment):
            rows = [row for text in some if (row := known.get((label, text.fingerprint)))]
            if self.parts.has(key) or len(rows) < len(some):
                continue
            made = compact.unpacked(rows, model.units(some), model, experiment.explainers[label].parameters)
            self.parts.write(key, explanation_store.to_table(made))
            count += len(made)
        _say(f"{count} explanations taken from {path}")

    def _unpack_outcomes(self, path: Path) -> None:
        memory = outcomes.OutcomeStore(self.parts)
        rows = files.read(path).to_pylist()
        for row in rows:
            answers = np.array(row["answers"])
            shaped = answers if row["columns"] == 1 else answers.reshape(-1, row["columns"])
            memory.put(row["key"], StudentOutcome(shaped, row["trouble"], json.loads(row["details"])))
        _say(f"{len(rows)} students taken from {path}")


def _distinct(examples: Sequence[Example]) -> list[Example]:
    """The first of every text, which is what ``collect`` explains."""
    found: dict[tuple[str, ...], Example] = {}
    for example in examples:
        found.setdefault(example.texts, example)
    return list(found.values())


_MODELS: dict[tuple[str, bool], Model] = {}
"""The explained model of a process that explains."""


def _explained(recipe: Recipe, device: str, parts: Path, label: str, some: list[Example]) -> float:
    """Explain one chunk, in a process of its own; gives the seconds."""
    began = time.perf_counter()
    torch.set_num_threads(1)
    explainer = configured([entry for entry in recipe.explainers if entry.label == label])[label]
    model = _asked(recipe, device, half=half_precision.suits(explainer.card) and device != "cpu")
    collect(model, some, explainer, Parts(parts), chunk=len(some))
    return time.perf_counter() - began


def _asked(recipe: Recipe, device: str, *, half: bool) -> Model:
    """The model of this process, loaded once."""
    if (device, half) not in _MODELS:
        model = load_model(**{**recipe.model, "device": device})
        _MODELS[device, half] = (
            half_precision.HalfPrecision(model) if half and isinstance(model, NetworkModel) else model
        )
    return _MODELS[device, half]


def _tiny(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The same with few short texts, few students and small networks, to see that everything works."""
    small = {
        "transformer": {"model": None, "max_length": 48, "epochs": 1},
        "bilstm_attention": {"epochs": 1, "max_length": 48, "embedding": 8, "hidden": 8},
    }
    students = [one | small.get(one["student"], {}) for one in plain["students"]]
    changes: dict[str, Any] = {
        "students": [{key: value for key, value in one.items() if value is not None} for one in students],
        "sizes": [12],
        "subsets": 2,
        "data": {**plain["data"], "limit": 24},
        "exam": {**plain["exam"], "limit": 16},
        "chunk": 8,
        "noise": plain["noise"][::5],
    }
    if plain["teacher"] == "model":
        changes["explainers"] = [
            one for one in plain["explainers"] if one["method"].startswith(("gradient", "attention"))
        ]
        changes["model"] = {**plain["model"], "max_length": 48}
    return changes


def _late(until: float) -> Callable[[], bool]:
    return lambda: _now() > until


def _now() -> float:
    return time.perf_counter() - BEGAN


def _say(text: str) -> None:
    print(f"[{_now():6.1f}] {text}", flush=True)


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--work", help="folder of everything that is kept (default: OUT/work)")
    parser.add_argument(
        "--stage", default=",".join(WEIGHTS), help=f"which, in this order (default: {','.join(WEIGHTS)})"
    )
    parser.add_argument("--seconds", type=float, default=3600.0, help="for all stages together (default: 3600)")
    parser.add_argument("--device", help="cpu or cuda (default: the GPU when there is one)")
    parser.add_argument("--together", type=int, help="students trained at once (default: the student's own choice)")
    parser.add_argument("--threads", type=int, default=1, help="of torch on the CPU (default: 1)")
    parser.add_argument("--workers", type=int, default=14, help="processes that explain (default: 14)")
    parser.add_argument("--resume", action="append", default=[], metavar="DIR", help="results of an earlier run")
    parser.add_argument("--change", action="append", default=[], metavar="STAGE.FIELD=JSON", help="see above")
    parser.add_argument("--tiny", action="store_true", help="few texts and small students, to try it on a CPU")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
