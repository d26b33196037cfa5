"""Data sets of the Hugging Face library `datasets`: from the Hub, from disk, or as objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeGuard

from didact.data.rows import Row
from didact.errors import InputError

if TYPE_CHECKING:
    import datasets


def load_hub(address: str) -> datasets.DatasetDict:
    """A data set of the Hub, OWNER/NAME[:CONFIG][@REVISION], as a `DatasetDict`."""
    library = _library(f"reading {address!r} from the Hub")
    path, config, revision = _parts(address)
    try:
        return library.load_dataset(path, config, revision=revision)
    except _problems(library) as problem:
        raise _unreachable(address, problem) from None


def load_saved(folder: Path) -> datasets.Dataset | datasets.DatasetDict:
    """A `Dataset` or `DatasetDict` from the folder it was saved to with ``save_to_disk``."""
    library = _library(f"reading {folder}")
    try:
        return library.load_from_disk(str(folder))
    except (OSError, ValueError) as problem:
        raise InputError(f"{folder} cannot be read as a saved data set: {problem}") from None


def is_saved(folder: Path) -> bool:
    """Whether ``save_to_disk`` wrote the folder."""
    return any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))


def is_table(obj: object) -> TypeGuard[datasets.Dataset]:
    """Whether it is one split, a `datasets.Dataset`; recognised by its module, so that nothing is imported."""
    return type(obj).__module__.startswith("datasets.") and hasattr(obj, "column_names") and not is_tables(obj)


def is_tables(obj: object) -> TypeGuard[datasets.DatasetDict]:
    """Whether it is a `datasets.DatasetDict`."""
    return type(obj).__module__.startswith("datasets.") and isinstance(obj, dict)


def table_rows(table: datasets.Dataset, source: str) -> Iterator[Row]:
    """The rows of a `datasets.Dataset`."""
    for number, row in enumerate(table, start=1):
        yield f"{source}, row {number}", row


def table_labels(table: datasets.Dataset) -> dict[str, tuple[str, ...]]:
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


def _problems(library: ModuleType) -> tuple[type[Exception], ...]:
    return (OSError, ValueError, RuntimeError, library.exceptions.DatasetsError)


def _unreachable(address: str, problem: Exception) -> InputError:
    first = (str(problem).strip() or type(problem).__name__).splitlines()[0]
    return InputError(
        f"cannot load {address!r} from the Hugging Face Hub: {first:.200}. Check the id and the network, or download "
        "it and give the folder"
    )
