"""``didact demo``: every method on texts whose truth is known, with the embedded model and no network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from didact.errors import ParameterError

if TYPE_CHECKING:
    from didact.types import Example, Explanation

NAME = "demo"
HELP = "Explain reviews with planted evidence by every method; write a page to look at."
EXAMPLES = """examples:
  didact demo
  didact demo --out runs/demo --texts 12 --seed 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="directory (default: runs/demo)")
    parser.add_argument("--texts", type=int, default=4, metavar="N", help="how many reviews (default: 4)")
    parser.add_argument("--seed", type=int, default=0, help="which reviews (default: 0)")


def run(options: argparse.Namespace) -> None:
    """Explain, tabulate, write the page and its JSON, and print the page's path last."""
    if options.texts < 1:
        raise ParameterError(f"--texts must be at least 1, got {options.texts}")
    from didact.api import compare, load_model, save
    from didact.data.corpus import generate
    from didact.render.terminal import show_in_terminal

    examples = generate(options.texts, seed=options.seed)
    model = load_model()
    print(f"Explaining {len(examples)} reviews by every method with the embedded model; about a minute.", flush=True)
    found = [explanation for example in examples for explanation in compare(example, model, target=example.label)]
    show_in_terminal(found[: len(found) // len(examples)])
    _print_truth(examples, found)
    save(found, options.out / "explanations.json")
    print(save(found, options.out / "index.html"))


def _print_truth(examples: list[Example], found: list[Explanation]) -> None:
    """How well each method finds the planted words, averaged over the texts."""
    from statistics import fmean

    from rich.console import Console
    from rich.table import Table

    from didact.metrics.plausibility.rationale_auc import RationaleAuc
    from didact.protocols import Evidence

    table = Table("method", "AUC", "forwards", "seconds per text", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for method in dict.fromkeys(explanation.method for explanation in found):
        mine = [explanation for explanation in found if explanation.method == method]
        area = fmean(grade.value for grade in RationaleAuc().measure(Evidence(mine)))
        forwards = fmean(explanation.cost.forwards for explanation in mine)
        seconds = fmean(explanation.cost.seconds or 0.0 for explanation in mine)
        table.add_row(method, f"{area:.2f}", f"{forwards:.0f}", f"{seconds:.2f}")
    told = f"How well the planted words of {len(examples)} reviews are found (AUC: 0.5 is chance, 1.0 perfect):"
    Console().print("", told, "", table, "", sep="\n")
