"""Everything that didact saves, damaged: refused, or read to the same content."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np
import torch

import didact
from didact.data.corpus import generate
from didact.errors import InputError
from didact.experiments.grading.evaluation import Evaluation
from didact.experiments.simulability.result import SimulabilityResult
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.surrogate import load_surrogate, save_surrogate
from didact.render import jsonio
from didact.scale.label_files import read_labels
from didact.store import explanations as explanation_store
from didact.store import records as record_store
from didact.store.outcomes import OutcomeStore
from didact.store.parts import Parts
from didact.students.base import StudentOutcome
from didact.testing.tiny import TEXTS, keyword_predict, tiny_model
from didact.trained import checkpoints
from didact.trained.explainer import LearnedExplainer
from didact.types import Example, Explanation, Record
from fuzz import documents, models
from fuzz.cases import Attempt, show
from fuzz.hostile import chance
from fuzz.invariants import promise
from fuzz.mutations import mutated
from fuzz.workshop import Workshop

KEYS = ("0123456789abcdef", "fedcba9876543210")


@dataclass(frozen=True)
class Artefact:
    """Something that is saved and read again.

    Attributes:
        make: writes it into an empty folder; another number makes another one of the same kind.
        read: its content, as values that can be compared.
        says: what changed files say by themselves, as plain text that people may edit and that has no checksum; None
            where every change must be noticed. It must be a part of ``read``'s content.
        whole: whether its files belong together, so that one of another artefact must be noticed.
        pattern: which of its files are damaged.
    """

    make: Callable[[Path, int], None]
    read: Callable[[Path], object]
    says: Callable[[Path], object] | None = None
    whole: bool = False
    pattern: str = "*"


def artefact(name: str, rng: Random, workshop: Workshop) -> Attempt:
    """One artefact with one file damaged, lost, or replaced by another."""
    kind = ARTEFACTS[name]
    original, other = _made(name, 0), _made(name, 1)
    files = sorted(path.relative_to(original).as_posix() for path in original.rglob(kind.pattern) if path.is_file())
    file = rng.choice(files)
    change, content = _damage(rng, original, other, file, kind)

    def call() -> None:
        with workshop.folder() as folder:
            shutil.copytree(original, folder / "copy")
            path = folder / "copy" / file
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content)
            _check(name, kind, folder / "copy", change)

    return Attempt(f"{name}: {change}", show(name, file, change), call)


def _damage(rng: Random, original: Path, other: Path, file: str, kind: Artefact) -> tuple[str, bytes | None]:
    """What happens to the file, and its bytes afterwards; None where it is lost."""
    draw = rng.random()
    own = (original / file).read_bytes()
    if draw < 0.03:
        return "lost", None
    if draw < 0.08:
        replaced = rng.choice(sorted(path for path in original.rglob("*") if path.is_file())).read_bytes()
        if replaced != own:
            return "replaced", replaced
    if draw < 0.15 and kind.whole and (other / file).is_file() and (other / file).read_bytes() != own:
        return "of another", (other / file).read_bytes()
    if kind.says is not None and file.endswith((".json", ".jsonl")) and chance(rng, 0.4):
        return "mistyped", mutated(rng, own)
    return "damaged", mutated(rng, own)


def _check(name: str, kind: Artefact, folder: Path, change: str) -> None:
    """Equal content, or what the file itself says."""
    says = None if kind.says is None else _said(kind.says, folder)
    content = kind.read(folder)
    if content == _content(name):
        return
    promise(says is not None and _holds(content, says), f"{name} read to other content: {change}")


def _said(says: Callable[[Path], object], folder: Path) -> object:
    try:
        return says(folder)
    except (ValueError, OSError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _holds(content: object, says: object) -> bool:
    """Whether everything that a file says is in the content, and nothing else but what is empty."""
    if isinstance(says, dict) and isinstance(content, dict):
        inside = all(key in content and _holds(content[key], value) for key, value in says.items())
        return inside and all(key in says or value in (None, [], {}, "", 0.0) for key, value in content.items())
    if isinstance(says, list | tuple) and isinstance(content, list | tuple):
        return len(says) == len(content) and all(map(_holds, content, says))
    return bool(content == says)


@functools.cache
def _made(name: str, number: int) -> Path:
    """A whole artefact, made once per process."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-artefact-")) / name
    folder.mkdir()
    ARTEFACTS[name].make(folder, number)
    return folder


@functools.cache
def _content(name: str) -> object:
    with tempfile.TemporaryDirectory(prefix="fuzz-artefact-") as place:
        shutil.copytree(_made(name, 0), Path(place) / "copy")
        return ARTEFACTS[name].read(Path(place) / "copy")


