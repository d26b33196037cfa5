"""Tries the fingerprints of models: whether every random single change is noticed, and nothing else is.

What must not count: a moved folder, another process, another device, another version of Transformers.

    python scripts/trust_identity.py --out docs/results/trust/identity.json
    python scripts/trust_identity.py --save runs/identity           # tiny models and their fingerprints
    python scripts/trust_identity.py --check runs/identity --device cuda   # elsewhere: the same fingerprints?

A third of the changes each: a flipped bit of one value of a weight or buffer, one rule or entry of a tokenizer, one
constant or operator in the source of a predict function or of what it calls. Everything follows from --seed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

import didact
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.provenance import versions
from didact.testing.tiny import ARCHITECTURES, tiny_model, tiny_tokenizer

PRINTS = "fingerprints.json"
TEXT = "A warm and funny film, although the plot of the second half is rather dull."

FUNCTIONS = (
    """
WEIGHTS = {"good": 1.0, "warm": 0.5, "bad": -1.0, "dull": -2.0}
def clean(word):
    return word.strip(".,!?").lower()
def total(text):
    return sum(WEIGHTS.get(clean(word), 0.0) for word in text.split())
def predict(texts):
    rows = []
    for text in texts:
        positive = 1 / (1 + 2.718281828 ** -total(text))
        rows.append([1 - positive, positive])
    return rows
""",
    """
class Rules:
    known = {"wonderful", "funny", "warm"}
    limit = 3
    def hits(self, text):
        return min(len([word for word in text.split() if word in self.known]), self.limit)
    def __call__(self, texts):
        shares = [(1 + self.hits(text)) / (2 + self.limit) for text in texts]
        return [[1 - share, share] for share in shares]
predict = Rules()
""",
    """
def make(words, bias=0.25):
    def predict(texts):
        def share(text):
            length = len(text)
            if length > 40 and "not" in text:
                return bias
            return min(0.9, bias + 0.1 * sum(1 for word in words if word in text))
        return [[1 - share(text), share(text)] for text in texts]
    return predict
