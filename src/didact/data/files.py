"""Reads rows from files of every usual format; errors name file, line and field."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from didact.data.rows import Cells, Row, RowReader
from didact.errors import FormatError, InputError
from didact.types import Example

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = (".txt", ".jsonl")
"""What the command line explains line by line; ``FORMATS`` has everything that can be loaded."""


def read_examples(path: Path) -> list[Example]:
    """One example per line: plain text, or for .jsonl an object with "text" and perhaps "text_pair", "label", ..."""
    if path.is_dir():
        raise InputError(f"{path} is a directory; give a file ({', '.join(SUFFIXES)})")
    as_json = path.suffix == ".jsonl"
    with _opened(path) as lines:
        return read_lines(lines, str(path), as_json=as_json)


def read_lines(lines: Iterable[str], source: str, *, as_json: bool = False) -> list[Example]:
    """Examples from non-blank lines; ``source`` names them in messages."""
    try:
        rows = list((_json_rows if as_json else _text_rows)(lines, source))
    except UnicodeDecodeError:
        raise FormatError(f"{source} is not UTF-8 text; give a {' or '.join(SUFFIXES)} file") from None
    if not rows:
        raise InputError(f"{source} holds no text")
    return RowReader({}).read(rows, source)


def format_of(path: Path) -> str | None:
    """The format that a file's name implies (".jsonl" for texts.jsonl.gz); None where it is not supported."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    suffix = (suffixes[:-1] if packed else suffixes)[-1:]
    return suffix[0] if suffix and suffix[0] in (_TEXTUAL if packed else FORMATS) else None


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file, each with the place it came from."""
    suffix = format_of(path)
    if suffix is None:
        raise InputError(f"{path}: unknown format; give {', '.join(FORMATS)} (text formats also packed as .gz)")
    if suffix in _BINARY:
        yield from _BINARY[suffix](path)
        return
    try:
        with _opened(path) as lines:
            yield from _TEXTUAL[suffix](lines, str(path))
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not UTF-8 text") from None
    except (gzip.BadGzipFile, EOFError) as problem:
        raise FormatError(f"{path} is not a whole .gz file: {problem}") from None
    except csv.Error as problem:
        raise FormatError(f"{path}: not a table of comma- or tab-separated columns: {problem}") from None


def label_names(path: Path) -> dict[str, tuple[str, ...]]:
    """Column -> names of its classes, as `datasets` writes them into Parquet and Arrow files; else empty."""
    suffix = format_of(path)
    if suffix not in _BINARY:
        return {}
    written = (_schema(path).metadata or {}).get(b"huggingface")
    features = json.loads(written).get("info", {}).get("features", {}) if written else {}
    return {
        column: tuple(feature["names"])
        for column, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and feature.get("names")
    }


def split_files(folder: Path) -> dict[str, list[Path]]:
    """The data files of a folder by split: train.jsonl.gz, or train-00000-of-00002.parquet and its sisters."""
    by_split: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith(".") and format_of(path):
            stem = re.sub(r"-\d+-of-\d+$", "", stem_of(path))
            by_split.setdefault(stem, []).append(path)
    return by_split


def stem_of(path: Path) -> str:
    """A data file's name without its format."""
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    return Path(name).stem


def _opened(path: Path) -> IO[str]:
    # Lines end at \n, \r\n or \r only: reviews hold characters that str.splitlines() would break a line at.
    try:
        if path.suffix.lower() == ".gz":
            return gzip.open(path, "rt", encoding="utf-8")
        return path.open(encoding="utf-8-sig", newline="" if format_of(path) in (".csv", ".tsv") else None)
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror}") from None


def _text_rows(lines: Iterable[str], source: str) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"{source}, line {number}", Example(line.strip())


def _json_rows(lines: Iterable[str], source: str) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{source}, line {number}"
            yield where, _object(_parsed(line, where), where)


def _json_list(lines: Iterable[str], source: str) -> Iterator[Row]:
    data = _parsed("".join(lines), source)
    if not isinstance(data, list):
        raise FormatError(
            f"{source}: expected a list of objects, got {type(data).__name__}; for one object per line "
            "call the file .jsonl"
        )
    for number, row in enumerate(data, start=1):
        yield (where := f"{source}, row {number}"), _object(row, where)


def _parsed(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise FormatError(f"{where}: not JSON ({problem.msg})") from None


def _object(row: object, where: str) -> dict[str, object]:
    if not isinstance(row, dict):
        raise FormatError(f"{where}: expected an object with a field 'text', got {type(row).__name__}")
    return row


def _comma_rows(lines: Iterable[str], source: str) -> Iterator[Row]:
    return _table_rows(csv.DictReader(lines, strict=True), source)


def _tab_rows(lines: Iterable[str], source: str) -> Iterator[Row]:
    return _table_rows(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), source)


def _table_rows(reader: csv.DictReader[str], source: str) -> Iterator[Row]:
    for row in reader:
        where = f"{source}, line {reader.line_num}"
        heads = list(reader.fieldnames or ())
        if None in row or None in row.values():
            count = len(heads) + len(row.get(None) or ()) - sum(cell is None for cell in row.values())
            raise FormatError(f"{where}: {count} columns, but the first line names {len(heads)}: {', '.join(heads)}")
        yield where, Cells((head, cell or None) for head, cell in row.items())


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        batches = pyarrow.parquet.ParquetFile(path).iter_batches()
        yield from _batch_rows(batches, path)
    except (pyarrow.ArrowException, OSError) as problem:
        raise FormatError(f"{path} is not a Parquet file: {problem}") from None


def _arrow_rows(path: Path) -> Iterator[Row]:
    import pyarrow

    try:
        yield from _batch_rows(_arrow_table(path).to_batches(), path)
    except (pyarrow.ArrowException, OSError) as problem:
        raise FormatError(f"{path} is not an Arrow file: {problem}") from None


def _batch_rows(batches: Iterable[pyarrow.RecordBatch], path: Path) -> Iterator[Row]:
    number = 0
    for batch in batches:
        for row in batch.to_pylist():
            number += 1
            yield f"{path}, row {number}", row


def _arrow_table(path: Path) -> pyarrow.Table:
    """An Arrow file, or the stream of batches that `datasets` keeps under the same name."""
    import pyarrow

    with pyarrow.memory_map(str(path)) as memory:
        try:
            return pyarrow.ipc.open_file(memory).read_all()
        except pyarrow.ArrowInvalid:
            memory.seek(0)
            return pyarrow.ipc.open_stream(memory).read_all()


def _schema(path: Path) -> pyarrow.Schema:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_schema(path) if format_of(path) == ".parquet" else _arrow_table(path).schema
    except (pyarrow.ArrowException, OSError) as problem:
        raise FormatError(f"{path} cannot be read: {problem}") from None


_TEXTUAL: Mapping[str, Callable[[Iterable[str], str], Iterator[Row]]] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".json": _json_list,
    ".csv": _comma_rows,
    ".tsv": _tab_rows,
    ".txt": _text_rows,
}
_BINARY: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".parquet": _parquet_rows,
    ".arrow": _arrow_rows,
    ".feather": _arrow_rows,
}
FORMATS = (*_TEXTUAL, *_BINARY)
"""Endings of the files that can be loaded."""
