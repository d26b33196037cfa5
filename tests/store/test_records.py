"""Records on disk: the same rows back, the same bytes from every process, in an order of their own."""

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.errors import FormatError, InputError
from didact.store import records
from didact.types import Record

SRC = Path(__file__).resolve().parents[2] / "src"
PROPERTY = settings(max_examples=40, deadline=None, derandomize=True)
NAME = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
RECORD = st.builds(
    Record,
    explainer=NAME,
    method=NAME,
    seed=st.integers(-(2**63), 2**63 - 1),
    null=st.sampled_from(["", "shuffle", "labels"]),
    metric=NAME,
    part=NAME,
    example=NAME,
    value=st.floats(),
    model=NAME,
    data=NAME,
    settings=NAME,
)


def row(explainer: str = "lime", example: str = "1", value: float = 0.5) -> Record:
    return Record(explainer, "lime", 0, "", "comprehensiveness", "", example, value, "m", "sst2", "s")


@PROPERTY
@given(st.lists(RECORD, max_size=8))
def test_every_record_comes_back(rows: list[Record]) -> None:
    assert repr(records.from_table(records.to_table(rows))) == repr(rows)  # repr: NaN is NaN, -0.0 is not 0.0


def test_a_file_gives_the_table_back(tmp_path: Path) -> None:
    table = records.to_table([row("lime"), row("ig", value=float("nan")), row("lime", "2")])
    records.write(tmp_path / "new" / "records.parquet", table)
    found = records.read(tmp_path / "new" / "records.parquet")
    assert found.schema == table.schema
    assert repr(records.from_table(found)) == repr(records.from_table(table))


def test_no_records_are_a_table_too(tmp_path: Path) -> None:
    records.write(tmp_path / "r.parquet", records.to_table([]))
    assert records.from_table(records.read(tmp_path / "r.parquet")) == []


WRITE = """
import sys
from didact.store import records
from didact.types import Record
names = sorted({"lime", "ig", "random"}, key=hash) if sys.argv[2] == "pieces" else ["ig", "lime", "random"]
rows = [Record(name, name, 0, "", "auc", "", str(i), i / 7 if i % 5 else float("nan"), "m", "d", "s")
        for i in range(50) for name in names]
if sys.argv[2] == "pieces":
    import pyarrow as pa
    rows.sort(key=lambda r: (int(r.example), r.explainer))
    parts = [records.to_table(rows[start : start + 7]) for start in range(0, len(rows), 7)]
    table = pa.concat_tables(parts).replace_schema_metadata({"pandas": "{}"})
else:
    table = records.to_table(rows)
records.write(sys.argv[1], table)
"""


def test_equal_tables_give_equal_bytes_in_every_process_however_they_were_made(tmp_path: Path) -> None:
    for number, way in enumerate(["whole", "whole", "pieces"]):
        subprocess.run(
            [sys.executable, "-c", WRITE, str(tmp_path / f"{number}.parquet"), way],
            env=os.environ | {"PYTHONPATH": str(SRC), "PYTHONHASHSEED": str(number)},
            check=True,
            timeout=60,
        )
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 3
    assert len(digests) == 1


@PROPERTY
@given(st.lists(RECORD, max_size=8), st.integers(0, 100))
def test_sorted_rows_do_not_show_the_order_they_came_in(rows: list[Record], seed: int) -> None:
    rows = list({repr(vars(one) | {"value": 0}): one for one in rows}.values())  # one value per name
    shuffled = random.Random(seed).sample(rows, len(rows))
    first, second = (records.in_order(records.to_table(given)) for given in (rows, shuffled))
    assert repr(records.from_table(first)) == repr(records.from_table(second))
    assert sorted(map(repr, records.from_table(first))) == sorted(map(repr, rows))


def test_sorts_by_name_not_by_first_appearance() -> None:
    table = records.to_table([row("lime"), row("ig", "2"), row("ig", "1")])
    found = records.from_table(records.in_order(table))
    assert [(one.explainer, one.example) for one in found] == [("ig", "1"), ("ig", "2"), ("lime", "1")]


def test_plain_strings_and_further_columns_are_read_too() -> None:
    table = records.to_table([row()])
    plain = pa.table({name: table.column(name).to_pylist() for name in reversed(table.column_names)} | {"more": [1]})
    assert records.from_table(plain) == [row()]


def test_what_is_no_table_of_records_is_told(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"lacks method, seed, .*; it has \['explainer'\]"):
        records.from_table(pa.table({"explainer": ["lime"]}))
    table = records.to_table([row()])
    wrong = table.set_column(table.column_names.index("value"), "value", pa.array(["much"]))
    with pytest.raises(FormatError, match="column 'value' is string, not double"):
        records.from_table(wrong)
    empty = table.set_column(table.column_names.index("value"), "value", pa.array([None], pa.float64()))
    with pytest.raises(FormatError, match="column 'value' has empty cells"):
        records.from_table(empty)
    with pytest.raises(FormatError, match="column 'explainer' takes"):
        records.to_table([row("\ud800")])
    with pytest.raises(InputError, match="no file"):
        records.read(tmp_path / "absent.parquet")


@pytest.mark.parametrize("content", ["text", "nothing", "other table"])
def test_a_foreign_file_is_named_and_may_be_deleted(tmp_path: Path, content: str) -> None:
    path = tmp_path / "records.parquet"
    if content == "other table":
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        path.write_bytes(b"not parquet at all" if content == "text" else b"")
    with pytest.raises(FormatError, match=r"records\.parquet.*delete it"):
        records.read(path)
