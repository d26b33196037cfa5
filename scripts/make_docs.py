"""Writes what the docs say about the code from the code: the tables of methods and metrics, and the pictures.

Usage:
    python scripts/make_docs.py            # write docs/methods.md, docs/metrics.md and docs/pictures/
    python scripts/make_docs.py --table    # only the tables
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from didact.attribution.base import ATTRIBUTIONS, Attribution
from didact.metrics.base import METRICS, BaseMetric
from didact.render.markup import markdown_table
from didact.types import Card, MetricCard

DOCS = Path(__file__).resolve().parents[1] / "docs"
TEXT = "I expected little, but this is a warm, funny and truly wonderful film with one dull scene."

HEAD = """# Methods

Made by `python scripts/make_docs.py --table` from the methods' cards; `didact list methods` prints the same.
n is the number of units (words or tokens). What is explained is compared with what a plain forward pass predicts. For
most methods that pass is counted. Those that differentiate the pass of the whole text take the prediction from it; a
plain pass, which is not counted, checks the first batch of a network and every 32nd after that.

"""
METRICS_HEAD = """# Metrics

Made by `python scripts/make_docs.py --table` from the metrics' cards; `didact list metrics` prints the same.
Every metric gives one value per text, NaN where it is not defined. *Needs* is what it looks at beyond the explanations
of the graded texts. *Ignores* is what may happen to an explanation's scores without changing the value: any change that
keeps their "order", a x + b with a > 0 ("affine"), or a x ("scale"). How to use them: [grading.md](grading.md).

"""
METRIC_COLUMNS = ("metric", "family", "better", "range", "needs", "ignores", "settings", "from")
COLUMNS = ("method", "family", "needs", "signed", "seeded", "cost", "seconds", "promises", "parameters", "from")


def main() -> None:
    """Write everything, or only the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="only docs/methods.md and docs/metrics.md")
    options = parser.parse_args()
    (DOCS / "methods.md").write_text(methods_page(), encoding="utf-8")
    (DOCS / "metrics.md").write_text(metrics_page(), encoding="utf-8")
    if not options.table:
        pictures(DOCS / "pictures")


def methods_page() -> str:
    """The table of methods as Markdown, with each method's own words beneath."""
    cards = ATTRIBUTIONS.cards()
    times = _times()
    table = markdown_table(COLUMNS, [_row(card, ATTRIBUTIONS.get(card.name), times) for card in cards])
    return f"{HEAD}{_measured()}{table}\n\n" + "\n".join(f"**{card.name}**: {card.summary}\n" for card in cards)


def metrics_page() -> str:
    """The table of metrics as Markdown, with each metric's own words beneath."""
    cards = METRICS.cards()
    table = markdown_table(METRIC_COLUMNS, [_metric_row(card, METRICS.get(card.name)) for card in cards])
    return f"{METRICS_HEAD}{table}\n\n" + "\n".join(f"**{card.name}**: {card.summary}\n" for card in cards)


def pictures(folder: Path) -> None:
    """What the README shows: one explanation and a comparison, drawn by the library."""
    import didact

    methods = ["integrated_gradients", "kernel_shap", "attention", "random"]
    didact.save(didact.explain(TEXT, method="kernel_shap"), folder / "explain.svg")
    didact.save(didact.compare(TEXT, methods=methods), folder / "compare.svg")


def _record() -> dict[str, Any]:
    path = DOCS / "results" / "methods.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _times() -> dict[str, str]:
    """Seconds on the short and on the long text."""
    seconds = _record().get("seconds", {})
    return {name: f"{row['short']:.2g} / {row['long']:.2g}" for name, row in seconds.items()}


def _measured() -> str:
    record = _record()
    if not record:
        return ""
    tokens, used = record["tokens"], record["versions"]
    return (
        f"Seconds: one explanation of {tokens['short']} / {tokens['long']} tokens with the embedded model at default "
        f"settings, best of {record['rounds']},\n{record['machine']}, torch {used['torch']}; "
        "made by `python -m benchmarks.methods`.\n\n"
    )


def _row(card: Card, method: type[Attribution], times: dict[str, str]) -> list[str]:
    settings = ", ".join(f"`{name}={value!r}`" for name, value in method().parameters.items())
    return [
        _named(card),
        card.family,
        ", ".join(sorted(card.needs)) or "nothing",
        "yes" if card.signed else "no",
        "yes" if card.seeded else "no",
        card.cost,
        times.get(card.name, "–"),
        ", ".join(sorted(card.axioms)) or "–",
        settings,
        card.reference,
    ]


def _named(card: Card | MetricCard) -> str:
    """The name, and its aliases where it has any."""
    aliases = ", ".join(f"`{alias}`" for alias in card.aliases)
    return f"`{card.name}`" + (f" (also {aliases})" if aliases else "")


def _metric_row(card: MetricCard, metric: type[BaseMetric]) -> list[str]:
    settings = ", ".join(f"`{name}={value!r}`" for name, value in metric().parameters.items())
    ends = [f"{end:g}" if math.isfinite(end) else "∞" if end > 0 else "-∞" for end in (card.low, card.high)]
    return [
        _named(card),
        card.family,
        {True: "higher", False: "lower", None: "neither"}[card.higher_is_better],
        f"{ends[0]} to {ends[1]}",
        ", ".join(sorted(card.needs)) or "nothing",
        card.invariant,
        settings or "–",
        card.reference,
    ]


if __name__ == "__main__":
    main()
