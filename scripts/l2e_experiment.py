"""L2E studies with many processes on one GPU, within a time limit.

    python scripts/l2e_experiment.py recipes/l2e/sst2.toml recipes/l2e/ag_news.toml --out results --seconds 570
    python scripts/l2e_experiment.py recipes/l2e/quick.toml --out runs/quick --device cpu --workers 2
    python scripts/l2e_experiment.py my-settings.toml --out runs/mine --grade validation  # to choose settings by

One process cannot keep a GPU busy, so pieces of the studies are handed to many. Teachers are taken in the order of the
recipes, the first of every study first. Everything found is written at once:

    OUT/labels-STUDY.parquet     scores of every teacher; with --labels OUT a later run takes them from there
    OUT/records-STUDY.parquet    every grade, in the format of didact.store.records
    OUT/summary-STUDY.json       settings, seconds, means, ratios and tests, and the speed on this machine

A teacher whose labels take longer than --stage-seconds is learnt from the labels that there are then. A run that was
stopped goes on where it was when it is started again with the same --work.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from didact.attribution.base import ATTRIBUTIONS
from didact.experiments.distillation.recipe import Study, learned_label
from didact.experiments.distillation.steps import Desk
from didact.experiments.distillation.summary import gather, means, versus
from didact.models import half_precision
from didact.models.text import TextModel
from didact.store import files
from didact.store import records as record_store
from didact.trained.explainer import LearnedExplainer
from didact.types import Example, Prediction

BEGAN = time.perf_counter()
BULK = 10_000
"""Training texts, all different, by which documents per second are measured on a GPU."""
PAUSE = 20.0
"""Seconds between two writings of the results of a study."""


@dataclass(frozen=True)
class Setting:
    """What every process needs to know; plain values, so that it can be sent and remembered."""

    recipe: str
    work: str
    device: str | None
    train: int | None
    validation: int | None
    test: int | None
    seeds: int | None
    epochs: int | None
    half: bool
    grade: str


@dataclass(frozen=True)
class Task:
    """A piece of work for one process: a method of ``Desk``, or "speed"."""

    name: str
    setting: Setting
    call: str
    arguments: tuple[Any, ...] = ()
    after: frozenset[str] = frozenset()
    optional: bool = False  # dropped when its teacher is out of time
    stage: int = 0


def main() -> None:
    """Run the tasks and write what they find."""
    options = _options()
    settings = [_setting(options, recipe) for recipe in options.recipes]
    if options.labels:
        _take_labels(Path(options.labels), settings)
    Run(settings, options).go()


class Run:
    """Hands tasks to processes until all are done or time is up."""

    def __init__(self, settings: list[Setting], options: argparse.Namespace) -> None:
        self.settings = settings
        self.options = options
        self.out = Path(options.out)
        self.done: set[str] = set()
        self.dropped: set[str] = set()
        self.failed: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.facts: dict[str, Any] = {}
        self.begun: dict[int, float] = {}
        self.written: dict[Setting, float] = {}
        for path in map(_facts_path, settings):  # of a run that was stopped
            if path.is_file():
                before = json.loads(path.read_text(encoding="utf-8"))
                self.facts |= before["facts"]
                self.seconds |= before["seconds"]

    def go(self) -> None:
        """All tasks, then the speed with the machine to itself."""
        self.out.mkdir(parents=True, exist_ok=True)
        tasks = _tasks(self.settings, self.options)
        workers, limit = self.options.workers, self.options.seconds
        _say(f"{len(tasks)} tasks for {workers} processes, {limit:.0f} s")
        pool = self._pool(workers)
        self.options.reserve = min(self.options.reserve, limit / 4)
        self._work(pool, tasks, limit - self.options.reserve)
        _end(pool)
        if not self.options.only_labels:
            self._measure_speed(limit - 5)
        for setting in self.settings:
            self._write(setting, last=True)
        _say(f"done: {len(self.done)} tasks, {len(self.failed)} failed, {len(self.dropped)} dropped")

    def _pool(self, workers: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), _begin, (self.options.tf32,))

    def _measure_speed(self, until: float) -> None:
        """The speed of every study, in a process that has the machine to itself."""
        pool = self._pool(1)
        for setting in self.settings:
            task = Task(f"{_study(setting).name}/speed", setting, "speed")
            future = pool.submit(_call, task)
            wait([future], timeout=max(0.0, until - _now()))
            if future.done():
                self._finished(task, future)
        _end(pool)

    def _work(self, pool: ProcessPoolExecutor, left: list[Task], until: float) -> None:
        """Tasks until the time is up; those that run then have some seconds more."""
        running: dict[Future[Any], Task] = {}
        while (left or running) and _now() < until + self.options.reserve / 2:
            if _now() >= until:  # of what is left, only labels that there are may still be gathered
                self.dropped |= {task.name for task in left if task.optional}
                left = [task for task in left if self.options.only_labels and task.call == "gather"]
            # Half as many more than there are processes, so that none waits while results are written.
            while len(running) < 1.5 * self.options.workers and (task := self._next(left)):
                self.begun.setdefault(task.stage, _now())
                running[pool.submit(_call, task)] = task
            if not running:
                break
            ready, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in ready:
                self._finished(running.pop(future), future)

    def _next(self, left: list[Task]) -> Task | None:
        """The first task that can begin; those that come too late are dropped."""
        for task in list(left):
            begun = self.begun.get(task.stage)
            if task.optional and begun is not None and 0 < self.options.stage_seconds < _now() - begun:
                left.remove(task)
                self.dropped.add(task.name)
            elif task.after & self.failed.keys():
                left.remove(task)
                self.failed[task.name] = "what it needs failed"
            elif task.after <= self.done | self.dropped:
                left.remove(task)
                return task
        return None

    def _finished(self, task: Task, future: Future[Any]) -> None:
        try:
            found, seconds = future.result()
        except Exception as problem:  # one piece may fail without the others
            told = "".join(traceback.format_exception_only(problem)).strip()[-400:]
            _say(f"{'dropped' if task.optional else 'FAILED'} {task.name}: {told}")
            if task.optional:
                self.dropped.add(task.name)
            else:
                self.failed[task.name] = told
            return
        self.done.add(task.name)
        self.seconds[task.name] = round(seconds, 2)
        if task.call == "label":
            return
        if found:
            self.facts[task.name] = found
        _say(f"{task.name}: {seconds:.1f} s {found or ''}")
        self._write(task.setting)

    def _write(self, setting: Setting, *, last: bool = False) -> None:
        """The results of a study so far; now and then, since it takes seconds."""
        if not last and _now() - self.written.get(setting, 0.0) < PAUSE:
            return
        try:
            _write_results(self, setting)
            self.written[setting] = _now()
        except Exception as problem:  # a summary that fails must not lose the run
            _say(f"cannot write the results of {setting.recipe}: {problem!r}")


def _tasks(settings: list[Setting], options: argparse.Namespace) -> list[Task]:
    """All tasks in the order in which they are wanted: by teacher, the studies in turn."""
    wanted = None if options.teachers is None else options.teachers.split(",")
    found: list[Task] = []
    most = max(len(_study(setting).teachers) for setting in settings)
    for number in range(most):
        for at, setting in enumerate(settings):
            teachers = [one.label for one in _study(setting).teachers if wanted is None or one.label in wanted]
            if number < len(teachers):
                stage = number * len(settings) + at
                collecting = _label_tasks(setting, teachers[number], stage, more=options.only_labels)
                found += collecting
                if not options.only_labels:
                    found += _learning_tasks(setting, teachers[number], stage, collecting[-1:])
    if options.only_labels:
        return found
    random = [Task(f"{_study(one).name}/random", one, "grade_random", stage=-1) for one in settings]
    return found + random


def _label_tasks(setting: Setting, teacher: str, stage: int, *, more: bool) -> list[Task]:
    """Chunks of labels and at last their gathering; nothing where they are gathered, unless more are wanted."""
    desk = _desk(setting)
    here = f"{desk.study.name}/{teacher}"
    if desk.has_labels(teacher) and not more:
        return []
    found = [
        Task(
            f"{here}/label/{split}/{start}",
            setting,
            "label",
            (teacher, split, start),
            optional=split == "train",
            stage=stage,
        )
        for split, start in desk.missing(teacher)
    ]
    needed = frozenset(task.name for task in found)
    return [*found, Task(f"{here}/gather", setting, "gather", (teacher,), needed, stage=stage)]


def _learning_tasks(setting: Setting, teacher: str, stage: int, gathering: list[Task]) -> list[Task]:
    """Grading the teacher and learning from it."""
    desk = _desk(setting)
    here = f"{desk.study.name}/{teacher}"
    ready = frozenset(task.name for task in gathering)
    found = [Task(f"{here}/teacher", setting, "grade_teacher", (teacher,), ready, stage=stage)]
    for reading, signal in desk.study.variants(teacher):
        for seed in range(desk.study.initialisations):
            if not _is_graded(desk, learned_label(reading, signal, teacher), seed):
                name = f"{here}/{reading}/{signal}/{seed}"
                found.append(Task(name, setting, "learn", (teacher, reading, signal, seed), ready, stage=stage))
    return found


def _is_graded(desk: Desk, label: str, seed: int) -> bool:
    return (desk.work / "records" / f"{label} {seed}.parquet").is_file()


def _end(pool: ProcessPoolExecutor) -> None:
    """Stop the processes, whatever they are doing."""
    for process in list((pool._processes or {}).values()):
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)


def _begin(tf32: bool) -> None:
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = tf32
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


def _call(task: Task) -> tuple[Any, float]:
    began = time.perf_counter()
    desk = _quick_desk(task.setting) if _may_be_quick(task) else _desk(task.setting)
    found = speed(desk) if task.call == "speed" else getattr(desk, task.call)(*task.arguments)
    return None if task.call == "label" else found, time.perf_counter() - began


@lru_cache(maxsize=8)
def _study(setting: Setting) -> Study:
    study = Study.from_toml(setting.recipe).limited(
        train=setting.train, validation=setting.validation, test=setting.test
    )
    if setting.grade == "validation":
        study = dataclasses.replace(study, data={**study.data, "test": study.data["validation"]})
    if setting.epochs is not None:
        study = dataclasses.replace(study, changes=[*study.changes, {"training": {"epochs": setting.epochs}}])
    seeds = study.initialisations if setting.seeds is None else setting.seeds
    return dataclasses.replace(study, initialisations=seeds)


@lru_cache(maxsize=8)
def _desk(setting: Setting) -> Desk:
    return Desk(_study(setting), Path(setting.work), setting.device)


def _may_be_quick(task: Task) -> bool:
    """Whether a piece is labels to learn from that may be made in half precision."""
    if not task.setting.half or task.call != "label" or task.arguments[1] != "train":
        return False
    return half_precision.suits(ATTRIBUTIONS.get(_study(task.setting).teacher(task.arguments[0]).name).card)


@lru_cache(maxsize=8)
def _quick_desk(setting: Setting) -> Desk:
    """A desk whose model counts in half precision."""
    desk = Desk(_study(setting), Path(setting.work), setting.device)
    desk.model = half_precision.HalfPrecision(desk.model)
    return desk


def speed(desk: Desk) -> dict[str, Any]:
    """Seconds per text of teachers and learned explainers, nothing else running; documents per second in bulk."""
    model, texts = desk.model, list(desk.texts("test"))
    few = texts[: 16 if len(texts) > 16 else 4]
    known = model.predict(texts)
    many = list(desk.texts("train")[:BULK] if model.hf.device.type == "cuda" else texts)
    predicted = model.predict(many)
    rows = {"prediction": _timed(model.predict, few) / len(few)}
    rates: dict[str, Any] = {}
    for one in desk.study.teachers:
        explainer = desk.explainer(one.label)
        explainer.explain(model, few[:2])
        rows[one.label] = _timed(explainer.explain, model, few) / len(few)
    for folder in sorted((desk.work / "explainers").glob("l2e*(*) 0")):
        learned = LearnedExplainer.from_pretrained(folder, device=desk.device)
        if learned.about.reference != desk.study.teachers[0].name:
            continue
        name = folder.name.removesuffix(" 0")
        learned.explain(model, texts, predictions=known)
        rows[name] = _timed(learned.explain, model, few, predictions=known[: len(few)]) / len(few)
        single = [_timed(learned.explain, model, [t], predictions=[p]) for t, p in zip(few, known, strict=False)]
        rows[f"{name}, one text at a time"] = float(np.median(single))
        rates[name] = _rates(learned, model, many, predicted)
    return {
        "device": torch.cuda.get_device_name(0) if torch.cuda.is_available() else f"CPU, {os.cpu_count()} cores",
        "torch": torch.__version__,
        "texts at a time": len(few),
        "seconds per text": {name: float(f"{value:.4g}") for name, value in rows.items()},
        "documents per second": rates,
    }


def _rates(
    explainer: LearnedExplainer, model: TextModel, texts: list[Example], predictions: list[Prediction]
) -> dict[str, float]:
    """Documents per second in bulk: everything, with predictions known, and the network alone on texts read before."""
    explainer.explain(model, texts[:64], predictions=predictions[:64])
    one, other = texts[::2], texts[1::2]  # not the same ones twice: those would be tokenised already
    taken = {
        "prediction made": len(one) / _timed(explainer.explain, model, one),
        "prediction known": len(other) / _timed(explainer.explain, model, other, predictions=predictions[1::2]),
    }
    items = explainer.shape.read(None, model.units(texts), [known.index for known in predictions], predictions)
    explainer._scores(items)
    taken["texts read"] = len(items) / _timed(explainer._scores, items)
    return {name: round(rate, 1) for name, rate in taken.items()}


def _write_results(run: Run, setting: Setting) -> None:
    study = _study(setting)
    desk = Desk(study, Path(setting.work), setting.device)
    paths = sorted((desk.work / "labels").glob("*.parquet"))
    together = run.out / f"labels-{study.name}.parquet"
    newest = max((path.stat().st_mtime for path in paths), default=0.0)
    if paths and (not together.is_file() or together.stat().st_mtime < newest):
        files.write(together, pa.concat_tables([files.read(path) for path in paths]))
    mine = f"{study.name}/"
    table = rounded(desk.records())
    if not len(table):
        return
    grades = gather(table)
    record_store.write(run.out / f"records-{study.name}.parquet", table)
    summary = {
        "study": dataclasses.asdict(study) | {"model": Path(str(study.model["source"])).name},
        "wall_seconds": round(_now(), 1),
        "tf32": run.options.tf32,
        "half": run.options.half,
        "process_seconds": _process_seconds(run, mine),
        "facts": {name: found for name, found in run.facts.items() if name.startswith(mine)},
        "failed": {name: why for name, why in run.failed.items() if name.startswith(mine)},
        "dropped": sum(name.startswith(mine) for name in run.dropped),
        "speed": run.facts.get(f"{mine}speed", {}),
        "means": means(grades),
        "versus": [dataclasses.asdict(row) for row in versus(grades)],
    }
    path = run.out / f"summary-{study.name}.json"
    path.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    seconds = {name: taken for name, taken in run.seconds.items() if name.startswith(mine)}
    _facts_path(setting).write_text(json.dumps({"facts": summary["facts"], "seconds": seconds}), encoding="utf-8")


def rounded(table: pa.Table) -> pa.Table:
    """Records with their values to four digits, which takes a quarter off the file."""
    values = [float(f"{value:.4g}") for value in table["value"].to_pylist()]
    return table.set_column(table.schema.get_field_index("value"), table.schema.field("value"), pa.array(values))


def _facts_path(setting: Setting) -> Path:
    return Path(setting.work) / "facts.json"


def _process_seconds(run: Run, mine: str) -> dict[str, float]:
    """Seconds of all processes together for labels, learning and grading, by teacher."""
    found: dict[str, float] = {}
    for name, seconds in run.seconds.items():
        parts = name.split("/")
        if name.startswith(mine) and len(parts) > 2:
            kind = {"label": "labels", "gather": "labels", "teacher": "grading"}.get(parts[2], "learning")
            key = f"{parts[1]}: {kind}"
            found[key] = round(found.get(key, 0.0) + seconds, 1)
    return found


def _take_labels(folder: Path, settings: list[Setting]) -> None:
    """Labels that an earlier run left, one file per teacher again."""
    for setting in settings:
        desk = Desk(_study(setting), Path(setting.work))
        path = folder / f"labels-{desk.study.name}.parquet"
        if path.is_file():
            table = files.read(path)
            desk.take(table)
            _say(f"{desk.study.name}: {len(table)} labels from {path}")


def _setting(options: argparse.Namespace, recipe: str) -> Setting:
    work = Path(options.work or Path(options.out) / "work") / Path(recipe).stem
    limits = {name: getattr(options, name) for name in ("train", "validation", "test", "seeds", "epochs")}
    return Setting(recipe, str(work.resolve()), options.device, half=options.half, grade=options.grade, **limits)


def _now() -> float:
    return time.perf_counter() - BEGAN


def _say(text: str) -> None:
    print(f"[{_now():6.1f}] {text}", flush=True)


def _timed(call: Callable[..., object], *arguments: Any, **named: Any) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    call(*arguments, **named)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+", help="study files")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--work", help="folder of everything in between (default: OUT/work)")
    parser.add_argument("--labels", help="OUT of an earlier run, to take its labels")
    parser.add_argument("--only-labels", action="store_true", help="collect labels, and learn nothing")
    parser.add_argument("--tf32", action="store_true", help="let the GPU round the factors of products to ten bits")
    parser.add_argument("--half", action="store_true", help="perturb the training texts with the model in float16")
    parser.add_argument("--teachers", metavar="A,B,...", help="only these")
    for name in ("train", "validation", "test", "seeds", "epochs"):
        parser.add_argument(f"--{name}", type=int, help="instead of the recipe's")
    parser.add_argument(
        "--grade",
        choices=("test", "validation"),
        default="test",
        help="texts that are graded (default: test); validation texts to choose settings by",
    )
    parser.add_argument("--device", help="cpu or cuda (default: the GPU when there is one)")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=570, help="time for everything (default: 570)")
    parser.add_argument("--stage-seconds", type=float, default=0, help="time for a teacher's labels; 0: no limit")
    parser.add_argument("--reserve", type=float, default=60, help="seconds kept for measuring speed (default: 60)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
