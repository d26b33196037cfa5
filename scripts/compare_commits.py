"""Compares the results of a base commit with those of the working tree, number by number, on the same inputs.

    python scripts/compare_commits.py 1324482
    python scripts/compare_commits.py 1324482 --parts methods,l2e --json runs/compare.json
    python scripts/compare_commits.py --base-collected runs/base --tree-collected runs/now
    python scripts/compare_commits.py collect /path/to/checkout runs/base

Run it after a refactoring: every difference that it prints is either intended or a mistake. The parts:

    methods       every registered method on 20 texts and 4 models: the embedded model, a tiny random BERT, a tiny
                  random RoBERTa and a black box. Compared: units, scores, errors, details, prediction and target. A
                  method is called where the model has what it needs; an exception is compared by its type
    grading       recipes/grading/quick.toml of each tree: every record, without those of time and memory
    l2e           ``didact train l2e`` on the embedded model with a fixed seed: every tensor of the saved explainer
    simulability  recipes/simulability/quick.toml of each tree: every student's score on every test text, or why the
                  student was excluded; details of the training such as losses; overlap of the hints; metrics

Two numbers are equal when |a - b| <= tolerance * max(1, |a|, |b|): absolute up to 1, relative above. Texts, labels and
whole structures must be the same, and what only one side has is a difference. The exit status is 0 when everything is
equal and 1 otherwise; a part that cannot be computed is reported, and the other parts are still compared.

The base commit is checked out into a temporary git worktree. Its results are kept under --cache and used again as long
as the inputs of a part and the versions of the libraries are the same; the working tree is always computed anew, unless
--tree-collected is given. All computation runs on the CPU with one thread, in processes that import didact from the
tree in question. ``collect`` writes the results of one tree as OUT/PART.json, and the tiny models into OUT/models.

What depends on the code or on the files of a tree is in the last section, "adapters". When a tree gets a new file
layout, add a reader to READERS there; it has to return the same keys as the reader of the old layout.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import hashlib
import importlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Leaf: TypeAlias = float | str | bool | None
Value: TypeAlias = "Leaf | list[Value] | dict[str, Value]"
Items: TypeAlias = dict[str, Value]
"""Results of a part in the neutral form: a key such as "bert/lime/text 03/scores", and plain JSON."""

TOLERANCE = 1e-6
LIBRARIES = ("numpy", "scipy", "tokenizers", "torch", "transformers")

TEXTS = (
    "A [warm], [funny] and truly [wonderful] film.",
    "The plot is [dull], the acting [worse]: [avoid it].",
    "We watched it on a rainy evening in an old cinema.",
    "Good food and [good company], but the bill was [too high].",
    "I would [not recommend] this to anyone, ever.",
    "[Brilliant]!",
    "It isn't bad; it's [not good] either...",
    "An [unforgettable], [beautifully acted] drama about three sisters who don't talk.",
    "Two hours of my life that I'll [never get back].",
    "the camera never rests and the music never stops, which is [tiring], very [tiring], very [tiring] indeed",
    "Rated 3/10: the sound (5.1) was [fine], the story was [not].",
    "WHAT A [MESS]. Who paid for this?",
    "Café scenes, a naïve hero and a [clichéd] ending – 愛 nonetheless.",
    "  The   first half\tis [slow],\nthe second half [flies].  ",
    "Despite its [flaws], a [charming] little comedy with [real heart].",
    "[Bad] bad bad bad, and then suddenly [good].",
    "My sister [loved] it, my brother [hated] it, and I fell [asleep].",
    "The script, written by a committee and rewritten by another, [wastes] a [fine] cast on jokes that were old when "
    "cinema was young, and [never] finds a reason to be in the theatre rather than on a plane.",
    "[Great] actors, [great] score, [awful] editing.",
    "If you liked the first one, you will [like] this one; if not, [stay away].",
)
"""The explained texts; what stands in brackets is their human rationale, and the brackets are removed."""

SETTINGS: Mapping[str, Mapping[str, float]] = {
    "deep_shap": {"samples": 4},
    "gradient_shap": {"samples": 10},
    "integrated_gradients": {"steps": 20},
    "kernel_shap": {"evaluations": 100},
    "layer_conductance": {"steps": 10},
    "lime": {"samples": 100},
    "partition_shap": {"evaluations": 100},
    "reagent": {"rounds": 20},
    "sequential_integrated_gradients": {"steps": 3},
    "shapley_sampling": {"evaluations": 100},
    "smoothgrad": {"samples": 10},
    "solvex": {"beam": 2, "steps": 4, "candidates": 10},
}
"""Settings of the slow methods, lower than their defaults; the others run with their defaults."""

TRAINING: Mapping[str, int] = {"limit": 40, "epochs": 10, "width": 32, "seed": 0}
"""Options of ``didact train l2e``."""

TIMED = frozenset({"seconds", "break_even", "memory"})
"""Metrics of time and memory, which are different in every run."""

ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TOKENIZERS_PARALLELISM": "false",
}
"""What makes two runs of the same code comparable."""


def main() -> int:
    """Run one of the modes; without a mode's name, compare."""
    modes = {"collect": run_collect, "explain": run_explain}
    mode = modes.get(sys.argv[1]) if len(sys.argv) > 1 else None
    return mode(sys.argv[2:]) if mode is not None else run_compare(sys.argv[1:])