predict = make(("film", "cast", "team"))
""",
)


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the network that is timed")
    parser.add_argument("--out", type=Path, help="where the record goes, as JSON")
    parser.add_argument("--save", type=Path, help="only write tiny models and their fingerprints into this folder")
    parser.add_argument("--check", type=Path, help="only compare fingerprints with those that --save wrote")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    if args.save:
        save(args.save, args.device)
    elif args.check:
        sys.exit(0 if report(args, check(args.check, args.device)) else 1)
    else:
        sys.exit(0 if report(args, full_record(args)) else 1)


def full_record(args: argparse.Namespace) -> dict[str, object]:
    """Changes, what must not count, and times."""
    record: dict[str, object] = {"seed": args.seed, "changes": changes(args.seed, args.changes)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "saved"
        save(folder, args.device)
        moved = Path(shutil.move(folder, Path(name) / "moved"))
        command = [sys.executable, __file__, "--check", str(moved), "--device", args.device]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        record["moved folder, other process"] = json.loads(done.stdout)
    record["seconds"] = seconds(args.gigabytes)
    return record


def report(args: argparse.Namespace, record: dict[str, object]) -> bool:
    """Print the record and write it; whether everything was as it must be."""
    command = "python scripts/trust_identity.py"
    text = json.dumps({"command": command, "figures": figures(record), **record, "versions": versions()}, indent=1)
    print(text)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text + "\n", encoding="utf-8")
    return '"missed": [\n' not in text and '"different": [\n' not in text


def figures(record: dict[str, Any]) -> list[dict[str, object]]:
    """What the page shows of the record, with what was wanted."""
    rows: list[dict[str, object]] = []
    if "changes" in record:
        made, noticed = sum(record["changes"]["made"].values()), record["changes"]["noticed"]
        rows.append({"what": "random single changes noticed", "value": f"{noticed} of {made}", "bar": "all"})
        same = record["moved folder, other process"]
        what = f"of {same['models']} models, in a moved folder and another process: another fingerprint"
        rows.append({"what": what, "value": len(same["different"]), "bar": "0"})
        rows += [{"what": name, "value": f"{value} s", "bar": ""} for name, value in record["seconds"].items()]
    return rows


def save(folder: Path, device: str) -> None:
    """Tiny models of every architecture with the fingerprints that they have once they are loaded from there."""
    prints = {}
    for architecture in ARCHITECTURES:
        network, tokenizer = tiny_model(architecture)
        network.save_pretrained(folder / architecture)
        tokenizer.save_pretrained(folder / architecture)
        prints[architecture] = load_model(folder / architecture, device=device).fingerprint()
    prints["embedded"] = load_model(device=device).fingerprint()
    (folder / PRINTS).write_text(json.dumps({"prints": prints, "versions": versions()}, indent=1), encoding="utf-8")


def check(folder: Path, device: str) -> dict[str, object]:
    """Which of the saved models have another fingerprint here."""
    saved = json.loads((folder / PRINTS).read_text(encoding="utf-8"))
    different = []
    for name, wanted in saved["prints"].items():
        model = load_model(device=device) if name == "embedded" else load_model(folder / name, device=device)
        if model.fingerprint() != wanted:
            different.append(name)
    return {"models": len(saved["prints"]), "different": different, "saved with": saved["versions"], "device": device}


def changes(seed: int, count: int) -> dict[str, object]:
    """Random single changes and those that the fingerprint missed."""
    rng = np.random.default_rng(seed)
    kinds: dict[str, Callable[[np.random.Generator], Iterator[tuple[str, bool]]]] = {
        "weight": weight_changes,
        "tokenizer rule": tokenizer_changes,
        "function body": function_changes,
    }
    made: dict[str, int] = dict.fromkeys(kinds, 0)
    missed: list[str] = []
    running = {kind: start(rng) for kind, start in kinds.items()}
    for number in range(count):
        kind = list(kinds)[number % len(kinds)]
        what, noticed = next(running[kind])
        made[kind] += 1
        if not noticed:
            missed.append(f"{kind}: {what}")
    return {"made": made, "noticed": count - len(missed), "missed": missed}


def weight_changes(rng: np.random.Generator) -> Iterator[tuple[str, bool]]:
    """One bit of one value of a random tensor flipped in place, by way of ``.data``, and back."""
    models = [load_model(tiny_model(architecture)) for architecture in ("bert", "roberta", "gpt2", "llama")]
    models.append(load_model(device="cpu"))
    while True:
        model = models[rng.integers(len(models))]
        assert isinstance(model, NetworkModel)
        tensors = {**dict(model.network.named_parameters()), **dict(model.network.named_buffers())}
        name = sorted(tensors)[rng.integers(len(tensors))]
        bits = tensors[name].data.view(-1).view(torch.uint8)
        place, bit = int(rng.integers(bits.numel())), 1 << int(rng.integers(8))
        before = model.fingerprint()
        bits[place] ^= bit
        after = model.fingerprint()
        bits[place] ^= bit
        yield f"{model.name} {name} byte {place} bit {bit}", before != after and model.fingerprint() == before


def tokenizer_changes(rng: np.random.Generator) -> Iterator[tuple[str, bool]]:
    """One leaf of the serialised tokenizer changed: a flag, a name, an id, an entry, the order of two merges."""
    while True:
        architecture = ("bert", "roberta", "xlm-roberta")[rng.integers(3)]
        network, tokenizer = tiny_model(architecture)
        model = load_model((network, tokenizer))
        before = model.fingerprint()
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        what = changed_leaf(rules, rng)
        try:
            edited = type(tokenizer.backend_tokenizer).from_str(json.dumps(rules))
        except Exception:
            continue
        if json.loads(edited.to_str()) == json.loads(tokenizer.backend_tokenizer.to_str()):
            continue  # a change that the library itself undoes
        tokenizer._tokenizer = edited
        yield f"{architecture} {what}", model.fingerprint() != before


def changed_leaf(rules: dict[str, object], rng: np.random.Generator) -> str:
    """Change one leaf of nested lists and objects in place; returns where."""
    parts = ["normalizer", "pre_tokenizer", "post_processor", "added_tokens", "model"]
    part = parts[rng.integers(len(parts))]
    places = list(leaves(rules[part], (part,)))
    if not places:
        places = list(leaves(rules["model"], ("model",)))
    path = places[rng.integers(len(places))]
    holder: object = rules
    for step in path[:-1]:
        holder = holder[step]  # type: ignore[index]
    value = holder[path[-1]]  # type: ignore[index]
    if isinstance(value, bool):
        changed: object = not value
    elif isinstance(value, (int, float)):
        changed = value + 1
    else:
        changed = f"{value}x"
    holder[path[-1]] = changed  # type: ignore[index]
    return "/".join(map(str, path))


def leaves(value: object, path: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
    """Paths of all flags, numbers and strings, but for the names of kinds."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name != "type":
                yield from leaves(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, (*path, number))
    elif value is not None:
        yield path


