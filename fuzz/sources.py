"""Files, lists and names that data are read from, and names of registered things."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from didact.attribution.base import ATTRIBUTIONS
from didact.data.dataset import Dataset
from didact.data.files import read_plain
from didact.data.load import load_data
from didact.experiments.engine.kinds import RECIPES
from didact.metrics.base import METRICS
from didact.registry import Registry
from didact.students.base import CHANNELS, STUDENTS
from didact.trained.presets.base import PRESETS
from didact.trained.shapes.base import SHAPES
from didact.trained.signals.base import SIGNALS
from fuzz.cases import Attempt, show
from fuzz.hostile import anything, chance, hostile_text, json_value, mostly, number, text
from fuzz.invariants import promise
from fuzz.mutations import mutated
from fuzz.workshop import Workshop

REGISTRIES: tuple[Registry[Any, Any], ...] = (
    ATTRIBUTIONS,
    METRICS,
    STUDENTS,
    CHANNELS,
    PRESETS,
    SHAPES,
    SIGNALS,
    RECIPES,
)
COLUMNS = ("text", "sentence", "label", "text_pair", "rationale", "annotators", "tokens", "id", "score")


def registry(rng: Random, workshop: Workshop) -> Attempt:
    """A registry and a name that may not be in it."""
    chosen = rng.choice(REGISTRIES)
    name: Any = mostly(rng, rng.choice((*chosen.names(), hostile_text(rng), "base", "_helpers", "__init__")), 0.9)

    def call() -> None:
        card = chosen.card(name)
        promise(card.name == name, f"another card: {chosen.kind}")

    return Attempt("registry", show(f"{chosen.kind}.card", name), call)


def listed(rng: Random, workshop: Workshop) -> Attempt:
    """``load_data`` of lists, mappings and names."""
    items = [rng.choice((text(rng), row(rng), (text(rng), text(rng)), anything(rng))) for _ in range(rng.randint(0, 5))]
    source: Any = mostly(rng, items, 0.8, lambda r: r.choice((anything(r), hostile_text(r), "corpus")))
    options: dict[str, Any] = {}
    for key, usual in (("limit", 2), ("seed", 1), ("split", "all"), ("fields", {"text": "sentence", "label": None})):
        if chance(rng, 0.25):
            options[key] = mostly(rng, usual, 0.5)

    def call() -> None:
        if isinstance(source, str) and source in (".", "..", "/", "~"):
            return  # what lies there is the machine's
        check_data(load_data(source, **options))

    return Attempt("load_data", show("load_data", source, **options), call)


def row(rng: Random) -> dict[str, Any]:
    """A row of data with right and wrong values."""
    made: dict[str, Any] = {"text": text(rng)}
    usual: Mapping[str, Callable[[], object]] = {
        "label": lambda: rng.choice(("a", 0, 1, 0.5, number(rng))),
        "rationale": lambda: rng.choice(
            ([[0, 3]], [[3, 0]], [0, 1], [[0, 10**9]], [], "good", [[0.5, 2]], anything(rng))
        ),
        "annotators": lambda: rng.choice(([[[0, 2]], []], [1], anything(rng))),
        "tokens": lambda: rng.choice((made["text"].split(), "a b", anything(rng))),
        "text_pair": lambda: rng.choice((text(rng), None, 3)),
        "id": lambda: rng.choice(("one", 7, None, 0.5)),
    }
    for column, value in usual.items():
        if chance(rng, 0.25):
            made[column] = value()
    if chance(rng, 0.1):
        made[hostile_text(rng)[:20]] = anything(rng)
    return made


def check_data(data: Dataset) -> None:
    """Texts that are texts, a hash, and rationales inside of their texts."""
    promise(len(data.fingerprint) == 16, "no fingerprint: load_data")
    for example in data:
        promise(all(isinstance(each, str) and bool(each.strip()) for each in example.fields), "a blank text: load_data")
        for span in example.rationale or ():
            inside = 0 <= span.start <= span.end <= len(example.texts[span.field])  # type: ignore[union-attr]
            promise(inside, f"a rationale outside of its text: {span}")


def plain_row(rng: Random) -> dict[str, Any]:
    """A row that a file can hold."""
    made: dict[str, Any] = {"text": text(rng).encode("utf-8", "replace").decode("utf-8")}
    for column in COLUMNS[1:]:
        if chance(rng, 0.15):
            made[column] = json_value(rng, 1)
    return made


def _jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(each) for each in rows).encode("utf-8", "surrogatepass")


def _json(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps(rows).encode()


def _csv(rows: list[dict[str, Any]], delimiter: str = ",") -> bytes:
    file = io.StringIO()
    heads = list(dict.fromkeys(key for each in rows for key in each)) or ["text"]
    writer = csv.DictWriter(
        file, [head.replace("\r", "") for head in heads], delimiter=delimiter, extrasaction="ignore"
    )
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode("utf-8", "surrogatepass")


def _txt(rows: list[dict[str, Any]]) -> bytes:
    return "\n".join(each["text"] for each in rows).encode("utf-8", "surrogatepass")


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    table = pa.table({"text": [each["text"] for each in rows], "label": list(range(len(rows)))})
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def _arrow(rows: list[dict[str, Any]]) -> bytes:
    table = pa.table({"text": [each["text"] for each in rows]})
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


WRITERS: Mapping[str, Callable[[list[dict[str, Any]]], bytes]] = {
    ".jsonl": _jsonl, ".ndjson": _jsonl, ".json": _json, ".csv": _csv, ".tsv": lambda rows: _csv(rows, "\t"),
    ".txt": _txt,
    ".parquet": _parquet, ".arrow": _arrow, ".feather": _arrow,
}  # fmt: skip
DEEP = (
    b"[" * 100_000,
    b'{"text": ' * 20_000,
    b'[{"text": "a", "label": ' + b"9" * 6000 + b"}]",
    b'{"text": "\\ud800"}',
    b"",
    b"\xef\xbb\xbftext\na",
)


def readers(rng: Random, workshop: Workshop) -> Attempt:
    """A file of any format, whole, damaged or misnamed, read as data or line by line."""
    ending = rng.choice(list(WRITERS))
    content = WRITERS[ending]([plain_row(rng) for _ in range(rng.randint(0, 6))])
    if chance(rng, 0.1):
        content = rng.choice(DEEP)
    if chance(rng, 0.5):
        content = mutated(rng, content)
    packed = chance(rng, 0.2)
    if packed:
        content = gzip.compress(content, mtime=0)
        content = mutated(rng, content) if chance(rng, 0.6) else content
    name = f"data{rng.choice(list(WRITERS)) if chance(rng, 0.05) else ending}{'.gz' if packed else ''}"
    by_line = chance(rng, 0.25)

    def call() -> None:
        with workshop.folder() as folder:
            path = Path(folder / name)
            path.write_bytes(content)
            if by_line:
                promise(all(each.text.strip() for each in read_plain(path)), "a blank text: read_plain")
                return
            data = load_data(path)
            check_data(data)
            promise(load_data(str(path)).fingerprint == data.fingerprint, "another content: on the second reading")

    return Attempt(f"{name}{' by line' if by_line else ''}", show("read", name, content), call)