def run_compare(arguments: Sequence[str]) -> int:
    """Collect the results of both trees, compare them, and print and write the report."""
    options = _compare_options(arguments)
    folder = options.base_collected or _collect_base(options)
    base = {part: read_items(folder, part) for part in options.parts}
    with tempfile.TemporaryDirectory() as scratch:
        now = options.tree_collected or Path(scratch)
        failed = collect(options.tree, now, options.parts, models=folder / "models")
        reports = [
            Report(part, failed=True)
            if part in failed
            else compare(part, base[part], read_items(now, part), options.tolerance, options.ignore)
            for part in options.parts
        ]
    _publish(reports, options)
    return 0 if all(report.equal for report in reports) else 1


def _publish(reports: Sequence[Report], options: argparse.Namespace) -> None:
    for report in reports:
        print_report(report, options.lines)
    print_summary(reports, options.tolerance)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(as_json(reports, options.tolerance), encoding="utf-8")
        print(options.json)


def run_collect(arguments: Sequence[str]) -> int:
    """Write the results of one tree into a folder."""
    parser = argparse.ArgumentParser(prog="compare_commits.py collect", description=run_collect.__doc__)
    parser.add_argument("tree", type=Path, metavar="TREE", help="a checkout of the repository")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of the results; parts that it has are kept")
    _add_parts(parser)
    parser.add_argument("--models", type=Path, metavar="DIR", help="the tiny models; built when absent (OUT/models)")
    options = parser.parse_args(arguments)
    failed = collect(options.tree, options.out, options.parts, models=options.models or options.out / "models")
    return 1 if failed else 0


def run_explain(arguments: Sequence[str]) -> int:
    """The process that explains with the didact that PYTHONPATH names; ``collect`` starts it."""
    models, out = map(Path, arguments)
    out.write_text(json.dumps(explain_all(models)), encoding="utf-8")
    return 0


def _compare_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    home = Path(__file__).resolve().parents[1]
    parser.add_argument("base", nargs="?", metavar="BASE_COMMIT", help="the commit to compare with")
    _add_parts(parser)
    parser.add_argument("--tree", type=Path, default=home, metavar="DIR", help="the working tree (default: this one)")
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="results of base commits (default: TREE/runs/compare)"
    )
    parser.add_argument("--base-collected", type=Path, metavar="DIR", help="results of the base instead of a commit")
    parser.add_argument(
        "--tree-collected", type=Path, metavar="DIR", help="results of the tree; missing parts are added"
    )
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help=f"default: {TOLERANCE:g}")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="PATTERN", help="keys left out; may be repeated"
    )
    parser.add_argument("--lines", type=int, default=20, metavar="N", help="lines per list in the report (default: 20)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON, with all lines")
    options = parser.parse_args(arguments)
    if (options.base is None) == (options.base_collected is None):
        parser.error("give either BASE_COMMIT or --base-collected")
    return options


def _add_parts(parser: argparse.ArgumentParser) -> None:
    known = ",".join(COLLECTORS)
    parser.add_argument("--parts", type=_parts, default=list(COLLECTORS), metavar="A,B", help=f"default: {known}")


def _parts(given: str) -> list[str]:
    parts = [part.strip() for part in given.split(",") if part.strip()]
    unknown = sorted(set(parts) - COLLECTORS.keys())
    if unknown or not parts:
        raise argparse.ArgumentTypeError(f"unknown part {', '.join(unknown)!r}; allowed: {', '.join(COLLECTORS)}")
    return parts


