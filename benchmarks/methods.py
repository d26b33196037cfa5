"""Seconds per explanation of every registered method, on a short and a long text, with the embedded model.

The table of methods in the docs takes its times from here. CPU time of one thread, which other work on the machine
disturbs least, best of a few runs, default settings.

Examples:
    python -m benchmarks.methods
    python -m benchmarks.methods --methods lime,kernel_shap --rounds 5    # measures these again, keeps the other rows
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import torch

from didact.api import list_methods, load_explainer, load_model
from didact.data.corpus import generate
from didact.protocols import Model
from didact.provenance import versions
from didact.types import Example

LONG = 250
"""Tokens of the long text, about."""


def main() -> None:
    """Measure and write docs/results/methods.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", help="comma-separated (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = load_model(device="cpu")
    texts = {"short": short_text(), "long": long_text(model)}
    tokens = {name: model.units([example], "token")[0] for name, example in texts.items()}
    every = [card.name for card in list_methods(model)]
    names = options.methods.split(",") if options.methods else every
    place = options.out / "methods.json"
    measured = json.loads(place.read_text(encoding="utf-8"))["seconds"] if options.methods and place.exists() else {}
    record: dict[str, object] = {
        "tokens": {name: len(units) for name, units in tokens.items()},
        "rounds": options.rounds,
        "machine": f"{platform.machine()} CPU, one thread",
        "versions": versions(),
        "seconds": {},
    }
    options.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        row = {kind: seconds(name, model, example, options.rounds) for kind, example in texts.items()}
        print(f"{name:34}" + "  ".join(f"{kind} {value:8.3f} s" for kind, value in row.items()), flush=True)
        measured[name] = row
        record["seconds"] = {name: measured[name] for name in every if name in measured}
        place.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def seconds(name: str, model: Model, example: Example, rounds: int) -> float:
    """The best of some runs; a run over ten seconds is not repeated."""
    explainer = load_explainer(name)
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        explainer.explain(model, [example])
        best = min(best, time.process_time() - start)
        if best > 10:
            break
    return best


def short_text() -> Example:
    """A generated review of about twenty tokens."""
    return next(example for example in generate(50) if 16 <= len(example.text.split()) <= 18)


def long_text(model: Model) -> Example:
    """Generated reviews in a row, about LONG tokens, with the first one's rationale."""
    reviews = generate(50)
    text = reviews[0].text
    for review in reviews[1:]:
        if len(model.units([Example(text)], "token")[0]) >= LONG:
            break
        text = f"{text} {review.text}"
    return Example(text, rationale=reviews[0].rationale)


if __name__ == "__main__":
    main()
