"""Checksums: every flipped bit is noticed, and files of a folder are the ones that were saved."""

import json
import random
from pathlib import Path

import pytest

from didact import checksums
from didact.errors import FormatError


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_flipped_bit_of_a_sealed_file_is_noticed() -> None:
    mark = checksums.MARK.encode()
    data = checksums.seal(b"head " + mark + b'":"' + checksums.BLANK.encode() + b'" tail')
    assert checksums.is_whole(data)
    assert checksums.is_whole(b"no digest at all") is None
    outside = set(range(5 * 8, (5 + len(mark)) * 8))  # the name itself: then there is no digest to check
    for bit in set(range(8 * len(data))) - outside:
        assert checksums.is_whole(flipped(data, bit)) is False


def test_a_changed_value_of_an_object_is_noticed() -> None:
    values = checksums.sealed({"a": 1, "b": [1.5, float("nan")], "c": {"d": ("x", None)}})
    again = json.loads(json.dumps(values))
    checksums.check_sealed(again, Path("x.json"), "run again")
    checksums.check_sealed({"a": 2}, Path("x.json"), "older files have none")
    for change in ({"a": 2}, {"new": 0}, {"c": {"d": ["x", 0]}}):
        with pytest.raises(FormatError, match=r"x\.json is damaged or was changed.*run again"):
            checksums.check_sealed(again | change, Path("x.json"), "run again")


@pytest.mark.parametrize("harm", ["changed", "missing", "unlisted", "elsewhere", "digest"])
def test_files_of_a_folder_are_the_ones_that_were_saved(harm: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.bin").write_bytes(b"abc")
    (tmp_path / "b.txt").write_text("b")
    checksums.write_hashes(tmp_path)
    checksums.check_hashes(tmp_path, "copy it", needed=True)
    path, message = tmp_path / checksums.HASHES, "in/a.bin"
    if harm == "changed":
        (tmp_path / "in" / "a.bin").write_bytes(b"abd")
    elif harm == "missing":
        (tmp_path / "in" / "a.bin").unlink()
    elif harm == "unlisted":
        path.unlink()
        message = checksums.HASHES
    elif harm == "elsewhere":
        path.write_text(json.dumps(checksums.sealed({"files": {"../../secret": "0"}})))
        message = "outside of itself"
    else:
        bit = random.Random(0).randrange(8 * path.stat().st_size)
        path.write_bytes(flipped(path.read_bytes(), bit))
        message = ""
    with pytest.raises(FormatError, match=f"{message}.*copy it"):
        checksums.check_hashes(tmp_path, "copy it", needed=True)
