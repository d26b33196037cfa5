"""Answers as tables for other tools: CSV, JSON lines and Parquet, with pseudonyms and without the time of day."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from didact import disk
from didact.errors import ParameterError
from didact.store import columns, files
from didact.study.rows import StudyAnswer, attention, read_answers
from didact.study.session import Study
from didact.validation import dump_json

FORMATS = ("csv", "jsonl", "parquet")
LEFT_OUT = ("consent", "instructions")

SCHEMA = pa.schema(
    [
        pa.field("rater", columns.NAME, nullable=False),
        pa.field("arm", columns.NAME),
        pa.field("page", columns.NAME, nullable=False),
        pa.field("phase", columns.NAME, nullable=False),
        pa.field("item", columns.NAME),
        pa.field("explainer", columns.NAME),
        pa.field("place", columns.NAME),
        pa.field("rank", pa.int64()),
        pa.field("answer", columns.TEXT),
        pa.field("expected", columns.TEXT),
        pa.field("right", pa.bool_()),
        pa.field("seconds", pa.float64()),
        pa.field("minutes", pa.float64(), nullable=False),
        pa.field("kept", pa.bool_(), nullable=False),
    ]
)
"""A row per answer, for rankings a row per explanation. ``place`` is the explanation's name on the page, ``minutes``
are since joining, ``kept`` is whether the rater is part of the analysis."""


def export(study: Study, folder: Path | str, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write all answers of a study into ``answers.csv``, ``answers.jsonl`` and ``answers.parquet``.

    Returns:
        The files written.
    """
    for form in formats:
        if form not in FORMATS:
            raise ParameterError(f"answers are written as {', '.join(FORMATS)}, not as {form!r:.60}")
    answers = read_answers(study)
    kept = {rater: checks.kept for rater, checks in attention(answers, study.design).items()}
    rows = [row for answer in answers if answer.phase not in LEFT_OUT for row in _rows(answer, kept[answer.rater])]
    written = []
    for form in dict.fromkeys(formats):
        path = Path(folder) / f"answers.{form}"
        if form == "parquet":
            files.write(path, columns.make(SCHEMA, {name: [row[name] for row in rows] for name in SCHEMA.names}))
        else:
            text = "".join(f"{dump_json(row)}\n" for row in rows) if form == "jsonl" else _csv(rows)
            disk.write_text(path, text)
        written.append(path)
    return written


def _rows(answer: StudyAnswer, kept: bool) -> list[dict[str, object]]:
    shared: dict[str, object] = {
        "rater": answer.rater,
        "arm": answer.arm or None,
        "page": answer.page,
        "phase": answer.phase,
        "item": answer.item or None,
        "explainer": None,
        "place": None,
        "rank": None,
        "answer": None if isinstance(answer.answer, dict) else answer.answer,
        "expected": " ".join(answer.expected) or None,
        "right": answer.is_right,
        "seconds": answer.seconds,
        "minutes": answer.minutes,
        "kept": kept,
    }
    if not isinstance(answer.answer, dict):
        return [{**shared, "explainer": answer.order[0] if answer.order else None}]
    return [
        {**shared, "explainer": explainer, "place": place, "rank": rank}
        for explainer, (place, rank) in zip(answer.order, answer.answer.items(), strict=True)
    ]


def _csv(rows: Sequence[dict[str, object]]) -> str:
    written = io.StringIO()
    writer = csv.DictWriter(written, SCHEMA.names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "answer": _harmless(row["answer"])} for row in rows)
    return written.getvalue()


def _harmless(value: object) -> object:
    """A text that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