def clean() -> None:
    """Remove what was made."""
    for name in ARTEFACTS:
        for number in (0, 1):
            if _made.cache_info().currsize:
                shutil.rmtree(_made(name, number).parent, ignore_errors=True)
    _made.cache_clear()


# What is made: texts, explanations, records, networks; another number gives another one.


def _texts(number: int, count: int = 6) -> list[Example]:
    return generate(count, seed=number)


@functools.cache
def _explanations(number: int) -> list[Explanation]:
    return didact.explain(_texts(number, 3), models.function(), "occlusion", progress=False)


def _plain(explanations: list[Explanation]) -> list[dict[str, Any]]:
    return [each.to_dict() for each in explanations]


def _records(number: int) -> list[Record]:
    return [
        Record("lime", "lime", 0, "", "sufficiency", "", f"text-{row}", 0.1 * row + number, "m", "d", "s")
        for row in range(30)
    ]


# One function that writes and one that reads for each.


def _write_json(folder: Path, number: int) -> None:
    didact.save(_explanations(number), folder / "explanations.json")


def _read_json(folder: Path) -> object:
    try:
        text = (folder / "explanations.json").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:  # whoever reads a file by hand sees that it is none
        raise InputError(str(problem)) from None
    return _plain(jsonio.load(text))


def _json_says(folder: Path) -> object:
    return json.loads((folder / "explanations.json").read_text(encoding="utf-8"))["explanations"]


def _write_table(folder: Path, number: int) -> None:
    explanation_store.write(folder / "explanations.parquet", explanation_store.to_table(_explanations(number)))


def _read_table(folder: Path) -> object:
    return _plain(explanation_store.from_table(explanation_store.read(folder / "explanations.parquet")))


def _write_records(folder: Path, number: int) -> None:
    record_store.write(folder / "records.parquet", record_store.to_table(_records(number)))


def _read_records(folder: Path) -> object:
    return record_store.from_table(record_store.read(folder / "records.parquet"))


def _write_parts(folder: Path, number: int) -> None:
    for shift, key in enumerate(KEYS):
        Parts(folder).write(key, record_store.to_table(_records(number + shift)))


def _read_parts(folder: Path) -> object:
    return [Parts(folder).read(key).to_pylist() for key in KEYS]


def _write_outcomes(folder: Path, number: int) -> None:
    store = OutcomeStore(Parts(folder), StudentOutcome.stored)
    for shift, key in enumerate(KEYS):
        store.put(key, StudentOutcome(np.arange(20) % (2 + shift + number), None, {"loss": 0.5}))


def _read_outcomes(folder: Path) -> object:
    store = OutcomeStore(Parts(folder), StudentOutcome.stored)
    rows = []
    for key in KEYS:
        kept = store.get(key)
        if kept is None:
            raise InputError("a lost outcome is computed again")
        rows.append((kept.answers.tolist(), kept.failure, dict(kept.details)))
    return rows


def _write_checkpoint(folder: Path, number: int) -> None:
    torch_rows = {"weight": torch.arange(60.0).reshape(6, 10) + number, "bias": torch.ones(6)}
    checkpoints.write(folder / "run.safetensors", torch_rows, {"epoch": 3 + number, "history": [{"loss": 0.5}]})


def _read_checkpoint(folder: Path) -> object:
    tensors, state = checkpoints.read(folder / "run.safetensors", "delete it")
    return {name: (str(tensor.dtype), tensor.tolist()) for name, tensor in tensors.items()}, state


def _training(folder: Path, number: int) -> LearnedExplainer:
    settings: dict[str, Any] = {"width": 8, "blocks": 1, "epochs": 2, "min_count": 1, "chunk": 4, "seed": number}
    texts: Any = [each.text for each in _texts(0, 9)]
    return didact.train("l2e", texts, models.function(), "occlusion", out=folder, progress=False, **settings)


def _write_training(folder: Path, number: int) -> None:
    _training(folder, number)


def _scores(explainer: LearnedExplainer) -> object:
    made = explainer.explain(models.function(), [TEXTS[0], TEXTS[1]])
    return [(each.scores, each.target.to_dict(), each.signed) for each in made]


def _read_training(folder: Path) -> object:
    return _scores(_training(folder, 0))


def _read_explainer(folder: Path) -> object:
    explainer = LearnedExplainer.from_pretrained(folder, device="cpu")
    about = explainer.about
    return _scores(explainer), about.labels, about.fingerprint, about.level, about.scale


