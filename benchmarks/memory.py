"""Peak memory of every registered method on a text of 512 tokens, with a network in the shape of BERT-base.

Each method runs at default settings in a process of its own, on the CPU with one thread. A method that takes longer
than the limit is stopped there, and two further figures say what the rest would have taken: the peak when it was half
way to where it was stopped, and what its whole budget takes besides the network's own memory, measured with a network
of one narrow layer on the same text.

Examples:
    python -m benchmarks.memory
    python -m benchmarks.memory --methods lime,decompx --limit 300    # measures these again, keeps the other rows
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from didact.api import list_methods, load_explainer
from didact.errors import DidactError
from didact.meter import metered
from didact.models.compose import compose
from didact.models.estimate import estimate, measure
from didact.models.network import NetworkModel
from didact.progress import listening
from didact.provenance import versions
from didact.testing.tiny import TEXTS, tiny_tokenizer
from didact.types import Example

TOKENS = 512
BAR = 4.0
"""Gigabytes that no method may exceed."""

Network = Literal["base", "narrow"]
SHAPES: dict[Network, dict[str, int]] = {
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "narrow": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16},
}


@dataclass(frozen=True)
class Run:
    """One method in one process.

    Attributes:
        before: peak after a plain prediction, in gigabytes.
        half: peak when half of the evaluations were done.
        peak: peak in the end.
        evaluated: rows that went through the network.
        whole: whether it ran to its end.
        seconds: time it took.
        dry_run: seconds and gigabytes that a dry run estimates.
    """

    before: float
    half: float
    peak: float
    evaluated: int
    whole: bool
    seconds: float
    dry_run: tuple[float, float]


class Row(TypedDict):
    """Both runs of one method; the second only where the first was stopped."""

    base: Run
    narrow: Run | None
    limit: NotRequired[float]


class TimeUpError(Exception):
    """The time is up."""


class Watch:
    """Listens to the progress: how much memory was taken by then, and whether the time is up."""

    def __init__(self, limit: float) -> None:
        self.end = time.perf_counter() + limit
        self.history: list[tuple[int, float]] = [(0, peak())]

    def start(self, what: str, total: int) -> None:
        """Nothing to do."""

    def advance(self, steps: int) -> None:
        """Note the peak so far."""
        self.history.append((self.history[-1][0] + steps, peak()))
        if time.perf_counter() > self.end:
            raise TimeUpError

    def stop(self) -> None:
        """Nothing to do."""

    @property
    def half(self) -> float:
        """The peak when half of the rows were done."""
        done = self.history[-1][0]
        return next(taken for rows, taken in self.history if 2 * rows >= done)


def main() -> None:
    """Measure method by method and write docs/results/memory.{json,md}."""
    options = _options()
    if options.one is not None:
        print(json.dumps(asdict(run(options.one, options.network, options.limit))))
        return
    names = [card.name for card in list_methods() if card.name != "human"]
    chosen = options.methods.split(",") if options.methods else names
    options.out.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        base = _apart(name, "base", options.limit)
        narrow = None if base.whole else _apart(name, "narrow", 3600.0)
        row = Row(base=base, narrow=narrow, limit=options.limit)
        print(_row(name, row), flush=True)
        _add(options.out, name, row, names)


def run(name: str, network: Network, limit: float) -> Run:
    """Explain the text here and now."""
    torch.set_num_threads(1)
    model, example = load(network)
    explainer = load_explainer(name)
    (units,) = model.units([example])
    model.predict([example])
    watch, before, whole = Watch(limit), peak(), True
    with listening(watch), metered() as meter:
        try:
            explainer.explain(model, [example])
        except TimeUpError:
            whole = False
    evaluated, most = meter.evaluated if whole else watch.history[-1][0], peak()
    dry = estimate(model, [units], explainer, measure(model, units))
    return Run(before, watch.half, most, evaluated, whole, meter.seconds, (dry.seconds, (dry.memory or 0) / 1e9))


def load(network: Network) -> tuple[NetworkModel, Example]:
    """A random network and a text that is as long as it can read, every token a word of its own."""
    tokenizer = tiny_tokenizer("bert")
    tokenizer.model_max_length = TOKENS
    torch.manual_seed(0)
    config = AutoConfig.for_model("bert", vocab_size=30522, pad_token_id=tokenizer.pad_token_id, **SHAPES[network])
    model = compose(AutoModelForSequenceClassification.from_config(config).eval(), tokenizer)
    words = [word for text in TEXTS for word in text.split() if word.isalpha()]
    example = Example(" ".join((words * TOKENS)[: TOKENS - 2]))
    (units,) = model.units([example])
    if len(units) != TOKENS - 2:
        raise DidactError(f"the text has {len(units)} words, not {TOKENS - 2}")
    return model, example


def peak() -> float:
    """The most memory that this process ever held, in gigabytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", help="comma-separated (default: all)")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds per method (default 30)")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--network", choices=list(SHAPES), default="base", help=argparse.SUPPRESS)
    return parser.parse_args()


