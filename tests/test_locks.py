"""Locks: one holder at a time, named to whoever waits, and gone with it however it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from didact.errors import InputError
from didact.locks import locked

HOLD = """
import sys, time
from pathlib import Path
from didact.locks import locked
with locked(Path(sys.argv[1]), ""):
    print("held", flush=True)
    time.sleep(60)
"""


def test_another_process_is_refused_by_name_until_the_holder_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match=rf"run is being written by process {holder.pid} on .*, or wait here"):
            locked(folder, "wait here").__enter__()
        holder.kill()
    with locked(folder, ""), pytest.raises(InputError, match="is being written"), locked(folder, ""):
        pass
    with locked(folder, ""):
        pass


def test_a_place_that_cannot_be_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*file"), locked(tmp_path / "file", ""):
        pass
