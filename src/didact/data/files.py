"""Reads rows from files of every usual format; errors name file, line and field."""

from __future__ import annotations

import contextlib
import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from didact.data.limits import ReadGauge, counted_text
from didact.data.rows import Cells, Row, RowReader
from didact.errors import FormatError, InputError
from didact.types import Example
from didact.validation import parse_json

if TYPE_CHECKING:
    import pyarrow


def read_plain(path: Path) -> list[Example]:
    """One example per line of plain text, whatever the file is called."""
    with _opened(path) as (stream, gauge):
        return RowReader({}).read(_text_rows(stream, gauge), gauge.source)


def read_lines(stream: IO[str], source: str) -> list[Example]:
    """Examples from the non-blank lines of an open stream; ``source`` names it in messages."""
    gauge = ReadGauge(source)
    binary = getattr(stream, "buffer", None)  # bytes are counted, and read as UTF-8 whatever the terminal speaks
    with _refusing(source):
        lines = stream if binary is None else counted_text(binary, gauge)
        return RowReader({}).read(_text_rows(lines, gauge), source)


def is_there(path: Path) -> bool:
    """Whether there is such a file or folder; what cannot be a name is none."""
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, or that holds a NUL
        return False


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
        gauge = ReadGauge(str(path))
        yield from gauge.texts(_BINARY[suffix](path, gauge))
        return
    with _opened(path) as (stream, gauge):
        yield from _TEXTUAL[suffix](stream, gauge)


def label_names(path: Path) -> dict[str, tuple[str, ...]]:
    """Column -> names of its classes, as `datasets` writes them into Parquet and Arrow files; else empty."""
    suffix = format_of(path)
    if suffix not in _BINARY:
        return {}
    written = (_schema(path).metadata or {}).get(b"huggingface")
    about = parse_json(written, f"{path}, its description") if written else {}
    features = _entry(_entry(about, "info"), "features")
    return {
        column: tuple(map(str, feature["names"]))
        for column, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list)
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


def _entry(data: object, name: str) -> dict[str, object]:
    """An object inside of an object; empty where there is none."""
    inner = data.get(name) if isinstance(data, dict) else None
    return inner if isinstance(inner, dict) else {}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[str], ReadGauge]]:
    """A text file, unpacked where it is packed, and the gauge that counts what is read from it."""
    gauge = ReadGauge(str(path))
    # Lines end at \n, \r\n or \r only: reviews hold characters that str.splitlines() would break a line at.
    newline = "" if format_of(path) in (".csv", ".tsv") else None
    with _refusing(str(path)):
        packed = path.suffix.lower() == ".gz"
        with gzip.open(path, "rb") if packed else path.open("rb", buffering=0) as stream:
            yield counted_text(stream, gauge, newline), gauge


@contextlib.contextmanager
def _refusing(source: str) -> Iterator[None]:
    """Every way in which reading a text file fails, as an error that names the file."""
    try:
        yield
    except UnicodeDecodeError as problem:
        raise FormatError(
            f"{source} is not UTF-8 text (byte {problem.object[problem.start]:#04x}, {problem.reason}); "
            "save it as UTF-8"
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise FormatError(f"{source} is not a whole .gz file: {problem}") from None
    except csv.Error as problem:
        raise FormatError(f"{source}: not a table of comma- or tab-separated columns: {problem}") from None
    except OSError as problem:
        raise InputError(f"cannot read {source}: {problem.strerror or problem}") from None
    except ValueError as problem:  # a name that holds a NUL, or a closed stream
        raise InputError(f"cannot read {source}: {problem}") from None


def _text_rows(stream: IO[str], gauge: ReadGauge) -> Iterator[Row]:
    for where, line in _numbered_lines(stream, gauge):
        yield where, Example(line.strip())


def _json_rows(stream: IO[str], gauge: ReadGauge) -> Iterator[Row]:
    for where, line in _numbered_lines(stream, gauge):
        yield where, _object(parse_json(line, where), where)


def _numbered_lines(stream: IO[str], gauge: ReadGauge) -> Iterator[tuple[str, str]]:
    """The lines that are not blank, each with its place."""
    for number, line in enumerate(gauge.texts(gauge.lines(stream)), start=1):
        if line.strip():
            yield f"{gauge.source}, line {number}", line


def _json_list(stream: IO[str], gauge: ReadGauge) -> Iterator[Row]:
    source = gauge.source
    data = parse_json(gauge.whole(stream), source)
    if not isinstance(data, list):
        raise FormatError(
            f"{source}: expected a list of objects, got {type(data).__name__}; for one object per line "
            "call the file .jsonl"
        )
    for number, row in enumerate(gauge.texts(data), start=1):
        yield (where := f"{source}, row {number}"), _object(row, where)


def _object(row: object, where: str) -> dict[str, object]:
    if not isinstance(row, dict):
        raise FormatError(f"{where}: expected an object with a field 'text', got {type(row).__name__}")
    return row


def _comma_rows(stream: IO[str], gauge: ReadGauge) -> Iterator[Row]:
    return _table_rows(csv.DictReader(gauge.texts(gauge.lines(stream)), strict=True), gauge.source)


def _tab_rows(stream: IO[str], gauge: ReadGauge) -> Iterator[Row]:
    lines = gauge.texts(gauge.lines(stream))
    return _table_rows(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), gauge.source)


