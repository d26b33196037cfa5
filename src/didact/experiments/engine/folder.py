"""The folder of a run: one recipe, one process that writes, and results that change all at once.

OUT/run.json    what is run here, entry by entry; another recipe is refused
OUT/.lock       held by the process that writes
OUT/.new/       results that are being written; OUT/.ready/ when all are, until each has its place in OUT
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from didact import disk
from didact.errors import InputError
from didact.experiments.engine.objects import read_object, write_object
from didact.experiments.engine.steps import RecipeJob
from didact.experiments.engine.toml import Plain
from didact.locks import locked
from didact.provenance import content_hash

RUN = "run.json"
RECORDS = "records.parquet"
"""The results of every kind of recipe; where it is missing there are no results yet."""

REPORTS = ("report.*", "summary.json", "gains.svg")
"""Files that reports of any kind write, made from results."""

_NEW, _READY = ".new", ".ready"


@contextlib.contextmanager
def claimed(job: RecipeJob) -> Iterator[None]:
    """Hold the folder of a job, which from now on belongs to what the job carries out.

    Raises:
        InputError: another process is writing it, or it belongs to another recipe and is not to be overwritten.
    """
    out = job.options.out
    with locked(out, "give another folder (--out)"):
        disk.sweep(out)
        settle(out)
        owner = _owner(out)
        entries = {name: content_hash([value]) for name, value in job.identity().items()}
        differ = _differing(owner.get("entries"), entries)
        if differ and not job.options.overwrite:
            raise InputError(
                f"{out} holds a run of another recipe, with other {', '.join(differ)}; give another folder (--out), "
                "or replace its results (--overwrite; explanations and other parts that both need are used again)"
            )
        stale = bool(owner.get("stale")) or bool(differ)
        write_object(out / RUN, {**owner, "entries": entries, "stale": stale})
        job.results = _emptied(out / _NEW)
        try:
            yield
        finally:
            shutil.rmtree(out / _NEW, ignore_errors=True)


def publish(out: Path) -> None:
    """Put the results that a job has written in place of the earlier ones, unless they lack what those have."""
    new = out / _NEW
    if (out / RECORDS).is_file() and not (new / RECORDS).is_file():
        return
    try:
        new.replace(out / _READY)
        settle(out)
        new.mkdir(exist_ok=True)
    except OSError as problem:
        raise disk.refused(out, problem) from problem


def settled(out: Path) -> None:
    """The same for whoever reads: nothing where a process is writing the folder, or it cannot be written."""
    if (out / _READY).is_dir():
        with contextlib.suppress(InputError), locked(out, ""):
            settle(out)


def settle(out: Path) -> None:
    """Finish putting results into their places where a process was killed while it did, and drop stale ones."""
    ready = out / _READY
    if not ready.is_dir():
        return
    owner = _owner(out)
    names = sorted({*owner.get("moving", ()), *(path.name for path in ready.iterdir())})
    write_object(out / RUN, {**owner, "moving": names})  # those that have moved are no longer in the folder
    earlier = set(owner.get("files", ()))
    if owner.get("stale"):
        _drop(out, {*earlier, *_reports(out)} - set(names))
        earlier = set()
    disk.move_files(ready, out, RECORDS)
    shutil.rmtree(ready)
    write_object(out / RUN, {**owner, "stale": False, "files": sorted({*earlier, *names}), "moving": []})


def _owner(out: Path) -> Plain:
    """What run.json says; nothing where there is none."""
    path = out / RUN
    cure = "delete it if the run is yours, or give another folder (--out)"
    return read_object(path, f"{path} is missing", cure) if path.is_file() else {}


def _differing(known: object, entries: Mapping[str, str]) -> list[str]:
    """Names of the entries that are not those of the folder's run; none where it has none."""
    if not isinstance(known, Mapping):
        return []
    return sorted(name for name in {*known, *entries} if known.get(name) != entries.get(name))


def _reports(out: Path) -> Iterator[str]:
    for pattern in REPORTS:
        yield from (path.name for path in out.glob(pattern))


def _drop(out: Path, names: set[str]) -> None:
    for name in names:
        (out / Path(name).name).unlink(missing_ok=True)


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