def _apart(name: str, network: Network, limit: float) -> Run:
    """Run a method in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--one", name, "--network", network, "--limit", str(limit)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Run(**json.loads(done.stdout))


def _add(folder: Path, name: str, row: Row, order: list[str]) -> None:
    """Add a row to the record that the folder holds, and write the page again."""
    place = folder / "memory.json"
    written = json.loads(place.read_text(encoding="utf-8"))["methods"] if place.exists() else {}
    known = {method: _row_of(**fields) for method, fields in written.items()} | {name: row}
    rows = {method: known[method] for method in order if method in known}
    record = {
        "tokens": TOKENS,
        "bar": BAR,
        "shape": SHAPES["base"],
        "versions": versions(),
        "methods": rows,
    }
    place.write_text(json.dumps(record, indent=2, default=asdict) + "\n", encoding="utf-8")
    (folder / "memory.md").write_text(_page(rows), encoding="utf-8")


def _row_of(base: dict[str, Any], narrow: dict[str, Any] | None, **limit: float) -> Row:
    """A row from JSON."""
    row = Row(base=Run(**base), narrow=None if narrow is None else Run(**narrow))
    return {**row, "limit": limit["limit"]} if limit else row


def _page(rows: dict[str, Row]) -> str:
    shape = SHAPES["base"]
    worst = max(rows.values(), key=_most)
    used = ", ".join(f"{name} {version}" for name, version in versions().items())
    lines = [
        "# Memory that methods take",
        "",
        f"Peak resident memory of one process that explains one text of {TOKENS} tokens "
        f"({TOKENS - 2} words of one token each) at default settings with a random BERT of "
        f"{shape['num_hidden_layers']} layers x {shape['hidden_size']}, float32, on the CPU with one thread: Python, "
        "torch and the weights included. "
        f"Bar: {BAR:.0f} GB; the most is {_most(worst):.2f} GB. Made by `python -m benchmarks.memory`.",
        "",
        "A method that takes longer than a limit is stopped there; *seconds* and *evaluations* then say how far it "
        "came, of how many. Batches hold the same number of tokens all the way, so its peak does not depend on "
        "how many follow: *at half* is the peak when half of these evaluations were done. What grows with the whole "
        "budget are the method's own arrays, its masks and values; *own arrays* is how much the peak rises over that "
        "of a plain prediction when the whole budget runs on the same text with a network of one layer x "
        f"{SHAPES['narrow']['hidden_size']}, and *peak* counts it on top. Other work ran on the "
        "machine at the same time, which stretches all seconds, those of the dry run too.",
        "",
        "| method | peak, GB | at half, GB | own arrays, GB | evaluations | seconds | dry run: GB | dry run: seconds |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(name, row) for name, row in rows.items()),
        "",
        f"{used}.",
        "",
    ]
    return "\n".join(lines)


def _row(name: str, row: Row) -> str:
    base, narrow = row["base"], row["narrow"]
    count = f"{base.evaluated:,}" + (f" of {narrow.evaluated:,}" if narrow else "")
    own = f"{narrow.peak - narrow.before:.2f}" if narrow else "–"
    seconds = f"{base.seconds:.1f}" if base.whole else f"> {base.seconds:.0f}"
    dry_seconds, memory = base.dry_run
    half = "–" if base.whole else f"{base.half:.2f}"
    cells = [name, f"**{_most(row):.2f}**", half, own, count, seconds, f"{memory:.2f}", f"{dry_seconds:.1f}"]
    return f"| {' | '.join(cells)} |"


def _most(row: Row) -> float:
    base, narrow = row["base"], row["narrow"]
    return base.peak + (narrow.peak - narrow.before if narrow else 0.0)


if __name__ == "__main__":
    main()
