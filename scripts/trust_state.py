"""Kills and flipped bits: whether stored state ever gives other results than an undisturbed run.

    python scripts/trust_state.py --kills 100 --flips 100 --seed 17 --out docs/results/trust/state.json

Runs of every kind are ended by SIGKILL at random moments and started again, and what they write in the end is compared
with an undisturbed run, value for value but for seconds. Then single bits of what runs keep are flipped: parts,
results, checkpoints, saved explainers, surrogates and classifiers. Whatever uses them must give the same results or
refuse them by name.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from didact import disk
from didact.cli import main as didact
from didact.data.corpus import generate
from didact.errors import DidactError
from didact.experiments.engine.kinds import kind_of
from didact.experiments.engine.objects import read_object
from didact.experiments.engine.toml import Plain
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.surrogate import fine_tune_masked, load_surrogate, save_surrogate
from didact.provenance import content_hash, versions
from didact.store import files
from didact.trained.explainer import LearnedExplainer
from didact.trained.neutral import NeutralConfig, train_neutral
from didact.types import Example

RECIPES = {
    "grading": """
explainers = ["occlusion", { method = "lime", samples = 30 }]
metrics = ["comprehensiveness", "rationale_auc", "forwards", "seconds"]
seeds = [0, 1]
chunk = 2
data = { source = "corpus", limit = 6 }
""",
    "simulability": """
kind = "simulability"
explainers = ["gradient_norm", "occlusion"]
students = ["ridge", { student = "bilstm_attention", embedding = 8, hidden = 8, epochs = 1 }]
controls = ["random"]
metrics = ["sufficiency"]
sizes = [8]
subsets = 3
group = 4
chunk = 4
data = { source = "corpus", limit = 20 }
test = { source = "corpus", limit = 10, seed = 1 }
""",
    "distillation": """
