"""Writes the page about prompted language models from records of ``scripts/kinds_prompts.py``.

    python scripts/kinds_prompts_page.py docs/results/kinds/prompts*.json

The page stands beside the first record; records of other machines and sections follow it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from didact.render.markup import markdown_table

GRADES = {
    "sufficiency": "sufficiency ↓",
    "comprehensiveness": "comprehensiveness ↑",
    "log_probability_drop": "log-probability drop ↓",
}
HEAD = """# Prompted language models

Words are units; methods show absent ones as the unknown token. Means over texts with their 95 % intervals; `random` is
the chance level of a table, and chance of the accuracy is stated. The prompts are in `docs/kinds/prompts`.
"""
PART = """## On {machine}

{model} as a classifier, torch {torch}, Transformers {transformers}:

```
{command}
```
"""


def main() -> None:
    """Read the records, write the page beside the first."""
    paths = [Path(name) for name in sys.argv[1:]]
    records = [json.loads(path.read_text("utf-8")) for path in paths]
    parts = [HEAD, *(part for record in records for part in section(record))]
    paths[0].with_suffix(".md").write_text("\n".join(parts) + "\n", encoding="utf-8")


def section(record: dict[str, Any]) -> list[str]:
    """What one record has of every task."""
    facts = {name: record[name] for name in ("model", "machine", "command")}
    parts = [PART.format(**facts, **picked(record["versions"]))]
    parts += [f"{record['note']}\n"] if "note" in record else []
    for task, own in record["tasks"].items():
        parts += [f"### {task} ({own['split']}, {own['shots']} shots)\n", *sentences(own)]
        if "faithfulness" in own:
            parts.append(table(own["faithfulness"]))
    return parts


def picked(versions: dict[str, str]) -> dict[str, str]:
    """The versions that the head names."""
    return {name: versions[name] for name in ("torch", "transformers")}


def sentences(own: dict[str, Any]) -> list[str]:
    """Accuracy, reuse of prefixes, and peers, as far as they were measured."""
    made = [chosen(own["prompts"])] if "prompts" in own else []
    made += [accuracy(own["accuracy"])] if "accuracy" in own else []
    made += [reuse(kind, row) for kind, row in own.get("prefix_reuse", {}).items() if isinstance(row, dict)]
    if "captum" in own:
        row = own["captum"]
        made.append(
            f"captum's LLMAttribution (feature ablation, label words in one pass), {row['evaluations']} evaluations: "
            f"{row['captum seconds']:.2f} s, ours {row['ours seconds']:.2f} s, **{row['speed-up']:.1f} ×**; rank "
            f"correlation of the scores {shown(row['spearman'])}."
        )
    if "interpreto" in own:
        row = own["interpreto"]
        made.append(
            f"interpreto's occlusion, in batches of {row['batch']}: {1e3 * row['seconds per evaluation']:.1f} ms per "
            f"evaluation, ours {1e3 * row['ours']:.1f} ms, **{row['speed-up']:.1f} ×** (it explains the whole prompt)."
        )
    return [f"{sentence}\n" for sentence in made]


def chosen(row: dict[str, Any]) -> str:
    """How the prompt was chosen."""
    values = row["accuracy"].values()
    return (
        f"Of {len(values)} ways to put the prompt the one with the highest accuracy on {row['training texts']} "
        f"training texts was taken ({row['chosen']}: {max(values):.3f}; the lowest has {min(values):.3f})."
    )


def accuracy(row: dict[str, float]) -> str:
    """Share of texts whose label is predicted."""
    return f"Accuracy {shown(row)} on {row['n']} texts (chance {row['chance']:.2f})."


def reuse(kind: str, row: dict[str, float]) -> str:
    """What reading the common beginning once gains."""
    return (
        f"Variants ({kind}): {row['per second']:.0f} per second with the common beginning read once, "
        f"{row['per second without']:.0f} without, **{row['speed-up']:.1f} ×**; largest difference "
        f"{row['largest difference']:.1e}."
    )


def table(rows: dict[str, Any]) -> str:
    """Methods by grades."""
    cells = [
        [method, *(shown(row[name]) for name in GRADES), f"{row['seconds per text']:.2f}"]
        for method, row in rows.items()
    ]
    lists, note = rows.get("self_ranking", {}), ""
    if "listed" in lists:
        counts = f"{lists['listed']:.1f} words of the text and {lists['invented']:.1f} that are not in it"
        note = f"\nA list of `self_ranking` has {counts}.\n"
    return markdown_table(["method", *GRADES.values(), "seconds per text"], cells) + "\n" + note


def shown(value: dict[str, Any]) -> str:
    """A mean with its interval, or with the number of values where they are too few for one."""
    if value["low"] is None:
        return f"{value['mean']:.3f} ({value['n']} texts, too few for an interval)"
    return f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


if __name__ == "__main__":
    main()
