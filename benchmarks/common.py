"""What the benchmarks share: model and texts, fair timing, and the page of results."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from didact.models.eval_mode import quiet
from didact.render.markup import markdown_table
from didact.testing.tiny import TEXTS, tiny_tokenizer

SHARED = Path(os.environ.get("DIDACT_SHARED", "../shared"))
RESULTS = Path("docs/results")
LIBRARIES = (
    "didact",
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "onnxruntime",
    "captum",
    "lime",
    "shap",
    "interpreto",
)


@dataclass(frozen=True)
class Timing:
    """Seconds of one run."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Table:
    """One table of the results page."""

    caption: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str]


class Section(TypedDict):
    """One section of the results page."""

    command: str
    machine: str
    software: str
    text: str
    tables: list[TableFields]
    raw: object


class TableFields(TypedDict):
    """A ``Table`` as JSON."""

    caption: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str]


@dataclass
class Passes:
    """What went through a model inside ``watched``: rows, and CPU seconds in its forward passes."""

    rows: int = 0
    seconds: float = 0.0


def parser(description: str, examples: str) -> argparse.ArgumentParser:
    """Options that every benchmark has."""
    options = argparse.ArgumentParser(
        description=description, epilog=f"examples:\n{examples}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a small run that shows that everything works")
    options.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    options.add_argument("--threads", type=int, default=1, help="threads of the model (default 1: least disturbed)")
    options.add_argument(
        "--out", type=Path, help=f"folder for speed.md and speed.json (default {RESULTS}; none with --quick)"
    )
    return options


def prepare(threads: int) -> None:
    """Offline, so many threads everywhere, and no bars in the output."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(threads)
    with contextlib.suppress(ImportError):  # comes with the peers, and so does what it holds back
        importlib.import_module("threadpoolctl").threadpool_limits(threads)


def load_network() -> tuple[PreTrainedModel, PreTrainedTokenizerBase, str]:
    """The real MiniLM classifier where it is at hand, else a random one of the same shape; and which of them it is."""
    place = SHARED / "weights" / "minilm-sst2"
    if place.is_dir():
        with quiet():
            network = AutoModelForSequenceClassification.from_pretrained(place, local_files_only=True)
            tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
        network.name_or_path = "minilm-sst2"
        return network.eval(), tokenizer, "MiniLM (6 layers x 384, 12 heads) fine-tuned on SST-2, float32"
    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    torch.manual_seed(0)
    network = AutoModelForSequenceClassification.from_config(AutoConfig.for_model("bert", vocab_size=30522, **shape))
    return (
        network.eval(),
        tiny_tokenizer("bert"),
        "random BERT in the shape of MiniLM (6 layers x 384, 12 heads), float32",
    )


def load_texts(count: int, words: tuple[int, int] = (15, 18)) -> list[str]:
    """Texts of so many plain words, on whose words every library agrees: SST-2 sentences, else made-up ones."""
    rng = np.random.default_rng(0)
    place = SHARED / "data" / "sst2" / "test.jsonl.gz"
    if place.is_file():
        with gzip.open(place, "rt", encoding="utf-8") as lines:
            texts = [str(json.loads(line)["text"]) for line in lines]
        plain = [text for text in texts if _is_plain(text) and words[0] <= len(text.split()) <= words[1]]
        if len(plain) >= count:
            return [plain[i] for i in rng.permutation(len(plain))[:count]]
    known = sorted({word for text in TEXTS for word in text.split() if word.isalpha()})
    return [" ".join(rng.choice(known, rng.integers(words[0], words[1] + 1))) for _ in range(count)]


def load_long_texts(count: int, words: int = 230) -> list[str]:
    """Texts of about 250 tokens, joined from short ones."""
    parts = load_texts(count * (words // 15 + 1))
    per_text = len(parts) // count
    return [" ".join(" ".join(parts[i::count][:per_text]).split()[:words]) for i in range(count)]


def timed(work: Callable[[], object]) -> Timing:
    """Run once."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Timing(time.perf_counter() - wall, time.process_time() - cpu)