kind = "distillation"
initialisations = 2
chunk = 4
references = [{ method = "gradient_norm", label = "gradient" }]
model = { source = "default" }
network = { width = 8, heads = 2, blocks = 1 }
training = { epochs = 2 }
[data]
train = { source = "corpus", limit = 12, seed = 1 }
validation = { source = "corpus", limit = 4, seed = 2 }
test = { source = "corpus", limit = 4, seed = 3 }
""",
}
TRAIN = "train l2e --reference occlusion --limit 40 --epochs 6 --device cpu"
KINDS = (*RECIPES, "l2e")
TEXT = """Runs are ended by SIGKILL at random moments, one to four times each, and started again; what they end with is
compared with an undisturbed run, value for value but for seconds. Single bits of stored files are flipped, one at a
time, and whatever uses the file is run."""
Results = dict[str, str]
"""What a run has written: name of a file -> digest of what must not differ."""


def command(kind: str, folder: Path) -> list[str]:
    """The command line that carries out a kind of run into a folder."""
    if kind == "l2e":
        return [*TRAIN.split(), "--out", str(folder)]
    recipe = folder.parent / f"{kind}.toml"
    recipe.write_text(RECIPES[kind], encoding="utf-8")
    return ["run", str(recipe), "--out", str(folder), "--device", "cpu"]


def results(kind: str, folder: Path) -> Results:
    """What must be the same in every run, read as a report reads it; seconds are left out."""
    if kind == "l2e":
        return _explainer(folder)
    found = {"records.parquet": _table(folder / "records.parquet")}
    for name in ("explanations.parquet", "labels.parquet"):
        if (folder / name).is_file():
            found[name] = _table(folder / name)
    for name in ("manifest.json", "extras.json", "summary.json"):
        if kind != "grading" or name != "summary.json":  # which is a report there, and written anew
            found |= _object(folder / name)
    kind_of(folder)
    return found


def _table(path: Path) -> str:
    table = files.read(path)
    left = [name for name in table.column_names if name != "seconds"]
    rows = table.select(left).to_pylist()
    return content_hash([row for row in rows if row.get("metric") != "seconds"])


def _object(path: Path) -> Results:
    if not path.is_file():
        return {}
    values = read_object(path, "")
    timed = ("command", "facts", "speed", "means", "versus")  # the last two are of the records, seconds included
    return {path.name: content_hash([{name: value for name, value in values.items() if name not in timed}])}


def _explainer(folder: Path) -> Results:
    explainer = LearnedExplainer.from_pretrained(folder, device="cpu")
    found = explainer.explain(load_model(device="cpu"), TEXTS)
    facts = dataclasses.asdict(explainer.about)
    return {
        "scores": content_hash([one.scores for one in found]),
        "about": content_hash([{name: value for name, value in facts.items() if name != "cost"}]),
        "parameters": content_hash([dict(explainer.parameters)]),
    }


TEXTS = [Example("A warm, funny and wonderful film."), Example("The plot is dull and the jokes are worse.")]


# Kills.


def start(arguments: Sequence[str]) -> multiprocessing.process.BaseProcess:
    """A process of its own that carries out a command; it is forked, so that it need not import everything again."""
    process = multiprocessing.get_context("fork").Process(target=_child, args=(list(arguments),))
    process.start()
    return process


def _child(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    sys.exit(didact(arguments))


def undisturbed(kind: str, scratch: Path) -> tuple[Results, float]:
    """The results of a run that nobody kills, and how long it works."""
    folder = scratch / f"{kind}-whole"
    process = start(command(kind, folder))
    _wait_for(folder / ".lock", process)
    began = time.perf_counter()
    process.join()
    if process.exitcode != 0:
        raise SystemExit(f"the undisturbed run of {kind} ended with {process.exitcode}")
    return results(kind, folder), time.perf_counter() - began


def killed(kind: str, count: int, seed: int, scratch: Path) -> Plain:
    """Kill runs so many times, each run one to four times before it may end, and compare what it ends with."""
    rng = random.Random(f"{seed} {kind}")
    wanted, span = undisturbed(kind, scratch)
    kills, compared, differing = 0, 0, list[str]()
    while kills < count:
        folder = scratch / f"{kind}-{compared}"
        for _ in range(min(rng.randint(1, 4), count - kills)):
            kills += kill_once(command(kind, folder), folder, rng.uniform(0, span))
        process = start(command(kind, folder))
        process.join()
        compared += 1
        if process.exitcode != 0 or results(kind, folder) != wanted:
            differing.append(f"{folder.name}: exit {process.exitcode}")
        else:
            shutil.rmtree(folder)
    return {"kills": kills, "runs compared": compared, "differing": differing, "seconds of a run": round(span, 2)}


def kill_once(arguments: Sequence[str], folder: Path, moment: float) -> bool:
    """Start a command and end it so many seconds after it has begun to work; False where it was done before."""
    process = start(arguments)
    _wait_for(folder / ".lock", process)
    process.join(moment)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def _wait_for(path: Path, process: multiprocessing.process.BaseProcess) -> None:
    before = path.stat().st_mtime_ns if path.exists() else None
    while process.is_alive() and (not path.exists() or path.stat().st_mtime_ns == before):
        time.sleep(0.001)


# Flips.


@dataclasses.dataclass(frozen=True)
class Stored:
    """Something that is stored, and what uses it.

    Attributes:
        files: of which a bit is flipped.
        use: reads them or goes on from them, and gives what must not differ; DidactError where it refuses to.
    """

    files: list[Path]
    use: Callable[[], Results]


def stored(scratch: Path) -> dict[str, Stored]:
    """All families of stored state, made anew."""
    families: dict[str, Stored] = {}
    for kind in KINDS:
        families |= _of_run(kind, scratch / f"{kind}-stored")
    texts, model = generate(6, seed=0), load_model(device="cpu")
    assert isinstance(model, NetworkModel)
    surrogate, neutral = scratch / "surrogate", scratch / "neutral"
    save_surrogate(fine_tune_masked(model, texts, epochs=1), surrogate)
    train_neutral("default", texts, neutral, config=NeutralConfig(epochs=1, device="cpu"))
    families["surrogate"] = _of_model(surrogate, lambda: load_surrogate(surrogate, "cpu"))
    families["neutral classifier"] = _of_model(neutral, lambda: load_model(str(neutral), device="cpu"))
    return families


def _of_run(kind: str, folder: Path) -> dict[str, Stored]:
    """What a finished run keeps, used by reading its results and by giving its command again."""

    def again() -> Results:
        found = results(kind, folder)
        carry_out(command(kind, folder))
        return {f"{name}, again": value for name, value in results(kind, folder).items()} | found

    carry_out(command(kind, folder))
    parts = Stored(sorted((folder / "parts").glob("*/*.parquet")), again)
    if kind != "l2e":
        kept = [path for path in sorted(folder.iterdir()) if path.suffix in (".parquet", ".json")]
        unread = ("timings.parquet", "summary.json") if kind == "grading" else ()  # times, and a report
        return {f"{kind}: parts": parts, f"{kind}: results": Stored([p for p in kept if p.name not in unread], again)}
    saved = [path for path in sorted(folder.rglob("*")) if path.suffix in (".json", ".safetensors")]
    fitted = [path for path in saved if path.parent.name == "fit"]
    explainer = Stored([path for path in saved if path not in fitted], lambda: _explainer(folder))
    return {"l2e: labels": parts, "l2e: checkpoint": Stored(fitted, again), "l2e: explainer": explainer}


def _of_model(folder: Path, load: Callable[[], object]) -> Stored:
    def use() -> Results:
        model = load()
        assert isinstance(model, NetworkModel)
        return {"outputs": content_hash([one.outputs for one in model.predict(TEXTS)])}

    return Stored([path for path in sorted(folder.rglob("*")) if path.is_file()], use)


def carry_out(arguments: Sequence[str]) -> None:
    """Carry out a command in this process; what it refuses becomes an error."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = didact(arguments)
    if code == 2:
        raise DidactError(said.getvalue().strip())
    if code:
        raise RuntimeError(f"exit {code}: {said.getvalue().strip()}")


