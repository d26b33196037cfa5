"""Finished runs of a kind, in the folder given or in the first usual one that has some."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from didact.errors import InputError
from didact.experiments.engine.objects import read_object


def finished_runs(folder: Path | str | None, usual: Sequence[str], kind: str) -> tuple[Path | None, list[Path]]:
    """The folder that holds runs, and the runs; no folder where none is given and no usual one has any.

    Raises:
        InputError: a folder is given and is not there, or holds no finished run of the kind.
    """
    places = [Path(folder)] if folder is not None else [Path(name) for name in usual]
    if folder is not None and not places[0].is_dir():
        raise InputError(f"there is no folder {folder}")
    for place in places:
        runs = [path.parent for path in sorted([*place.glob("manifest.json"), *place.glob("*/manifest.json")])]
        finished = [run for run in runs if (run / "records.parquet").is_file() and _kind(run) == kind]
        if finished:
            return place, finished
    if folder is not None:
        raise InputError(f"{folder} holds no finished run of kind {kind}: give the folder of one, or its parent")
    return None, []


def _kind(run: Path) -> object:
    return read_object(run / "manifest.json", f"{run / 'manifest.json'} is missing").get("kind")