def clock(threads: int) -> str:
    """Which time to compare: with one thread CPU time, which other processes do not disturb."""
    return "cpu" if threads == 1 else "wall"


@contextlib.contextmanager
def watched(network: PreTrainedModel) -> Iterator[Passes]:
    """Count rows and time in the forward passes made inside."""
    passes = Passes()
    begun: list[float] = []

    def before(_: object, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        first = next(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
        passes.rows += len(first)
        begun.append(time.process_time())

    def after(*_: object) -> None:
        passes.seconds += time.process_time() - begun.pop()

    hooks = [network.register_forward_pre_hook(before, with_kwargs=True), network.register_forward_hook(after)]
    try:
        yield passes
    finally:
        for hook in hooks:
            hook.remove()


def middle(values: Sequence[float], digits: int = 2, unit: str = "") -> str:
    """Median with the range."""
    low, mid, high = min(values), statistics.median(values), max(values)
    return f"{mid:.{digits}f}{unit} ({low:.{digits}f}–{high:.{digits}f})"


def machine(threads: int, device: str = "cpu") -> dict[str, str]:
    """The machine and the software in neutral words."""
    installed = {}
    for library in LIBRARIES:
        try:
            installed[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            installed[library] = "from source" if library == "didact" else "not installed"
    versions = ", ".join(f"{name} {number}" for name, number in installed.items())
    cores = f"{os.cpu_count()} cores, {threads} of them used by the model"
    beside = "no GPU" if device == "cpu" else torch.cuda.get_device_name(device)
    return {
        "machine": f"{_processor()}, {cores}; {beside}; other work on it at the same time",
        "software": f"Python {platform.python_version()}, {versions}",
    }


def publish(section: str, text: str, tables: Sequence[Table], raw: object, args: argparse.Namespace) -> None:
    """Print the tables; unless it was a quick run without --out, put them into speed.json and write speed.md again."""
    print("\n".join(_lines(table) for table in tables))
    if args.out is None and args.quick:
        print("A quick run: nothing written (give --out for that).")
        return
    folder = args.out or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "speed.json"
    page = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    page[section] = {
        "command": f"python -m benchmarks.{section} {' '.join(_plain(sys.argv[1:]))}".strip(),
        **machine(args.threads, getattr(args, "device", "cpu")),
        "text": text,
        "tables": [asdict(table) for table in tables],
        "raw": raw,
    }
    place.write_text(json.dumps(page, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "speed.md").write_text(_page(page), encoding="utf-8")
    print(f"Written: {folder / 'speed.md'} and {place}")


def _page(page: dict[str, Section]) -> str:
    titles = {
        "planner": "The planner",
        "heads": "Attention heads",
        "metrics": "Grading",
        "peers": "Against other libraries",
        "startup": "Starting up",
        "report": "Reports",
        "l2e": "Learned explainers",
        "refine": "Refinement",
    }
    parts = [
        "# Speed",
        "Made by `make bench`; every section names its own command. The numbers are in `speed.json` too.",
    ]
    for section, title in titles.items():
        if section in page:
            result = page[section]
            parts += [
                f"## {title}",
                result["text"],
                f"`{result['command']}`  ",
                f"{result['machine']}.  ",
                f"{result['software']}.",
            ]
            parts += [_lines(Table(**table)) for table in result["tables"]]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _lines(table: Table) -> str:
    notes = ["", *(f"* {note}" for note in table.notes)] if table.notes else []
    return "\n".join(["", f"**{table.caption}**", "", markdown_table(table.columns, table.rows), *notes])


def _plain(arguments: Sequence[str]) -> list[str]:
    """Command line without --out, which would name a place of this machine."""
    kept = [part for part in arguments if not part.startswith("--out=")]
    if "--out" in kept:
        at = kept.index("--out")
        del kept[at : at + 2]
    return kept


def _is_plain(text: str) -> bool:
    return all(word.isascii() and word.isalpha() for word in text.removesuffix(".").split())


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return f"{platform.machine()} CPU ({line.partition(':')[2].strip()})"
    return f"{platform.machine()} CPU"