def function_changes(rng: np.random.Generator) -> Iterator[tuple[str, bool]]:
    """One constant or operator in a function's source changed."""
    while True:
        source = FUNCTIONS[rng.integers(len(FUNCTIONS))]
        tree = ast.parse(source)
        spots = [node for node in ast.walk(tree) if isinstance(node, (ast.Constant, ast.BinOp, ast.Compare))]
        edited = copy.deepcopy(tree)
        mirrored = [node for node in ast.walk(edited) if isinstance(node, (ast.Constant, ast.BinOp, ast.Compare))]
        node = mirrored[rng.integers(len(spots))]
        change_node(node, rng)
        prints = [load_model(built(one), labels=("a", "b")).fingerprint() for one in (tree, tree, edited)]
        yield f"line {node.lineno}: {ast.unparse(node)}", prints[0] == prints[1] != prints[2]


def change_node(node: ast.expr, rng: np.random.Generator) -> None:
    """Another constant, or another operator."""
    if isinstance(node, ast.Constant):
        number = float(node.value) if isinstance(node.value, (int, float)) else 0.0
        node.value = f"{node.value}x" if isinstance(node.value, str) else number + int(rng.integers(1, 9)) / 8
    elif isinstance(node, ast.BinOp):
        others: list[type[ast.operator]] = [ast.Add, ast.Sub, ast.Mult, ast.Mod]
        others = [kind for kind in others if kind is not type(node.op)]
        node.op = others[rng.integers(3)]()
    elif isinstance(node, ast.Compare):
        node.ops = [ast.NotIn() if isinstance(node.ops[0], ast.In) else ast.GtE()]


def built(tree: ast.Module) -> Callable[[list[str]], object]:
    """The function that a source defines."""
    names: dict[str, object] = {"__name__": "predicting"}
    exec(compile(tree, "predicting.py", "exec"), names)
    return names["predict"]  # type: ignore[return-value]


def seconds(gigabytes: float) -> dict[str, float]:
    """Of fingerprints of a large network, first and again, and beside explanations."""
    torch.manual_seed(0)
    size = int(gigabytes * 1e9 / 4 / 16)
    large = nn.ModuleList([nn.Linear(size // 1000, 1000, bias=False) for _ in range(16)])
    network, tokenizer = tiny_model("bert")
    nn.Module.add_module(network, "large", large)
    model = load_model((network, tokenizer))
    made = {}
    made[f"{gigabytes} GB: first fingerprint"] = timed(model.fingerprint, 1)
    made[f"{gigabytes} GB: again, nothing changed"] = timed(model.fingerprint, 3)
    next(large.parameters()).data.mul_(1.5)
    made[f"{gigabytes} GB: again, one matrix changed"] = timed(model.fingerprint, 1)
    del large, network, model
    words = tiny_tokenizer("bert")
    base = BertForSequenceClassification(BertConfig(vocab_size=len(words))).eval()
    wide = "BERT-base but for its word table"
    for name, given in (("embedded", load_model(device="cpu")), (wide, load_model((base, words)))):
        made[f"{name}: first fingerprint"] = timed(given.fingerprint, 1)
        made[f"{name}: fingerprint again"] = timed(given.fingerprint, 5)
        for method in ("attention", "occlusion", "integrated_gradients"):
            made[f"{name}: explain by {method}"] = timed(partial(explained, given, method), 2)
    return {name: round(value, 4) for name, value in made.items()}


def explained(model: object, method: str) -> object:
    """One text."""
    return didact.explain(TEXT, model, method, progress=False)


def timed(work: Callable[[], object], times: int) -> float:
    """Median seconds."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken))


if __name__ == "__main__":
    main()