# -------------------------------------------------------------------------------------------------------- collecting


@dataclass(frozen=True)
class Job:
    """Where the results of a tree are computed.

    Attributes:
        tree: the checkout.
        models: folder of the tiny models.
        scratch: folder for the files of a run, removed afterwards.
        log: file for the output of the processes.
    """

    tree: Path
    models: Path
    scratch: Path
    log: Path


class CollectError(Exception):
    """A part that a tree cannot compute, with the end of its output."""


def collect(tree: Path, out: Path, parts: Sequence[str], *, models: Path) -> list[str]:
    """Compute the parts that ``out`` does not have yet, each in processes of its own; the failed parts are returned."""
    missing = [part for part in parts if not _is_collected(out, part)]
    if missing:
        _check_import(tree.resolve())
        out.mkdir(parents=True, exist_ok=True)
    failed = []
    for part in missing:
        try:
            _collect_part(part, tree.resolve(), out.resolve(), models.resolve())
        except CollectError as problem:
            _say(f"{part} of {tree} FAILED\n{problem}")
            failed.append(part)
    return failed


def _collect_part(part: str, tree: Path, out: Path, models: Path) -> None:
    _say(f"{part} of {tree}")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        items = COLLECTORS[part](Job(tree, models, Path(scratch), out / f"{part}.log"))
    seconds = round(time.perf_counter() - began, 1)
    result = {"part": part, "inputs": _inputs_hash(part), "seconds": seconds, "items": items}
    (out / f"{part}.json").write_text(json.dumps(result), encoding="utf-8")
    _say(f"{part}: {len(items):,} items in {seconds:.0f} s")


def read_items(folder: Path, part: str) -> Items:
    """The collected results of a part; refused where they were computed from other inputs."""
    path = folder / f"{part}.json"
    if not path.is_file():
        sys.exit(f"{path} does not exist; write it with: compare_commits.py collect TREE {folder} --parts {part}")
    result = json.loads(path.read_text(encoding="utf-8"))
    if result["inputs"] != _inputs_hash(part):
        sys.exit(f"{path} was computed from other inputs or with other library versions; delete it and run again")
    items: Items = result["items"]
    return items


def _collect_base(options: argparse.Namespace) -> Path:
    """The folder with the results of the base commit, from the cache or computed now."""
    commit = _git(options.tree, "rev-parse", "--verify", f"{options.base}^{{commit}}")
    out: Path = (options.cache or options.tree / "runs" / "compare") / commit
    if all(_is_collected(out, part) for part in options.parts):
        _say(f"results of {options.base} are taken from {out}")
        return out
    with worktree(options.tree, commit) as tree:
        collect(tree, out, options.parts, models=out / "models")
    return out


