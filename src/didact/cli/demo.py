"""``didact demo``: every method, a learned one, and other kinds of input, where the truth is known; no network."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from didact import disk
from didact.cli import printing
from didact.errors import ParameterError

if TYPE_CHECKING:
    from didact.protocols import Model
    from didact.types import Example, Explanation

NAME = "demo"
HELP = "Explain reviews, pictures, questions and translations with planted evidence; write pages to look at."
EXAMPLES = """examples:
  didact demo
  didact demo --out runs/demo --texts 12 --seed 1
  didact demo --learn 0     (without the learned explainer)
  didact demo --kinds 0     (without the page of other kinds of input)
"""
QUICK = ("integrated_gradients", "occlusion", "attention_rollout")
"""Methods on the page of kinds."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="directory (default: runs/demo)")
    parser.add_argument("--texts", type=int, default=4, metavar="N", help="how many reviews (default: 4)")
    parser.add_argument("--seed", type=int, default=0, help="which reviews (default: 0)")
    parser.add_argument(
        "--learn", type=int, default=300, metavar="N", help="reviews that an explainer is trained on (default: 300)"
    )
    parser.add_argument(
        "--kinds", type=int, default=2, metavar="N", help="examples of each other kind of input (default: 2)"
    )


def run(options: argparse.Namespace) -> None:
    """Explain, tabulate, write the page and its JSON, and print the page's path last."""
    if options.texts < 1:
        raise ParameterError(f"--texts must be at least 1, got {options.texts}")
    for name in ("learn", "kinds"):
        if getattr(options, name) < 0:
            raise ParameterError(f"--{name} must be at least 0, got {getattr(options, name)}")
    from didact.api import compare, load_model, save
    from didact.data.corpus import generate
    from didact.render.html import page as html_page

    disk.check_writable(options.out / "index.html")
    examples = generate(options.texts, seed=options.seed)
    model = load_model()
    printing.line(f"Explaining {len(examples)} reviews by every method with the embedded model; about a minute.")
    columns = [compare(example, model, _truth_first(model, example), target=str(example.label)) for example in examples]
    if options.learn:
        for column, learned in zip(columns, _learned(examples, model, options), strict=True):
            column.append(learned)
    explanations = [explanation for column in columns for explanation in column]
    save(explanations, options.out / "explanations.json")
    page = options.out / "index.html"
    methods = _summaries(explanations)
    verdict = _verdict(columns, methods)
    disk.write_text(page, html_page(explanations, title="Reviews with planted words", sentences=verdict))
    printing.show_explanations(columns[0])
    _print_truth(len(examples), methods)
    printing.show(*verdict, "")
    if options.kinds:
        printing.line(_explain_kinds(options))
    printing.line(page)


def _learned(examples: list[Example], model: Model, options: argparse.Namespace) -> list[Explanation]:
    """Distil occlusion into a small network on other reviews, keep it, and explain with it."""
    from didact.data.corpus import generate
    from didact.experimenting import train

    printing.line(f"Training a network on occlusion's scores of {options.learn} other reviews; about half a minute.")
    others = generate(options.learn, seed=options.seed + 1)
    explainer = train("l2e", others, model, "occlusion", out=options.out / "explainer", choose="loss")
    return explainer.explain(model, examples, [str(example.label) for example in examples])


def _explain_kinds(options: argparse.Namespace) -> Path:
    """Explain pictures, questions, translations and a prompted language model's reviews; returns the page."""
    from didact.api import compare, load_model, save
    from didact.data import corpus, planted
    from didact.models.encoders import embedded_path

    prompt = embedded_path("reviews") / "prompt.toml"
    kinds: dict[str, tuple[Model, Callable[..., list[Example]]]] = {
        "questions": (load_model("default:questions"), planted.questions),
        "quality": (load_model("default:quality"), planted.translations),
        "reviews": (load_model("default:reviews", prompt=prompt), corpus.generate),
    }
    if find_spec("PIL") is not None:
        kinds = {"shapes": (load_model("default:shapes"), planted.shapes)} | kinds
    else:
        printing.line("Pictures are left out: they need Pillow (pip install 'didact[images]').")
    printing.line(f"Explaining {options.kinds} examples each of {', '.join(kinds)} with tiny models.")
    made = {
        kind: [row for example in generate(options.kinds, seed=options.seed) for row in compare(example, model, QUICK)]
        for kind, (model, generate) in kinds.items()
    }
    _print_kinds(made)
    explanations = [explanation for rows in made.values() for explanation in rows]
    save(explanations, options.out / "kinds.json")
    return save(explanations, options.out / "kinds.html")


