"""Labels of a study: the references' scores of its texts as a small table, topped up text by text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from didact.errors import InputError
from didact.experiments.engine.study import SPLITS
from didact.experiments.engine.study_texts import StudyTexts
from didact.experiments.engine.toml import Plain
from didact.models.network import NetworkModel
from didact.store import compact, files
from didact.types import Explanation

T = TypeVar("T")

LABELS = pa.schema(
    [
        ("reference", pa.string()),
        ("split", pa.string()),
        ("number", pa.int32()),
        ("settings", pa.string()),
        *compact.COLUMNS,
    ]
)
"""A row per text; ``text`` is the fingerprint of the text at that number of the split, ``settings`` a hash of the
reference's settings and the explained model, empty in older files."""

Place = tuple[str, int]
"""Split and number of a text."""

CORPUS: Final = "corpus"
PIECE = 1024
"""Texts of a piece."""
Piece = int | Literal["corpus"]
"""The first text of a piece of a split, or "corpus" for all of them."""


def label_rows(
    reference: str, split: str, numbers: Sequence[int], settings: str, made: Sequence[Explanation]
) -> pa.Table:
    """The labels of some texts of a split."""
    rows = [
        {"reference": reference, "split": split, "number": number, "settings": settings, **compact.packed(one)}
        for number, one in zip(numbers, made, strict=True)
    ]
    return pa.Table.from_pylist(rows, LABELS)


def known_labels(path: Path, texts: StudyTexts) -> dict[str, dict[Place, Plain]]:
    """Labels that an earlier run left in a file, by reference and place.

    Texts count, not their numbers or splits: an earlier run may have had them in another place.
    """
    if not path.is_file():
        return {}
    places: dict[str, list[Place]] = {}
    for split in SPLITS:
        for number, text in enumerate(texts[split]):
            places.setdefault(text.fingerprint, []).append((split, number))
    table = files.read(path)
    if "teacher" in table.column_names:
        table = table.rename_columns(["reference" if name == "teacher" else name for name in table.column_names])
    labels: dict[str, dict[Place, Plain]] = {}
    for row in table.to_pylist():
        mine = labels.setdefault(row["reference"], {})
        for split, number in places.get(row["text"], ()):
            mine[split, number] = {"settings": None, **row, "split": split, "number": number}
    return labels


def as_table(rows: Iterable[Plain]) -> pa.Table:
    """Rows in the order of splits and numbers."""
    ordered = sorted(rows, key=lambda row: (row["split"], row["number"]))
    return pa.Table.from_pylist(ordered, LABELS)


def pieces(count: int) -> list[Piece]:
    """The whole of so many texts, which takes longest, then all pieces."""
    return [CORPUS, *range(0, count, PIECE)]


def piece_of(values: Sequence[T], piece: Piece) -> Sequence[T]:
    """Of one value for each text of a split, those of a piece."""
    return values if piece == CORPUS else values[piece : piece + PIECE]


def read_split(
    table: pa.Table, split: str, texts: StudyTexts, model: NetworkModel, piece: Piece = CORPUS
) -> list[Explanation]:
    """The explanations of a split's texts, or of a piece of them, in a table of labels of one reference."""
    own = table.filter(pc.equal(table["split"], split))
    rows = (own if piece == CORPUS else own.slice(piece, PIECE)).to_pylist()
    if not rows:
        raise InputError(f"there are no labels of the {split} texts")
    used = [texts[split][row["number"]] for row in rows]
    return compact.unpacked(rows, model.units(used), model)
