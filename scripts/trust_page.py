"""Writes docs/results/trust.md from the records in docs/results/trust/.

Every record is a JSON object with the ``command`` that made it. ``fuzz.json`` is tabulated by kind and verdict; of any
other record the ``figures`` are shown, a list of {"what", "value", "bar"}, or where it has none all of its numbers.

Usage:
    python scripts/trust_page.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from didact.render.markup import markdown_table, markdown_text

DOCS = Path(__file__).resolve().parents[1] / "docs" / "results"
RECORDS = DOCS / "trust"
HEAD = """# Trust

What was tried to break didact, and what came of it. Made by `python scripts/trust_page.py` from the records in
`trust/`; each section gives the command that measures it again.
"""
TITLES = {
    "fuzz": "Hostile calls, command lines, recipes and files, and damaged artefacts",
    "identity": "Identity of models, functions and explainers",
    "threads": "Threads",
    "state": "Kills and damaged state",
    "statistics": "Noise in, nothing out",
}
VERDICTS = ("returned", "refused", "escaped", "wrong", "hang", "crash")
FUZZ = """A case passes where the call returns something that keeps its promises (finite scores, one per unit; equal
after a round trip through JSON; complete where the method promises it; the same again when repeated; the model
unchanged), or is refused by an error of didact's own. *Escaped* is any other exception, a traceback or exit code 1;
*wrong* a broken promise, and for artefacts content that was read without an error and is not what was saved; *hang*
more than {limit:.0f} s; *crash* the end of the process. Files that people may edit (explanations as JSON, labels as
JSON lines, manifests) may be changed: for them wrong is content that the changed file does not have. A model's folder
is its owner's: it is read or refused.
"""
ROWS = 60
"""Numbers that are listed of a record without figures."""


def main() -> None:
    """Write the page."""
    (DOCS / "trust.md").write_text(page(), encoding="utf-8")
    print(DOCS / "trust.md")


def page() -> str:
    """The whole page."""
    names = [name for name in TITLES if (RECORDS / f"{name}.json").is_file()]
    names += sorted(path.stem for path in RECORDS.glob("*.json") if path.stem not in TITLES)
    parts = [HEAD]
    for name in names:
        record = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
        table = _fuzz(record) if name == "fuzz" else _figures(record)
        parts += [f"## {TITLES.get(name, markdown_text(name))}", _origin(record), table]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _origin(record: Mapping[str, Any]) -> str:
    """The command, and what it ran on where the record has it."""
    lines = [f"`{record.get('command', 'not recorded')}`"]
    if "machine" in record:
        lines.append(f"{record['machine']}.")
    if isinstance(record.get("versions"), dict):
        lines.append(", ".join(f"{name} {number}" for name, number in record["versions"].items()) + ".")
    return "  \n".join(lines)


def _fuzz(record: Mapping[str, Any]) -> str:
    kinds: dict[str, dict[str, Any]] = record["kinds"]
    columns = ("cases", *VERDICTS)
    rows = [
        [_kind(kind), *(f"{counts[column]:,}" for column in columns), f"{counts['slowest_seconds']:.1f}"]
        for kind, counts in kinds.items()
    ]
    total = {column: sum(counts[column] for counts in kinds.values()) for column in columns}
    slowest = max(counts["slowest_seconds"] for counts in kinds.values())
    rows.append(["**all**", *(f"**{number:,}**" for number in total.values()), f"**{slowest:.1f}**"])
    table = markdown_table(("", "cases", *VERDICTS, "slowest, s"), rows, "lr")
    return f"{FUZZ.format(limit=record['limit_seconds'])}\n{table}\n{_roots(record)}"


def _kind(kind: str) -> str:
    family, _, name = kind.partition("-")
    return f"{family}: {name.replace('_', ' ')}" if name else {"api": "calls"}.get(kind, kind)


def _roots(record: Mapping[str, Any]) -> str:
    if not record["roots"]:
        return ""
    rows = [
        (str(root["count"]), markdown_text(root["root"]), ", ".join(f"`{case}`" for case in root["cases"]))
        for root in record["roots"]
    ]
    table = markdown_table(("failures", "root", "cases"), rows, "rl")
    return f"\nWhat failed, by root; `python -m fuzz --seed {record['seed']} --only CASE` makes one again:\n\n{table}\n"


def _figures(record: Mapping[str, Any]) -> str:
    text = str(record.get("text", "")).strip()
    figures = record.get("figures")
    if isinstance(figures, list):
        rows = [[markdown_text(str(row.get(name, ""))) for name in ("what", "value", "bar")] for row in figures]
        table = markdown_table(("what", "measured", "wanted"), rows)
    else:
        leaves = [
            (name, value)
            for name, value in _leaves(record)
            if name.split(".")[0] not in ("versions", "machine", "command", "text")
        ]
        table = markdown_table(
            ("figure", "value"), [(f"`{name}`", markdown_text(str(value))) for name, value in leaves[:ROWS]]
        )
    return f"{text}\n\n{table}" if text else table


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Numbers and words by their dotted names; lists of more than a few by their length."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list):
        if len(value) <= 6 and not any(isinstance(inner, dict | list) for inner in value):
            yield name, ", ".join(map(str, value))
        else:
            yield f"{name}.count", len(value)
    else:
        yield name, f"{value:.4g}" if isinstance(value, float) else value


if __name__ == "__main__":
    main()