def flipped(scratch: Path, count: int, seed: int) -> dict[str, Plain]:
    """Flip so many bits, one at a time, in all families in turn, and see what becomes of it."""
    rng, families = random.Random(f"{seed} flips"), stored(scratch)
    wanted = {name: family.use() for name, family in families.items()}
    seen: dict[str, Plain] = {}
    for number in range(count):
        name = list(families)[number % len(families)]
        row = seen.setdefault(name, {"flips": 0, "refused": 0, "unharmed": 0, "wrong": []})
        path = rng.choice(families[name].files)
        bit = rng.randrange(8 * path.stat().st_size)
        became = flip_once(path, bit, families[name].use, wanted[name])
        row["flips"] += 1
        if became in ("refused", "unharmed"):
            row[became] += 1
        else:
            row["wrong"].append(f"{path.name}, bit {bit}: {became}")
    return seen


def flip_once(path: Path, bit: int, use: Callable[[], Results], wanted: Results) -> str:
    """Flip a bit, use what is stored, and put it back."""
    whole = {each: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}
    harmed = bytearray(whole[path])
    harmed[bit // 8] ^= 1 << bit % 8
    path.write_bytes(harmed)
    try:
        return "unharmed" if use() == wanted else "other results"
    except DidactError as problem:
        return "refused" if path.name in str(problem) else f"refused without its name: {problem!s:.200}"
    except Exception as problem:  # whatever else comes is what is looked for
        return f"{type(problem).__name__}: {problem!s:.200}"
    finally:
        for each, data in whole.items():
            each.write_bytes(data)


def figures(kills: Mapping[str, Plain], flips: Mapping[str, Plain]) -> list[dict[str, str]]:
    """The record as the page of trust shows it."""
    rows = [
        {
            "what": f"{kind}: runs that end otherwise after kills",
            "value": f"{len(row['differing'])} of {row['runs compared']} runs, {row['kills']} kills",
            "bar": "0",
        }
        for kind, row in kills.items()
    ]
    for name, row in flips.items():
        seen = f"{row['refused']} refused by name, {row['unharmed']} with equal results, {len(row['wrong'])} wrong"
        rows.append({"what": f"{name}: {row['flips']} flipped bits", "value": seen, "bar": "0 wrong"})
    return rows


def main() -> None:
    """Kill, flip, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--flips", type=int, default=100)
    parser.add_argument("--kinds", default=",".join(KINDS), help="of the runs that are killed")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--workers", type=int, default=1, help="processes; each has a kind of run, one has the flips")
    parser.add_argument("--out", type=Path, default=Path("docs/results/trust/state.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    kinds = options.kinds.split(",")
    shares = [options.kills // len(kinds) + (at < options.kills % len(kinds)) for at in range(len(kinds))]
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(options.workers) as pool:
        harmed = pool.submit(flipped, Path(name), options.flips, options.seed) if options.flips else None
        ended = {
            kind: pool.submit(killed, kind, share, options.seed, Path(name))
            for kind, share in zip(kinds, shares, strict=True)
            if share
        }
        kills = {kind: job.result() for kind, job in ended.items()}
        flips = harmed.result() if harmed else {}
    given = f"--kills {options.kills} --flips {options.flips} --seed {options.seed}"
    record = {
        "command": f"python scripts/trust_state.py {given}",
        "versions": versions(),
        "text": TEXT,
        "figures": figures(kills, flips),
        "kills": kills,
        "flips": flips,
    }
    disk.write_text(options.out, json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))
    if any(row["differing"] for row in kills.values()) or any(row["wrong"] for row in flips.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