def _print_kinds(made: dict[str, list[Explanation]]) -> None:
    """How well each method puts the planted evidence of each kind first; wrong words oppose quality."""
    from statistics import fmean

    from rich.table import Table

    from didact.metrics.plausibility.rationale_auc import RationaleAuc
    from didact.protocols import Evidence

    table = Table("AUC", *made, box=None, header_style="bold", padding=(0, 2, 0, 0))
    for method in QUICK:
        cells = []
        for kind, rows in made.items():
            metric = RationaleAuc(evidence="against" if kind == "quality" else "for")
            grades = metric.measure(Evidence([row for row in rows if row.method == method]))
            cells.append(f"{fmean(grade.value for grade in grades):.2f}")
        table.add_row(method, *cells)
    printing.show("", "How well planted evidence is found in other kinds of input (0.5 is chance):", "", table, "")


@dataclass(frozen=True)
class _MethodSummary:
    """How well a method finds the planted words, and what it takes, as means over the texts."""

    area: float
    forwards: float
    seconds: float


def _truth_first(model: Model, example: Example) -> list[str]:
    """The methods that explain the example; what was planted comes first."""
    from didact.api import list_methods

    return [card.name for card in sorted(list_methods(model, example), key=lambda card: not card.needs_rationale)]


def _summaries(explanations: list[Explanation]) -> dict[str, _MethodSummary]:
    """A summary per method, in the order of the explanations."""
    from statistics import fmean

    from didact.metrics.plausibility.rationale_auc import RationaleAuc
    from didact.protocols import Evidence

    made = {}
    for method in dict.fromkeys(explanation.method for explanation in explanations):
        own = [explanation for explanation in explanations if explanation.method == method]
        made[method] = _MethodSummary(
            fmean(grade.value for grade in RationaleAuc().measure(Evidence(own))),
            fmean(explanation.cost.forwards for explanation in own),
            fmean(explanation.cost.seconds or 0.0 for explanation in own),
        )
    return made


def _verdict(columns: Sequence[Sequence[Explanation]], methods: dict[str, _MethodSummary]) -> list[str]:
    """What to conclude, and what not, in a few sentences; the first row of every column is the planted truth."""
    from didact.api import list_methods

    truth, *others = methods
    controls = [card.name for card in list_methods() if card.family == "control" and card.name in others]
    best = max(methods[name].area for name in others)
    leaders = [name for name in others if name not in controls and methods[name].area > best - 0.005]
    right = sum(column[0].prediction.label == str(column[0].example.label) for column in columns)
    beside = ", ".join(f"{name} {methods[name].area:.2f}" for name in controls)
    return [
        f"The first row of every review, {truth}, marks the planted words: a good explanation marks the same.",
        f"Highest mean AUC, {best:.2f}: {', '.join(leaders)}. Beside them {beside}; 0.5 is chance, 1 perfect.",
        f"The model predicts the planted label of {right} of {len(columns)} reviews.",
        f"{len(columns)} reviews are too few to rank methods: didact evaluate tests the differences.",
    ]


def _print_truth(reviews: int, methods: dict[str, _MethodSummary]) -> None:
    """How well each method finds the planted words, averaged over the texts."""
    from rich.table import Table

    table = Table("method", "AUC", "forwards", "seconds per text", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name, method in methods.items():
        table.add_row(name, f"{method.area:.2f}", f"{method.forwards:.0f}", f"{method.seconds:.2f}")
    heading = f"How well the planted words of {reviews} reviews are found (AUC: 0.5 is chance, 1.0 perfect):"
    printing.show("", heading, "", table, "")