@contextmanager
def worktree(repository: Path, commit: str) -> Iterator[Path]:
    """A temporary checkout of a commit."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "base"
        _git(repository, "worktree", "add", "--detach", str(place), commit)
        try:
            yield place
        finally:
            _git(repository, "worktree", "remove", "--force", str(place))


def _is_collected(folder: Path, part: str) -> bool:
    path = folder / f"{part}.json"
    return path.is_file() and bool(json.loads(path.read_text(encoding="utf-8"))["inputs"] == _inputs_hash(part))


def _inputs_hash(part: str) -> str:
    """Hash of what decides the results besides the code of the tree."""
    inputs = {"methods": [TEXTS, SETTINGS], "l2e": [TRAINING]}.get(part, [])
    text = json.dumps([inputs, [version(library) for library in LIBRARIES]], sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _check_import(tree: Path) -> None:
    """Refuse a tree whose code would not be the code that runs."""
    source = "import didact; print(didact.__file__)"
    used = subprocess.run(
        [sys.executable, "-c", source], env=_environment(tree), cwd="/", check=True, capture_output=True, text=True
    )
    if not Path(used.stdout.strip()).resolve().is_relative_to(tree):
        sys.exit(f"didact would be imported from {used.stdout.strip()}, which is not inside {tree}")


def _environment(tree: Path) -> dict[str, str]:
    return os.environ | ENVIRONMENT | {"PYTHONPATH": str(tree / "src")}


def _execute(job: Job, arguments: Sequence[str], *, echo: bool = False) -> None:
    """Run Python on a tree's code; its output goes into the log, and with ``echo`` also to the terminal."""
    command = [sys.executable, *arguments]
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "encoding": "utf-8"}
    with (
        job.log.open("w", encoding="utf-8") as log,
        subprocess.Popen(command, env=_environment(job.tree), cwd=job.scratch, **streams) as process,
    ):
        for line in process.stdout or ():
            log.write(line)
            if echo:
                print(line, end="", flush=True)
    if process.returncode:
        end = job.log.read_text(encoding="utf-8")[-2000:]
        raise CollectError(f"{end}\nexit status {process.returncode} of: {' '.join(command)}")


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def _say(line: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {line}", flush=True)


# --------------------------------------------------------------------------------------------------------- comparing


@dataclass
class Report:
    """The outcome of comparing one part.

    Attributes:
        part: its name.
        numbers: how many numbers were compared.
        others: how many other values were compared (texts, labels, truth values, nulls).
        largest: the largest difference |a - b| / max(1, |a|, |b|) of two numbers.
        largest_at: the key of that number.
        differing: a line per value that differs.
        only_base: keys that only the base has.
        only_tree: keys that only the working tree has.
        ignored: how many keys were left out on request.
        failed: whether the working tree could not compute the part.
    """

    part: str
    numbers: int = 0
    others: int = 0
    largest: float = 0.0
    largest_at: str = ""
    differing: list[str] = field(default_factory=list)
    only_base: list[str] = field(default_factory=list)
    only_tree: list[str] = field(default_factory=list)
    ignored: int = 0
    failed: bool = False

    @property
    def equal(self) -> bool:
        """Whether something was compared and nothing differs."""
        compared = self.numbers + self.others > 0
        return compared and not (self.failed or self.differing or self.only_base or self.only_tree)


def compare(part: str, base: Items, tree: Items, tolerance: float, ignore: Sequence[str] = ()) -> Report:
    """Compare the items of a part key by key; keys that match a pattern of ``ignore`` are left out."""
    report = Report(part)
    for key in dict.fromkeys([*base, *tree]):
        if any(fnmatch.fnmatchcase(key, pattern) for pattern in ignore):
            report.ignored += 1
        elif key not in tree:
            report.only_base.append(key)
        elif key not in base:
            report.only_tree.append(key)
        else:
            _compare_values(report, dict(leaves(base[key], key)), dict(leaves(tree[key], key)), tolerance)
    return report


def leaves(value: Value, key: str) -> Iterator[tuple[str, Leaf]]:
    """The plain values inside a value, each with its key; an empty list or mapping has none."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{key}/{name}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{key}[{number}]")
    else:
        yield key, value


def difference(a: float, b: float) -> float:
    """|a - b| / max(1, |a|, |b|); 0 for two NaNs or equal infinities, infinite for one of them."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(1.0, abs(a), abs(b))


def _compare_values(report: Report, base: Mapping[str, Leaf], tree: Mapping[str, Leaf], tolerance: float) -> None:
    report.only_base += [key for key in base if key not in tree]
    report.only_tree += [key for key in tree if key not in base]
    for key in (key for key in base if key in tree):
        a, b = base[key], tree[key]
        if _is_number(a) and _is_number(b):
            _compare_numbers(report, key, a, b, tolerance)
            continue
        report.others += 1
        if a != b or type(a) is not type(b):
            report.differing.append(f"{key}: base {a!r}, tree {b!r}")


def _compare_numbers(report: Report, key: str, a: float, b: float, tolerance: float) -> None:
    report.numbers += 1
    distance = difference(a, b)
    if distance > report.largest:
        report.largest, report.largest_at = distance, key
    if distance > tolerance:
        report.differing.append(f"{key}: base {a!r}, tree {b!r}, difference {distance:.3g}")


def _is_number(value: Leaf) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def print_report(report: Report, lines: int) -> None:
    """Every difference of a part, at most ``lines`` of each sort."""
    sorts = {"differ": report.differing, "only in the base": report.only_base, "only in the tree": report.only_tree}
    for sort, entries in sorts.items():
        if entries:
            print(f"\n{report.part}: {len(entries):,} {sort}")
            print("\n".join(f"  {entry}" for entry in entries[:lines]))
            if len(entries) > lines:
                print(f"  ... and {len(entries) - lines:,} more")


def print_summary(reports: Sequence[Report], tolerance: float) -> None:
    """A line per part, where the largest differences are, and the verdict."""
    print(f"\n{'part':<13}{'numbers':>11}{'others':>9}{'largest':>11}{'differ':>8}{'one side':>10}{'ignored':>9}")
    for report in reports:
        sides = len(report.only_base) + len(report.only_tree)
        counts = f"{report.numbers:>11,}{report.others:>9,}{report.largest:>11.2g}{len(report.differing):>8,}"
        print(f"{report.part:<13}{counts}{sides:>10,}{report.ignored:>9,}{'  FAILED' if report.failed else ''}")
    for report in reports:
        if report.largest_at:
            print(f"largest difference of {report.part}: {report.largest_at}")
    verdict = "EQUAL" if all(report.equal for report in reports) else "NOT EQUAL"
    print(f"{verdict}: |a - b| <= {tolerance:g} * max(1, |a|, |b|)")


def as_json(reports: Sequence[Report], tolerance: float) -> str:
    """The reports as JSON text, with every line."""
    parts = [{"equal": report.equal, **dataclasses.asdict(report)} for report in reports]
    for part in parts:
        part["largest"] = part["largest"] if math.isfinite(part["largest"]) else "infinite"  # JSON has no infinity
    whole = {"equal": all(report.equal for report in reports), "tolerance": tolerance, "parts": parts}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


# ------------------------------------------------------------------------------------------------------------ inputs


def marked_texts() -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Each text without brackets, and the characters that stood in them."""
    for marked in TEXTS:
        text, marks = "", []
        for number, piece in enumerate(re.split(r"[\[\]]", marked)):
            if number % 2:
                marks.append((len(text), len(text) + len(piece)))
            text += piece
        yield text, marks


def black_box(texts: list[str]) -> NDArray[np.float64]:
    """Probabilities of three classes, decided by the words of a text and by which words are neighbours."""
    rows = np.zeros((len(texts), 3))
    for row, text in zip(rows, texts, strict=True):
        words = re.findall(r"\w+", text.lower())
        for label in range(3):
            terms = [*words, *map("".join, pairwise(words))]
            row[label] = sum(zlib.crc32(f"{label} {term}".encode()) % 2001 - 1000 for term in terms) / 1500
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def build_models(folder: Path) -> None:
    """Write the tiny models with their tokenizers; those that exist are kept, since both trees must read the same."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    for architecture in ("bert", "roberta"):
        place = folder / architecture
        if not (place / "tokenizer.json").is_file():
            tokenizer = _tokenizer(architecture)
            _network(architecture, tokenizer).save_pretrained(place)
            tokenizer.save_pretrained(place)


def _network(architecture: str, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """A classifier whose random weights are large enough that its answers differ between texts."""
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    names = ("negative", "neutral", "positive")
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
    limits = {"max_position_embeddings": 130, "type_vocab_size": 2 if architecture == "bert" else 1}
    config = AutoConfig.for_model(architecture, **sizes, **limits, **labels, **special, vocab_size=len(tokenizer))
    network = AutoModelForSequenceClassification.from_config(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            centre = 1.0 if name.endswith("LayerNorm.weight") else 0.0
            weight.copy_(centre + 0.3 * torch.randn(weight.shape, generator=generator))
    return cast("PreTrainedModel", network)


def _tokenizer(architecture: str) -> PreTrainedTokenizerBase:
    """WordPiece for BERT and byte-level BPE for RoBERTa, from the words of half of the texts: the others are split."""
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    names = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "bos": "<s>", "eos": "</s>", "mask": "<mask>"}
    special = list(dict.fromkeys(names.values()))
    words = [word for text, _ in list(marked_texts())[::2] for word in re.findall(r"[a-z]+", text.lower())]
    inner = _wordpiece(special, words) if architecture == "bert" else _byte_level(special, words)
    ends = [(token, inner.token_to_id(token)) for token in ("<s>", "</s>")]
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=ends
    )
    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if architecture == "bert" else [])]
    tokens = {f"{name}_token": token for name, token in names.items()}
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=128, model_input_names=inputs, **tokens)


