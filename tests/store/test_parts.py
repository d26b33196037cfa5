"""The store of parts: whole or not at all, also when killed, and however many write."""

import errno
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from didact.disk import DAY
from didact.errors import FormatError, InputError, ParameterError
from didact.store.parts import Parts

SRC = Path(__file__).resolve().parents[2] / "src"


def key(name: object) -> str:
    return hashlib.sha256(str(name).encode()).hexdigest()


def test_a_part_is_found_again(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "store")
    assert (parts.has(key(1)), list(parts.keys())) == (False, [])
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    parts.write(key(1), table)
    parts.write(key(2), table.slice(0, 0))
    again = Parts(tmp_path / "store")
    assert again.has(key(1))
    assert again.read(key(1)) == table
    assert again.read(key(2)).num_rows == 0
    assert list(again.keys()) == sorted([key(1), key(2)])
    assert (tmp_path / "store" / key(1)[:2] / f"{key(1)}.parquet").is_file()


def test_a_part_written_again_takes_the_olds_place(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.write(key(1), pa.table({"a": [1]}))
    parts.write(key(1), pa.table({"a": [2]}))
    assert parts.read(key(1)).column("a").to_pylist() == [2]
    assert list((tmp_path / "unfinished").iterdir()) == []


@pytest.mark.parametrize("wrong", ["", "abc", "../../etc", "ABCDEF0123", "g" * 16])
def test_a_key_that_could_lead_elsewhere_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ParameterError, match="8 to 128 hexadecimal digits"):
        Parts(tmp_path).has(wrong)


def test_a_part_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"no part {key(1)}"):
        Parts(tmp_path).read(key(1))


@pytest.mark.parametrize("damage", ["foreign", "empty", "cut", "flipped"])
def test_a_damaged_part_is_named_and_may_be_deleted(tmp_path: Path, damage: str) -> None:
    parts = Parts(tmp_path)
    parts.write(key(1), pa.table({"a": list(range(3000))}))
    path = next(tmp_path.glob("??/*.parquet"))
    whole = path.read_bytes()
    flipped = bytes([*whole[:200], whole[200] ^ 255, *whole[201:]])
    path.write_bytes({"foreign": b"hello", "empty": b"", "cut": whole[:-9], "flipped": flipped}[damage])
    with pytest.raises(FormatError, match=rf"{key(1)}\.parquet cannot be read as Parquet .*delete it and run again"):
        parts.read(key(1))
    path.unlink()
    assert not parts.has(key(1))


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    unwritable = pa.table({"a": pa.array([None], pa.month_day_nano_interval())})
    with pytest.raises(pa.ArrowException):
        parts.write(key(1), unwritable)
    assert not parts.has(key(1))
    assert list(tmp_path.rglob("*.tmp")) == []


def test_a_full_disk_leaves_the_old_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Parts(tmp_path)
    parts.write(key(1), pa.table({"a": [1]}))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot write .*: No space left on device"):
        parts.write(key(1), pa.table({"a": [2]}))
    assert parts.read(key(1)).column("a").to_pylist() == [1]
    assert list(tmp_path.rglob("*.tmp")) == []


def test_a_part_under_another_key_is_refused(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    for number in (1, 2):
        parts.write(key(number), pa.table({"a": [number]}))
    one, two = (tmp_path / key(number)[:2] / f"{key(number)}.parquet" for number in (1, 2))
    two.write_bytes(one.read_bytes())
    with pytest.raises(FormatError, match=f"{key(2)}.parquet holds the result {key(1)} instead of {key(2)}; delete it"):
        parts.read(key(2))
    assert parts.read(key(1)).schema.metadata is None


def test_every_flipped_bit_of_a_part_is_refused(tmp_path: Path) -> None:
    """Also in Parquet's own metadata, which pages' checksums do not cover."""
    parts = Parts(tmp_path)
    table = pa.table({"a": [1.5, 2.5], "b": ["x", None]}).replace_schema_metadata({"facts": '{"peak": 12}'})
    parts.write(key(1), table)
    path = next(tmp_path.glob("??/*.parquet"))
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), 5):
        harmed = bytearray(whole)
        harmed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(harmed)
        try:
            read = parts.read(key(1))
        except FormatError:
            continue
        assert read.equals(table, check_metadata=True)


def test_many_writers_of_the_same_keys_do_no_harm(tmp_path: Path) -> None:
    table = pa.table({"a": list(range(5000))})

    def work(writer: int) -> None:
        parts = Parts(tmp_path)
        for number in range(6):
            parts.write(key(number), table)
            assert parts.read(key((number + writer) % (number + 1))) == table

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(list(Parts(tmp_path).keys())) == 6


def test_old_leftovers_are_removed_and_young_ones_are_not(tmp_path: Path) -> None:
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    old, young = unfinished / ".a.parquet.1.00.tmp", unfinished / ".b.parquet.2.00.tmp"
    for path in (old, young):
        path.write_bytes(b"half")
    long_ago = time.time() - 2 * DAY
    os.utime(old, (long_ago, long_ago))
    Parts(tmp_path).write(key(1), pa.table({"a": [1]}))
    assert list(unfinished.iterdir()) == [young]


WRITE = """
import hashlib, sys
import pyarrow as pa
from didact.store.parts import Parts
parts = Parts(sys.argv[1])
number = 0
while True:
    key = hashlib.sha256(str(number % 40).encode()).hexdigest()
    parts.write(key, pa.table({"number": [number % 40] * 20000, "more": list(range(20000))}))
    number += 1
    print(number, flush=True)
"""


def test_every_part_reads_after_the_writer_was_killed_at_any_moment(tmp_path: Path) -> None:
    rng = random.Random(0)
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITE, str(tmp_path)],
            env=os.environ | {"PYTHONPATH": str(SRC)},
            stdout=subprocess.PIPE,
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"1\n"
        time.sleep(rng.uniform(0, 0.1))
        writer.send_signal(signal.SIGKILL)
        writer.wait(timeout=30)
        writer.stdout.close()
        parts = Parts(tmp_path)
        numbers = {key(number): number for number in range(40)}
        seen = list(parts.keys())
        assert seen
        for name in seen:
            table = parts.read(name)
            assert table.num_rows == 20000
            assert set(table.column("number").to_pylist()) == {numbers[name]}
