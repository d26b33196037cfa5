"""Data sets of the Hugging Face library `datasets`: from the Hub, from disk, or as objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from didact.data.rows import Row
from didact.errors import InputError


def load_hub(address: str) -> Any:
    """A data set of the Hub, OWNER/NAME[:CONFIG][@REVISION], as a `DatasetDict`."""
    datasets = _library(f"reading {address!r} from the Hub")
    path, config, revision = _parts(address)
    try:
        return datasets.load_dataset(path, config, revision=revision)
    except _problems(datasets) as problem:
        raise _unreachable(address, problem) from None


def load_saved(folder: Path) -> Any:
    """A `Dataset` or `DatasetDict` from the folder it was saved to with ``save_to_disk``."""
    datasets = _library(f"reading {folder}")
    try:
        return datasets.load_from_disk(str(folder))
    except (OSError, ValueError) as problem:
        raise InputError(f"{folder} cannot be read as a saved data set: {problem}") from None


def is_saved(folder: Path) -> bool:
    """Whether ``save_to_disk`` wrote the folder."""
    return any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))


def is_table(given: object) -> bool:
    """Whether it is one split: a `datasets.Dataset`, told by its home so that nothing is imported."""
    return type(given).__module__.startswith("datasets.") and hasattr(given, "column_names") and not is_tables(given)


def is_tables(given: object) -> bool:
    """Whether it is a `datasets.DatasetDict`."""
    return type(given).__module__.startswith("datasets.") and isinstance(given, dict)


def table_rows(table: Any, source: str) -> Iterator[Row]:
    """The rows of a `datasets.Dataset`."""
    for number, row in enumerate(table, start=1):
        yield f"{source}, row {number}", row


def table_labels(table: Any) -> dict[str, tuple[str, ...]]:
    """Column -> names of its classes."""
    features = table.features or {}
    return {column: tuple(feature.names) for column, feature in features.items() if hasattr(feature, "names")}


def _library(purpose: str) -> ModuleType:
    try:
        import datasets
    except ImportError:
        raise InputError(f"{purpose} needs the library datasets: pip install 'didact[datasets]'") from None
    return datasets  # type: ignore[no-any-return]


def _parts(address: str) -> tuple[str, str | None, str | None]:
    """OWNER/NAME[:CONFIG][@REVISION] -> its parts."""
    path, _, revision = address.partition("@")
    path, _, config = path.partition(":")
    return path, config or None, revision or None


def _problems(datasets: ModuleType) -> tuple[type[Exception], ...]:
    return (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError)


def _unreachable(address: str, problem: Exception) -> InputError:
    first = (str(problem).strip() or type(problem).__name__).splitlines()[0]
    return InputError(
        f"cannot load {address!r} from the Hugging Face Hub: {first:.200}. Check the id and the network, or download "
        "it and give the folder"
    )