def _table_rows(reader: csv.DictReader[str], source: str) -> Iterator[Row]:
    for row in reader:
        where = f"{source}, line {reader.line_num}"
        heads = list(reader.fieldnames or ())
        if None in row or None in row.values():
            count = len(heads) + len(row.get(None) or ()) - sum(cell is None for cell in row.values())
            raise FormatError(f"{where}: {count} columns, but the first line names {len(heads)}: {', '.join(heads)}")
        yield where, Cells((head, cell or None) for head, cell in row.items())


def _parquet_rows(path: Path, gauge: ReadGauge) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
        yield from _batch_rows(file.iter_batches(batch_size=_BATCH), gauge)
    except (pyarrow.ArrowException, OSError, ValueError) as problem:
        raise FormatError(f"{path} is not a Parquet file: {problem}") from None


def _arrow_rows(path: Path, gauge: ReadGauge) -> Iterator[Row]:
    import pyarrow

    try:
        with _arrow_reader(path) as batches:
            yield from _batch_rows(batches, gauge)
    except (pyarrow.ArrowException, OSError, ValueError) as problem:
        raise FormatError(f"{path} is not an Arrow file: {problem}") from None


def _batch_rows(batches: Iterable[pyarrow.RecordBatch], gauge: ReadGauge) -> Iterator[Row]:
    number = 0
    for batch in batches:
        batch.validate(full=True)  # a damaged file may point outside of itself
        gauge.add_bytes(sum(map(_unpacked_bytes, batch.columns)))
        for row in batch.to_pylist():
            number += 1
            yield f"{gauge.source}, row {number}", row


def _unpacked_bytes(column: pyarrow.Array) -> int:
    """Bytes of a column once each row has its own text, also where the file writes every text once."""
    import pyarrow
    import pyarrow.compute

    texts = pyarrow.types.is_dictionary(column.type) and column.type.value_type in (pyarrow.string(), pyarrow.binary())
    if not texts:
        return int(column.nbytes)
    lengths = pyarrow.compute.binary_length(column.dictionary).take(column.indices)
    return int(pyarrow.compute.sum(lengths).as_py() or 0)


@contextlib.contextmanager
def _arrow_reader(path: Path) -> Iterator[Iterable[pyarrow.RecordBatch]]:
    """The batches of an Arrow file, or of the stream that `datasets` keeps under the same name."""
    import pyarrow

    with pyarrow.memory_map(str(path)) as memory:
        try:
            file = pyarrow.ipc.open_file(memory)
        except pyarrow.ArrowInvalid:
            memory.seek(0)
            yield pyarrow.ipc.open_stream(memory)
        else:
            yield (file.get_batch(number) for number in range(file.num_record_batches))


def _schema(path: Path) -> pyarrow.Schema:
    import pyarrow
    import pyarrow.parquet

    try:
        if format_of(path) == ".parquet":
            return pyarrow.parquet.read_schema(path)
        with pyarrow.memory_map(str(path)) as memory:
            try:
                return pyarrow.ipc.open_file(memory).schema
            except pyarrow.ArrowInvalid:
                memory.seek(0)
                return pyarrow.ipc.open_stream(memory).schema
    except (pyarrow.ArrowException, OSError) as problem:
        raise FormatError(f"{path} cannot be read: {problem}") from None


_BATCH = 256
"""Rows of a Parquet file that are unpacked at once: a column that repeats one long text unpacks to much more."""

_TEXTUAL: Mapping[str, Callable[[IO[str], ReadGauge], Iterator[Row]]] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".json": _json_list,
    ".csv": _comma_rows,
    ".tsv": _tab_rows,
    ".txt": _text_rows,
}
_BINARY: Mapping[str, Callable[[Path, ReadGauge], Iterator[Row]]] = {
    ".parquet": _parquet_rows,
    ".arrow": _arrow_rows,
    ".feather": _arrow_rows,
}
FORMATS = (*_TEXTUAL, *_BINARY)
"""Endings of the files that can be loaded."""