def _write_explainer(folder: Path, number: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        _training(Path(place) / "run", number).save_pretrained(folder)


def _write_labels(folder: Path, number: int) -> None:
    (folder / "labels.jsonl").write_text(
        "".join(each.to_json() + "\n" for each in _explanations(number)), encoding="utf-8"
    )


def _read_labels(folder: Path) -> object:
    return _plain(read_labels(folder / "labels.jsonl", models.function()))


def _labels_say(folder: Path) -> object:
    lines = (folder / "labels.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]


def _network(number: int) -> NetworkModel:
    return cast("NetworkModel", load_model(tiny_model("bert", seed=number)))


def _write_surrogate(folder: Path, number: int) -> None:
    save_surrogate(_network(number), folder)


def _predicted(model: NetworkModel) -> object:
    made = model.predict([Example(each) for each in TEXTS])
    return [[round(value, 5) for value in each.outputs] for each in made], model.labels


def _read_surrogate(folder: Path) -> object:
    return _predicted(load_surrogate(folder, "cpu"))


def _write_model(folder: Path, number: int) -> None:
    network, tokenizer = tiny_model("bert", seed=number)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _read_model(folder: Path) -> object:
    """A user's own model, which has no checksum: that it is read or refused is all that can be asked."""
    model = load_model(str(folder), device="cpu")
    model.predict([Example(each) for each in TEXTS])
    return None


def _write_run(folder: Path, number: int) -> None:
    data: Any = _texts(number, 5)
    didact.evaluate(data, keyword_predict, ["occlusion", "random"], ["comprehensiveness"], out=folder, progress=False)


def _read_run(folder: Path) -> object:
    run = Evaluation(folder)
    promise(bool(run.answers), "a report without words: grading run")
    kept: dict[str, object] = {"records": run.records(), "explanations": _plain(run.explanations())}
    return kept | {"manifest": json.loads((folder / "manifest.json").read_text(encoding="utf-8"))}


def _run_says(folder: Path) -> object:
    whole = cast("dict[str, object]", _content("grading_run"))
    return whole | {"manifest": json.loads((folder / "manifest.json").read_text(encoding="utf-8"))}


def _resumed_run(folder: Path) -> object:
    _write_run(folder, 0)
    return Evaluation(folder).records()


def _write_simulation(folder: Path, number: int) -> None:
    data: Any = _texts(number, 24)
    options: dict[str, Any] = {"sizes": [8], "subsets": 2, "controls": False}
    didact.simulate(data, keyword_predict, ["occlusion"], ["ridge"], out=folder, progress=False, **options)


def _read_simulation(folder: Path) -> object:
    run = SimulabilityResult(folder)
    promise(bool(run.answers), "a report without words: simulation")
    kept: dict[str, object] = {"records": record_store.from_table(record_store.read(folder / "records.parquet"))}
    return kept | {
        name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("manifest", "extras")
    }


def _simulation_says(folder: Path) -> object:
    whole = cast("dict[str, object]", _content("simulability_run"))
    return whole | {
        name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("manifest", "extras")
    }


ARTEFACTS: dict[str, Artefact] = {
    "explanations_json": Artefact(_write_json, _read_json, _json_says),
    "explanations_parquet": Artefact(_write_table, _read_table),
    "records_parquet": Artefact(_write_records, _read_records),
    "parts": Artefact(_write_parts, _read_parts),
    "outcomes": Artefact(_write_outcomes, _read_outcomes),
    "checkpoint": Artefact(_write_checkpoint, _read_checkpoint),
    "training_folder": Artefact(_write_training, _read_training),
    "explainer_folder": Artefact(_write_explainer, _read_explainer, whole=True),
    "labels_jsonl": Artefact(_write_labels, _read_labels, _labels_say),
    "surrogate_folder": Artefact(_write_surrogate, _read_surrogate, whole=True),
    "model_folder": Artefact(_write_model, _read_model),
    "grading_run": Artefact(_write_run, _read_run, _run_says, pattern="*.*[tn]"),
    "grading_parts": Artefact(_write_run, _resumed_run, pattern="*.parquet"),
    "simulability_run": Artefact(_write_simulation, _read_simulation, _simulation_says, pattern="*.*[tn]"),
    "decision_record": Artefact(documents.write_record, documents.read_record, documents.record_says),
    "study": Artefact(documents.write_study, documents.read_study, whole=True, pattern="*.*[tn]"),
}
"""By name; ``*.*[tn]`` are the .parquet and .json files."""
