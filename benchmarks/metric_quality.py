"""Metrics graded on planted truth: how often each orders explanations of known quality rightly.

Examples:
    python -m benchmarks.metric_quality
    python -m benchmarks.metric_quality --texts 20 --out runs/metric_quality
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from didact.data.corpus import generate
from didact.experiments.grading.planted_truth import LABELS, gradable, measure, needle_predict, needle_texts
from didact.experiments.report.reliability import RECORD, Reliability
from didact.models.load import load_model
from didact.provenance import versions
from didact.render.markup import markdown_table, markdown_text

PAGE = Path("docs/results/metric_quality.md")
HEAD = """# Metrics graded on planted truth

Made by `{command}`.

How often a metric puts two explanations of one text into the order of their quality, mean over texts [95 % interval], n
texts; 0.50 is chance; no interval where hardly any text differs from the others. The truth is
degraded in four steps, in which a share of the units exchange their scores; the quality of what results is the share of
the planted words among as many with the highest scores. Reviews are explained for the embedded model, which need not
read all that was planted (those that it classifies otherwise are left out); needle texts for a function that counts
needles and reads nothing else. Metrics of plausibility are given the truth as the rationale, so theirs is a check of
the procedure. Reports of `didact evaluate` print these figures for the metrics that they use.
"""


def main() -> None:
    """Measure, and write the record that reports print from and its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=100, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", nargs="*", default=[], metavar="METRIC", help="metrics to leave out")
    parser.add_argument("--out", type=Path, help="another folder than that of the package and the docs")
    options = parser.parse_args()
    metrics = [name for name in gradable() if name not in options.without]
    needles = load_model(needle_predict, labels=LABELS)
    kinds = {
        "reviews": measure(load_model("default"), generate(options.texts, seed=options.seed), metrics),
        "needle texts": measure(needles, needle_texts(options.texts, options.seed), metrics),
    }
    rows = {kind: [_plain(row) for row in known] for kind, known in kinds.items()}
    command = f"python -m benchmarks.metric_quality --texts {options.texts} --seed {options.seed}"
    command += f" --without {' '.join(options.without)}" if options.without else ""
    record = {"command": command, "versions": versions(), "kinds": rows}
    places = (RECORD, PAGE) if options.out is None else (options.out / RECORD.name, options.out / PAGE.name)
    made = (json.dumps(record, indent=1) + "\n", page(kinds, command))
    for place, text in zip(places, made, strict=True):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    print(made[1])


def page(kinds: Mapping[str, Sequence[Reliability]], command: str) -> str:
    """Markdown."""
    best = {row.metric: row for row in kinds["reviews"]}
    order = sorted(best, key=lambda metric: -best[metric].ordered)
    by_kind = {kind: {row.metric: row for row in rows} for kind, rows in kinds.items()}
    rows = [[markdown_text(metric), *(_cell(known[metric]) for known in by_kind.values())] for metric in order]
    return f"{HEAD.format(command=command)}\n{markdown_table(('metric', *kinds), rows, 'lr')}\n"


def _plain(row: Reliability) -> dict[str, object]:
    """JSON values; None for NaN."""
    return {name: None if value != value else value for name, value in dataclasses.asdict(row).items()}


def _cell(row: Reliability) -> str:
    ends = "no interval" if row.low != row.low else f"{row.low:.3f}, {row.high:.3f}"
    return f"{row.ordered:.3f} [{ends}], {row.n:,}"


if __name__ == "__main__":
    main()