def _wordpiece(special: list[str], words: list[str]) -> Tokenizer:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    characters = [chr(number) for number in range(33, 127)]
    pieces = [*special, *characters, *(f"##{character}" for character in characters), *words]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _byte_level(special: list[str], words: list[str]) -> Tokenizer:
    """Merges are written down rather than trained: the trainer resolves ties differently in every process."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    spaced = [f"Ġ{word}" for word in words]
    merges = list(dict.fromkeys((word[:end], word[end]) for word in spaced for end in range(1, len(word))))
    pieces = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges)]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


# ---------------------------------------------------------------------------------------------------------- adapters
# From here on the code knows the public functions, the command line and the files of didact. Each function reads what
# one tree has into the neutral form; where trees differ, it accepts either.


def collect_methods(job: Job) -> Items:
    """Explanations by every method, computed in another process; see ``explain_all``."""
    build_models(job.models)
    out = job.scratch / "items.json"
    _execute(job, [str(Path(__file__).resolve()), "explain", str(job.models), str(out)], echo=True)
    items: Items = json.loads(out.read_text(encoding="utf-8"))
    return items


def collect_grading(job: Job) -> Items:
    """The records of the quick grading recipe."""
    recipe = job.tree / "recipes" / "grading" / "quick.toml"
    _execute(job, ["-m", "didact", "run", str(recipe), "--out", str(job.scratch / "run")])
    return read_run("grading", job.scratch / "run")


def collect_l2e(job: Job) -> Items:
    """The tensors of a trained explainer."""
    options = [word for name, value in TRAINING.items() for word in (f"--{name}", str(value))]
    _execute(job, ["-m", "didact", "train", "l2e", *options, "--out", str(job.scratch / "run")])
    return read_run("l2e", job.scratch / "run")


def collect_simulability(job: Job) -> Items:
    """The students of the quick simulability recipe."""
    recipe = job.tree / "recipes" / "simulability" / "quick.toml"
    _execute(job, ["-m", "didact", "run", str(recipe), "--out", str(job.scratch / "run")])
    return read_run("simulability", job.scratch / "run")


COLLECTORS: Mapping[str, Callable[[Job], Items]] = {
    "methods": collect_methods,
    "grading": collect_grading,
    "l2e": collect_l2e,
    "simulability": collect_simulability,
}


def read_run(part: str, run: Path) -> Items:
    """What a run wrote, by the first reader whose file it has."""
    there = ", ".join(sorted(path.name for path in run.iterdir()))
    for file, reader in READERS[part].items():
        if (run / file).is_file():
            try:
                return reader(run)
            except (KeyError, OSError) as problem:
                raise CollectError(f"{reader.__name__} does not fit a run with {there}: {problem!r}") from problem
    raise CollectError(f"no reader of {part} fits a run with {there}; add one to READERS in {__file__}")


def read_records(run: Path) -> Items:
    """A key per explainer, method, seed, null, metric and part of a metric; in it the value of every example."""
    items: dict[str, dict[str, Value]] = {}
    for row in _rows(run / "records.parquet"):
        if row["metric"] not in TIMED:
            names = [row["explainer"], row["method"], f"seed {row['seed']}", row["null"], row["metric"], row["part"]]
            items.setdefault("/".join(name or "-" for name in names), {})[row["example"]] = row["value"]
    return dict(items)


def read_weights(run: Path) -> Items:
    """A key per tensor."""
    from safetensors.numpy import load_file

    return {name: tensor.tolist() for name, tensor in load_file(run / "model.safetensors").items()}


def read_students(run: Path) -> Items:
    """Students from students.parquet, training details from the parts, and extras.json."""
    items: Items = {}
    for row in _rows(run / "students.parquet"):
        names = (row["student"], row["channel"], f"size {row['size']}", row["method"], f"subset {row['subset']}")
        items["/".join(names)] = {name: row[name] for name in ("control", "scores", "answers", "trouble")}
    return items | _beside_students(run)


def read_student_records(run: Path) -> Items:
    """The same from records.parquet, where students without explanations stand once and not under every channel."""
    scores: dict[tuple[str, str, int, str, int], list[dict[str, Any]]] = {}
    for row in _rows(run / "records.parquet"):
        if row["student"] and not row["part"]:
            key = (row["student"], row["channel"] or "", row["size"], row["explainer"], row["seed"])
            scores.setdefault(key, []).append(row)
    reached = {student: [other[1] for other in scores if other[0] == student and other[1]] for student, *_ in scores}
    items: Items = {}
    for (student, channel, size, method, subset), rows in scores.items():
        failure = rows[0]["failure"] or None
        value: Value = {
            "control": bool(rows[0]["null"]),
            "scores": None if failure else [row["value"] for row in rows],
            "answers": None,
            "trouble": failure,
        }
        for name in dict.fromkeys([channel] if channel else reached[student]):
            items["/".join((student, name, f"size {size}", method, f"subset {subset}"))] = value
    return items | _beside_students(run)


def _beside_students(run: Path) -> Items:
    items = _training_details(run / "parts")
    extras = json.loads((run / "extras.json").read_text(encoding="utf-8"))
    names, matrix = extras["overlap"]["names"], extras["overlap"]["matrix"]
    overlap = {first: dict(zip(names, row, strict=True)) for first, row in zip(names, matrix, strict=True)}
    metrics = {name: metric["values"] for name, metric in extras["metrics"].items()}
    return items | {"extras/overlap": overlap, "extras/metrics": metrics}


def _training_details(parts: Path) -> Items:
    """Per name of a detail ("last_loss") the values of all students, sorted: parts do not name their student."""
    import pyarrow.parquet as pq

    values: dict[str, list[float]] = {}
    for path in parts.rglob("*.parquet"):
        outcome = (pq.read_schema(path).metadata or {}).get(b"didact.outcome")
        for name, value in (json.loads(outcome)["details"] if outcome else {}).items():
            values.setdefault(name, []).append(value)
    return {f"training/{name}": list(map(float, sorted(some))) for name, some in sorted(values.items())}


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


READERS: Mapping[str, Mapping[str, Callable[[Path], Items]]] = {
    "grading": {"records.parquet": read_records},
    "l2e": {"model.safetensors": read_weights},
    "simulability": {"students.parquet": read_students, "records.parquet": read_student_records},
}
"""Part -> a file that tells the layout of a run -> the reader of that layout."""


def explain_all(folder: Path) -> Items:
    """Explain all texts with every method and model, with the didact of this process."""
    didact: Any = importlib.import_module("didact")
    examples = [_example(didact, text, marks) for text, marks in marked_texts()]
    items: Items = {"registered methods": sorted(card.name for card in didact.list_methods())}
    for name, source in {"default": "default", "bert": folder / "bert", "roberta": folder / "roberta"}.items():
        items |= _explain_model(didact, name, didact.load_model(str(source)), examples)
    labels = ("negative", "neutral", "positive")
    return items | _explain_model(didact, "blackbox", didact.load_model(black_box, labels=labels), examples)


def _example(didact: Any, text: str, marks: Sequence[tuple[int, int]]) -> Any:
    """An example with a human rationale, built without naming the field that holds its text."""
    rationale = tuple(didact.Span(start, end) for start, end in marks)
    return dataclasses.replace(didact.Example.of(text), rationale=rationale)


def _explain_model(didact: Any, name: str, model: Any, examples: list[Any]) -> Items:
    items: Items = {}
    for card in didact.list_methods(model, examples[0]):
        began = time.perf_counter()
        settings = SETTINGS.get(card.name, {})
        try:
            explanations = didact.explain(examples, model, card.name, progress=False, **settings)
        except Exception as problem:  # the other tree must raise it too
            items[f"{name}/{card.name}/raised"] = type(problem).__name__
            _say(f"{name}: {card.name} raised {problem!r:.200}")
            continue
        for number, explanation in enumerate(explanations):
            for what, value in explanation_items(explanation).items():
                items[f"{name}/{card.name}/text {number:02}/{what}"] = value
        _say(f"{name}: {card.name} {time.perf_counter() - began:.1f} s")
    return items


def explanation_items(explanation: Any) -> Items:
    """Units, scores, errors, details, prediction and target of an explanation."""
    units = explanation.units
    regions = units.regions if hasattr(units, "regions") else units.spans  # spans were the name before images
    return {
        "units": [[region.start, region.end, region.field] for region in regions],
        "scores": list(map(float, explanation.scores)),
        "errors": list(map(float, explanation.errors)),
        "details": {name: float(value) for name, value in explanation.details.items()},
        "prediction": _attributes(explanation.prediction, ("labels", "outputs", "probabilities")),
        "target": _attributes(explanation.target, ("index", "label", "scale")),
    }


def _attributes(owner: Any, names: Sequence[str]) -> dict[str, Value]:
    """The attributes that there are, as plain values."""
    values = {name: getattr(owner, name) for name in names if hasattr(owner, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


if __name__ == "__main__":
    sys.exit(main())
