import errno
import os
from pathlib import Path

import pytest

from didact import disk
from didact.errors import InputError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_half(path: Path, problem: Exception) -> None:
    with disk.replacing(path) as file:
        file.write(b"half of the new")
        raise problem


def test_a_text_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.txt"
    disk.write_text(path, "old")
    disk.write_text(path, "new \ud800")
    assert path.read_text("utf-8") == "new \\ud800"
    assert names(path.parent) == ["report.txt"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    path.write_text("old")
    with pytest.raises(InputError, match=r"cannot write .*report\.txt.*: No space left on device"):
        write_half(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert path.read_text() == "old"
    assert names(tmp_path) == ["report.txt"]


def test_a_failure_of_the_writer_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write_half(tmp_path / "x", KeyError("x"))
    assert names(tmp_path) == []


@pytest.mark.parametrize("given", ["folder", "file/inside", "folder/" + "n" * 300, "nul\0"])
def test_what_cannot_be_written_is_refused_before_and_after_the_work(tmp_path: Path, given: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("a file")
    for write in (disk.check_writable, lambda path: disk.write_text(path, "new")):
        with pytest.raises(InputError, match="cannot write"):
            write(tmp_path / given)
    assert names(tmp_path) == ["file", "folder"]
    assert names(tmp_path / "folder") == []


def test_a_check_leaves_nothing(tmp_path: Path) -> None:
    disk.check_writable(tmp_path / "a" / "b" / "report.html")
    assert names(tmp_path) == []
    (tmp_path / "kept").write_text("kept")
    disk.check_writable(tmp_path / "kept")
    assert (tmp_path / "kept").read_text() == "kept"
