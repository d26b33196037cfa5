"""What a file may hold: limits that are counted while it is read, and broken files that are named."""

import gzip
import json
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest

from didact.data.limits import MAX_BYTES, MAX_TEXTS
from didact.data.load import load_data
from didact.errors import DidactError, FormatError, InputError, ParameterError


def packed(path: Path, megabytes: int, piece: bytes = b"a " * 2**19) -> Path:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(megabytes):
            file.write(piece)
    return path


@pytest.mark.parametrize("name", ["x.txt.gz", "x.jsonl.gz", "x.json.gz", "x.csv.gz", "x.tsv.gz"])
def test_a_small_file_that_unpacks_to_much_more_costs_no_more_than_the_limit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = packed(tmp_path / name, 24)
    assert path.stat().st_size < 200_000
    monkeypatch.setenv(MAX_BYTES, str(2**20))
    tracemalloc.start()
    try:
        with pytest.raises(DidactError, match=r"x\..*(--max-bytes|field larger)"):
            load_data(path)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()


def test_lines_and_rows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"text": f"text {number}"} for number in range(6)]
    (tmp_path / "x.txt").write_text("\n".join(row["text"] for row in rows))
    (tmp_path / "blank.txt").write_text("one text\n" + "\n" * 6)
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "x.json").write_text(json.dumps(rows))
    (tmp_path / "x.csv").write_text("text\n" + "\n".join(row["text"] for row in rows))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet")
    pyarrow.feather.write_feather(pyarrow.Table.from_pylist(rows), tmp_path / "x.feather")
    for path in sorted(tmp_path.iterdir()):
        assert load_data(path).examples
        monkeypatch.setenv(MAX_TEXTS, "5")
        with pytest.raises(InputError, match=f"{path.name} holds more than 5 lines or rows.*--max-texts"):
            load_data(path)
        monkeypatch.delenv(MAX_TEXTS)


def test_a_column_that_repeats_one_long_text_is_counted_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.parquet"
    column = pyarrow.array(["a " * 5_000] * 20_000).dictionary_encode()
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), path)
    assert path.stat().st_size < 100_000
    monkeypatch.setenv(MAX_BYTES, str(2**20))
    with pytest.raises(InputError, match="more than 1,048,576 bytes unpacked"):
        load_data(path)


def test_limits_must_be_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a text")
    for wrong in ("0", "-1", "many", "9" * 5_000, "²"):
        monkeypatch.setenv(MAX_BYTES, wrong)
        with pytest.raises(ParameterError, match="DIDACT_MAX_BYTES must be a whole number"):
            load_data(tmp_path / "x.txt")


WHOLE = gzip.compress(b"a fine film\n" * 500, mtime=0)


@pytest.mark.parametrize(
    "content",
    [
        b"not packed",
        WHOLE[:20],
        WHOLE[:-4],
        WHOLE[:-8] + b"\0" * 8,
        WHOLE[:12] + b"\xff\xff\xff" + WHOLE[15:],
        zlib.compress(b"a film"),
        b"",
    ],
    ids=["not packed", "cut early", "no length", "other checksum", "other bytes", "zlib", "empty"],
)
def test_a_damaged_gz_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.txt.gz"
    path.write_bytes(content)
    with pytest.raises(DidactError, match=r"x\.txt\.gz"):
        load_data(path)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-32"])
@pytest.mark.parametrize("name", ["x.txt", "x.jsonl", "x.json", "x.csv"])
def test_other_encodings_are_named(name: str, encoding: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes('text\n"é"\n'.encode(encoding))
    with pytest.raises(FormatError, match=f"{name}.*UTF-8"):
        load_data(tmp_path / name)


def test_a_mark_of_the_encoding_is_no_part_of_the_text(tmp_path: Path) -> None:
    for name, write in (("x.csv", lambda b: b), ("x.csv.gz", gzip.compress)):
        (tmp_path / name).write_bytes(write("\ufefftext,label\nfine,1\n".encode()))
        assert load_data(tmp_path / name).examples[0].text == "fine"


@pytest.mark.parametrize(
    "line", ['{"text": ' + "[" * 100_000, '{"text": "a", "label": ' + "1" * 5_000 + "}", '"\\ud800"']
)
def test_a_line_that_cannot_be_parsed_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(f'{{"text": "a"}}\n{line}\n')
    with pytest.raises(FormatError, match=r"x\.jsonl, line 2"):
        load_data(tmp_path / "x.jsonl")


def test_half_of_a_surrogate_pair_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"text": "good \\ud800 film"}\n')
    with pytest.raises(FormatError, match=r"x\.jsonl, line 2: the text is not valid Unicode: character 5"):
        load_data(tmp_path / "x.jsonl")
    with pytest.raises(InputError, match=r"item 1 of the list: .*character 0"):
        load_data(["fine", "\udfff"])


@pytest.mark.parametrize("name", ["a" * 300 + ".csv", "a\0b.csv", "a" * 5_000, "a/" * 3_000])
def test_what_cannot_be_a_name_is_no_file(name: str) -> None:
    with pytest.raises(DidactError):
        load_data(name)
    with pytest.raises(DidactError):
        load_data(Path(name))


def test_a_table_in_which_several_columns_may_hold_the_text_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("review,content,stars\ngood,bad,3\n")
    with pytest.raises(FormatError, match=r"line 2: the text may be in review or content \(columns: review, content"):
        load_data(tmp_path / "x.csv")
    assert load_data(tmp_path / "x.csv", fields={"text": "content"}).examples[0].text == "bad"


def test_rows_of_a_list_may_have_any_keys() -> None:
    with pytest.raises(FormatError, match="field 'text' is missing; found 1, b"):
        load_data([{1: "a", "b": "c"}])


@pytest.mark.parametrize("given", [{"split": 3}, {"split": ["train"]}, {"fields": "text"}, {"fields": [("a",)]}])
def test_arguments_of_another_kind_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="must be"):
        load_data(["a text"], **given)


def test_an_arrow_file_that_points_outside_of_itself_is_refused(tmp_path: Path) -> None:
    buffers = [None, pyarrow.py_buffer(b"\x00\x00\x00\x00\xff\xff\xff\x7f\x04\x00\x00\x00"), pyarrow.py_buffer(b"film")]
    column = pyarrow.Array.from_buffers(pyarrow.string(), 2, buffers)
    path = tmp_path / "x.arrow"
    with pyarrow.OSFile(str(path), "wb") as sink:
        batch = pyarrow.record_batch([column], ["text"])
        with pyarrow.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
    with pytest.raises(FormatError, match=r"x\.arrow is not an Arrow file"):
        load_data(path)
