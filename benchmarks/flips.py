"""How small the changes are that flip a prediction: didact's search beside a greedy and a random one, same budget.

Each search deletes words of SST-2 sentences until the model predicts the other class, and every candidate is a plain
pass of the edited text. Greedy deletes the word that moves the prediction furthest, then the next, until it flips. The
random search deletes words in a random order until the prediction flips, again and again, and keeps the smallest flip.
A run that is stopped goes on where it was.

    python -m benchmarks.flips --texts 100                  # the embedded model
    python -m benchmarks.flips --texts 100 --model minilm   # a MiniLM fine-tuned on SST-2
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import load_network, machine, prepare
from didact.counterfactuals.edits import changed
from didact.counterfactuals.flip import BUDGET, Flip, find_flip
from didact.data.load import load_data
from didact.models.compose import compose
from didact.models.load import load_model
from didact.protocols import Model
from didact.types import Example, Prediction, Units

Row = dict[str, Any]


def main() -> None:
    """Run all searches on all texts and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--texts", type=int, default=100)
    options.add_argument("--budget", type=int, default=BUDGET, help=f"plain passes per text (default {BUDGET})")
    options.add_argument("--seed", type=int, default=1, help="of the sample of texts and of the random search")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--model", choices=("embedded", "minilm"), default="embedded")
    options.add_argument("--out", type=Path, help="default: docs/results/flips/MODEL.json")
    args = options.parse_args()
    place: Path = args.out or Path("docs/results/flips") / f"{args.model}.json"
    prepare(args.threads)
    model, which = _model(args.model)
    given = f"--texts {args.texts} --budget {args.budget} --seed {args.seed} --model {args.model}"
    record: dict[str, Any] = {
        "command": f"python -m benchmarks.flips {given}",
        **machine(args.threads),
        "model": which,
        "data": "SST-2, test",
        "budget": args.budget,
        "rows": [],
    }
    record["rows"] = rows = _earlier(place, record["command"])
    place.parent.mkdir(parents=True, exist_ok=True)
    examples = load_data("sst2", split="test", limit=args.texts, seed=args.seed).examples
    for number, example in enumerate(examples[len(rows) :], start=len(rows)):
        rows.append(_row(model, example, args.budget, args.seed + number))
        place.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(number + 1, {name: rows[-1][name]["size"] for name in ("didact", "greedy", "random")}, flush=True)


def _model(name: str) -> tuple[Model, str]:
    """The model, and what it is in words."""
    if name == "embedded":
        return load_model(), "the embedded sentiment model (4 layers x 192), float32"
    network, tokenizer, which = load_network()
    return compose(network, tokenizer), which


def _earlier(place: Path, command: str) -> list[Row]:
    """Rows of an earlier run with the same command."""
    if not place.is_file():
        return []
    earlier = json.loads(place.read_text(encoding="utf-8"))
    rows: list[Row] = earlier["rows"] if earlier["command"] == command else []
    return rows


def _row(model: Model, example: Example, budget: int, seed: int) -> Row:
    """All searches on one text; sizes are None where nothing flipped within the budget."""
    flip = find_flip(model, example, budget=budget)
    watch = _Watch(model, flip.units, flip.prediction, budget)
    row: Row = {
        "text": example.fingerprint,
        "words": len(flip.units),
        "predicted": flip.prediction.label,
        "didact": _result(flip),
    }
    for name, search in (("greedy", greedy), ("random", lambda w: random_search(w, np.random.default_rng(seed)))):
        size = search(watch.fresh())
        row[name] = {"size": size, "evaluations": watch.used}
    return row


def _result(flip: Flip) -> Row:
    size = flip.size if flip.flipped else None
    return {"size": size, "evaluations": flip.evaluations, "smallest": flip.smallest}


class _Watch:
    """Plain passes of a text without some of its words, counted against the budget."""

    def __init__(self, model: Model, units: Units, prediction: Prediction, budget: int) -> None:
        self.model = model
        self.units = units
        self.prediction = prediction
        self.budget = budget
        self.used = 0

    def fresh(self) -> _Watch:
        """With the whole budget again."""
        self.used = 0
        return self

    def margins(self, deletions: list[set[int]]) -> list[float]:
        """How far the best other class lies above the predicted one, for as many deletions as the budget has."""
        texts = [changed(self.units, dict.fromkeys(each, "")) for each in deletions[: self.budget - self.used]]
        known = [text for text in texts if text is not None]
        self.used += len(known)
        index = self.prediction.index
        return [
            max(output for number, output in enumerate(made.outputs) if number != index) - made.outputs[index]
            for made in (self.model.predict(known) if known else [])
        ]


def greedy(watch: _Watch) -> int | None:
    """Delete the word that moves the prediction furthest, again and again; the number of words at the flip."""
    deleted: set[int] = set()
    for _ in range(len(watch.units) - 1):
        options = [deleted | {unit} for unit in range(len(watch.units)) if unit not in deleted]
        margins = watch.margins(options)
        if not margins:
            return None
        deleted = options[int(np.argmax(margins))]
        if max(margins) > 0:
            return len(deleted)
    return None


def random_search(watch: _Watch, rng: np.random.Generator) -> int | None:
    """Delete words in random orders until the prediction flips; the smallest flip of all orders within the budget."""
    best: int | None = None
    while watch.used < watch.budget:
        order = rng.permutation(len(watch.units)).tolist()
        longest = len(order) - 1 if best is None else best - 1
        if longest < 1:
            return best
        margins = watch.margins([set(order[:size]) for size in range(1, longest + 1)])
        flips = [size for size, margin in enumerate(margins, start=1) if margin > 0]
        best = flips[0] if flips else best
    return best


if __name__ == "__main__":
    main()
