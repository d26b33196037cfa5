"""What is wrong with a file is told with its name, the line or row, and the field."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from didact.data.load import load_data
from didact.errors import FormatError, InputError

GOOD = {"text": "A dull plot.", "label": 0}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{text: 1}", "not JSON"),
        ("[1]", "expected an object with a field 'text', got list"),
        ('{"label": 1}', "field 'text' is missing; found label"),
        ('{"text": 3}', "field 'text' must be text, got int 3"),
        ('{"text": " "}', "field 'text' is empty or blank"),
        ('{"text": "a", "text_pair": ["b"]}', "field 'text_pair' must be text, got list"),
        ('{"text": "a", "label": [0.5]}', r"field 'label' must be the name or the number of a class, or a finite"),
        ('{"text": "a", "id": {}}', "field 'id' must be text or a whole number, got dict"),
        ('{"text": "a b", "rationale": 3}', "field 'rationale': must be a list of .* got int"),
        ('{"text": "a b", "rationale": "because"}', "field 'rationale': must be .* got 'because'"),
        ('{"text": "a b", "rationale": [[0, 4]]}', r"span \[0, 4\] does not lie in the text, which has 3 characters"),
        ('{"text": "a b", "rationale": [[2, 2]]}', r"span \[2, 2\] does not lie in the text"),
        ('{"text": "a b", "rationale": [[-1, 2]]}', r"span \[-1, 2\] does not lie in the text"),
        ('{"text": "a b", "rationale": [[0, 1, 1]]}', r"span \[0, 1, 1\] is in field 1, but there are 1"),
        ('{"text": "a b", "rationale": [[0.5, 1]]}', r"a span is \[start, end\]"),
        ('{"text": "a b", "rationale": [[0, 1, 0, 1]]}', "masks of several annotators go into the field 'annotators'"),
        ('{"text": "a b", "rationales": [1, 0, 1]}', "field 'rationales': the mask has 3 entries for 2 words"),
        ('{"text": "a b", "rationale": [1, 2]}', r"field 'rationale': must be .* got \[1, 2\]"),
        ('{"text": "ab", "tokens": ["a", "b"], "rationale": [1]}', "the mask has 1 entries for 2 tokens"),
        ('{"text": "ab", "tokens": ["a", "c"], "rationale": [1, 0]}', r"token 1 \('c'\) does not stand"),
        ('{"text": "ab", "tokens": [1], "rationale": [1]}', "field 'tokens' must be a list of texts"),
        ('{"text": "a b", "rationale": ["b c"]}', "the passage 'b c' does not stand in the text"),
        ('{"text": "a b", "annotators": [[[0, 1]], [1]]}', "field 'annotators': annotator 1: the mask has 1 entries"),
    ],
)
def test_the_line_and_the_field_are_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(FormatError, match=f"x.jsonl, line 3: .*{message}"):
        load_data(path)


def test_rows_are_counted_where_there_are_no_lines(tmp_path: Path) -> None:
    rows = [{"text": "a"}, {"text": None}]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet")
    for name in ("x.json", "x.parquet"):
        with pytest.raises(FormatError, match=f"{name}, row 2: field 'text' holds no text"):
            load_data(tmp_path / name)


def test_a_quoted_cell_may_hold_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('text,label\n"two\nlines",a\nfine\n', encoding="utf-8")
    with pytest.raises(FormatError, match=r"x.csv, line 4: 1 columns, but the first line names 2: text, label"):
        load_data(path)
    path.write_text('text,label\n"two\nlines",a\nfine,b,c\n', encoding="utf-8")
    with pytest.raises(FormatError, match=r"x.csv, line 4: 3 columns, but the first line names 2"):
        load_data(path)
    path.write_text('text,label\n"open,a\n', encoding="utf-8")
    with pytest.raises(FormatError, match=r"x.csv: not a table"):
        load_data(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": "reveiw"}, "line 1: column 'reveiw' .field 'text'. is missing; found label, text"),
        ({"label": "lable"}, "no row has the column 'lable', given for the field 'label' .did you mean label"),
        (
            {"rationale": "marks"},
            "no row has the column 'marks', given for the field 'rationale'; columns: label, text",
        ),
    ],
)
def test_columns_that_are_not_there(fields: dict[str, str], message: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps(GOOD))
    with pytest.raises(FormatError, match=message):
        load_data(tmp_path / "x.jsonl", fields=fields)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", b"", "x.jsonl holds no example: it is empty"),
        ("x.csv", b"text,label\n", "x.csv holds no example"),
        ("x.json", b"[]", "x.json holds no example"),
        ("x.json", b'{"text": "a"}', "expected a list of objects, got dict"),
        ("x.txt", b"\n \n", "x.txt holds no example"),
        ("x.jsonl", b"\xff\xfe", "x.jsonl is not UTF-8 text"),
        ("x.jsonl.gz", b"plain", "x.jsonl.gz is not a whole .gz file"),
        ("x.parquet", b"plain", "x.parquet .*"),
        ("x.arrow", b"plain", "x.arrow .*"),
    ],
)
def test_files_that_are_not_what_they_seem(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=message):
        load_data(tmp_path / name)


def test_formats_and_folders_that_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "x.docx").write_bytes(b"")
    with pytest.raises(InputError, match=r"x.docx: unknown format; give .jsonl, .*\.parquet"):
        load_data(tmp_path / "x.docx")
    with pytest.raises(InputError, match="holds no data file"):
        load_data(tmp_path)


def test_numbers_outside_the_classes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIDACT_DATA", str(tmp_path))
    monkeypatch.delenv("DIDACT_SHARED", raising=False)
    rows: list[dict[str, Any]] = [GOOD, {"text": "b", "label": 2}]
    (tmp_path / "imdb").mkdir()
    (tmp_path / "imdb" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(FormatError, match="line 2: field 'label' is 2, but the classes are 0 negative, 1 positive"):
        load_data("imdb")
