"""Parquet files whose bytes depend on the table alone, and which appear whole or not at all.

Same bytes for the same rows: compression, row groups and format version are fixed, columns lie in one piece, repeated
strings are numbered by first appearance, and nothing of the machine or the hour goes in. (A newer pyarrow may write
other bytes: it signs its files.) The metadata hold a checksum of the whole file, so a flipped bit is noticed when it is
read; files that older versions wrote have checksums of their pages only, and are read all the same.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from didact import checksums, disk
from didact.errors import FormatError, InputError

ROWS = 65_536
"""Rows of a row group."""

_MARK = checksums.MARK.encode()


def write(path: Path | str, table: pa.Table) -> None:
    """Write the table; whoever reads sees the old file or the new one, also if this process is killed."""
    disk.write_bytes(Path(path), as_bytes(table))


def as_bytes(table: pa.Table) -> bytes:
    """The file of a table; its last bytes are Parquet's, and the digest stands among its metadata."""
    canonical = _canonical(table)
    metadata = (canonical.schema.metadata or {}) | {_MARK: checksums.BLANK.encode()}
    sink = pa.BufferOutputStream()
    pq.write_table(
        canonical.replace_schema_metadata(metadata),
        sink,
        row_group_size=ROWS,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        write_page_checksum=True,
    )
    return checksums.seal(sink.getvalue().to_pybytes())


def read(path: Path | str, *, sealed: bool = False) -> pa.Table:
    """The table in a file; one that is damaged or no Parquet at all is named.

    Args:
        path: of the file.
        sealed: whether a file without a checksum, as older versions wrote them, is refused too.
    """
    source = Path(path)
    if not source.is_file():
        raise InputError(f"there is no file {source}")
    try:
        data = checksums.read_whole(source, needed=sealed)
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            table = file.read()
    except (pa.ArrowException, OSError, ValueError) as problem:
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise FormatError(f"{source} cannot be read as Parquet ({first:.120}); delete it and run again") from None
    metadata = {name: value for name, value in (table.schema.metadata or {}).items() if name != _MARK}
    return table.replace_schema_metadata(metadata or None)


def _canonical(table: pa.Table) -> pa.Table:
    """The same rows in the one layout that is written."""
    left_out = (b"pandas", _MARK)
    metadata = {key: value for key, value in sorted((table.schema.metadata or {}).items()) if key not in left_out}
    columns = [_one_piece(column) for column in table.columns]
    fields = [
        pa.field(field.name, _plain(column.type), nullable=field.nullable)
        for field, column in zip(table.schema, columns, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields, metadata=metadata or None))


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without the notes that reading a file leaves on the fields of lists, which would be written again."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("item", _plain(kind.value_type), nullable=kind.value_field.nullable))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return kind


def _one_piece(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
        return _whole(column).dictionary_encode()
    return _whole(column)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
