"""Loads examples from files, folders, presets, the Hub, objects of `datasets` and Python lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from didact.data import hub
from didact.data.dataset import Dataset
from didact.data.files import FORMATS, format_of, is_there, label_names, read_rows, split_files, stem_of
from didact.data.frames import is_columns, is_frame, is_in_memory, rows_in_memory
from didact.data.images import ENDINGS, ImageRow, Splits, folder_splits
from didact.data.presets import PRESETS, Preset
from didact.data.rows import USUAL, Draft, Fields, Row, RowReader, Unreadable
from didact.data.sampling import Slice, check_limit, sample
from didact.errors import InputError, ParameterError, UnknownNameError
from didact.registry import close_names
from didact.settings import checked
from didact.types import Example
from didact.validation import shown

if TYPE_CHECKING:
    import datasets

    from didact.protocols import ExampleLike

CORPUS = "corpus"
CORPUS_SIZE = 1_000
WHOLE = "all"
"""Name of the only split of a source that has none."""

_ALIASES = {"dev": "validation", "val": "validation", "valid": "validation"}


@checked
def load_data(  # noqa: PLR0913 - the one door, and every option has a default
    source: object,
    *,
    split: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    fields: Fields | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
) -> Dataset:
    """Load examples.

    Args:
        source: a file (.jsonl, .ndjson, .json, .csv, .tsv, .txt, also .gz; .parquet, .arrow, .feather), a folder with
            a file per split, a folder of images with a folder per label (and perhaps per split), the name of a preset,
            "corpus" (generated texts with planted rationales), a data set on the Hugging Face Hub ("hub:OWNER/NAME",
            with ":CONFIG" and "@REVISION" where needed), a `datasets` object, a DataFrame or a column of pandas or
            polars, a pyarrow table, a numpy array of texts, a dictionary of columns or of a DataFrame per split, or a
            list of texts, pairs, images, dictionaries or examples.
        split: its name, or several joined by "+"; the only one, else "test", else "validation" unless given.
        limit: at most so many, sampled in the proportion of the labels. Seed and texts alone decide which and in
            which order, not the order of the file; a smaller limit gives the beginning of a larger one's. Images in
            files are chosen by their names, so that no others are read.
        seed: of the sampling; for "corpus" of the generation.
        fields: field of an example ("text", "text_pair", "label", "rationale", "annotators", "tags", "tags_pair",
            "tokens", "id", "image", "mask") -> column, where it is not one of the usual names; None leaves a field out.
        text_column: short for ``fields={"text": text_column}``.
        label_column: short for ``fields={"label": label_column}``.

    Example:
        >>> data = load_data([{"review": "A dull plot.", "label": "negative", "rationale": [[2, 6]]}])
        >>> data.examples[0].rationale
        (Span(start=2, end=6, field=0),)
    """
    for name, value, kind in (("split", split, str), ("fields", fields, Mapping)):
        if value is not None and not isinstance(value, kind):
            raise ParameterError(f"{name} must be {kind.__name__} or None, got {shown(value)}")
    if isinstance(source, str) and source == CORPUS:
        return _generated(split, limit, seed)
    columns = with_columns(fields, text_column, label_column)
    opened = _open(source)
    name = _chosen(opened, split)
    drafts: list[Draft] = []
    labels: tuple[str, ...] = ()
    for part in name.split("+"):
        more, names = _drafts(opened, part, columns)
        drafts += more
        labels = labels or names
    return Dataset(opened.name, name, _chosen_of(drafts, limit, seed), labels or _named(drafts))


def load_apart(source: object) -> list[Example | Unreadable]:
    """The rows of a source in order, each as an example, or with the reason why it is none."""
    opened = _open(source)
    table = opened.splits[_chosen(opened, None)]()
    reader = RowReader({}, _label_names(table, {}), folder=table.folder)
    return reader.read_apart(table.rows, opened.name)


def with_columns(fields: Fields | None, text: str | None, label: str | None) -> Fields:
    """The columns of fields with those of text and label, where they are named apart; naming one twice is refused."""
    named = {field: column for field, column in (("text", text), ("label", label)) if column is not None}
    twice = sorted(named.keys() & (fields or {}).keys())
    if twice:
        raise ParameterError(f"the column of {' and '.join(twice)} is named both in fields and by {twice[0]}_column")
    return {**(fields or {}), **named}


def load_rows(source: object, split: str | None = None) -> Rows:
    """The rows of a published split before they are read as examples, for data with more fields than an example has.

    Args:
        source: as for ``load_data``.
        split: one split; chosen as ``load_data`` does unless given.
    """
    opened = _open(source)
    name = _chosen(opened, split)
    if name not in opened.splits:
        raise InputError(f"{opened.name}: give one published split ({', '.join(opened.splits)}), got {split!r}")
    return Rows(opened.name, name, opened.splits[name]().rows, opened.preset.fields if opened.preset else {})


@dataclass(frozen=True)
class Rows:
    """The rows of one split and how to read them.

    Attributes:
        name: of the source.
        split: of the split.
        rows: each with where it stands.
        fields: a preset's columns.
    """

    name: str
    split: str
    rows: Iterable[Row]
    fields: Fields


@dataclass(frozen=True)
class SplitTable:
    """The rows of one split.

    Attributes:
        rows: each with where it stands.
        labels: column -> names of its classes, where the source knows them.
        folder: where paths of images begin.
    """

    rows: Iterable[Row]
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    folder: Path | None = None


@dataclass(frozen=True)
class Source:
    """Anything with splits.

    Attributes:
        name: for messages and records.
        splits: split -> a function that reads it.
        preset: its labels, columns and further splits, where it is a known data set.
    """

    name: str
    splits: Mapping[str, Callable[[], SplitTable]]
    preset: Preset | None = None

    @property
    def parts(self) -> Mapping[str, Slice]:
        """Splits that are cut from others, as far as those are there."""
        parts = self.preset.parts if self.preset else {}
        return {name: part for name, part in parts.items() if set(part.of.split("+")) <= self.splits.keys()}


def _open(source: object) -> Source:
    if isinstance(source, Path):
        return _on_disk(source)
    if isinstance(source, str):
        return _named_source(source)
    if hub.is_tables(source):
        return Source("datasets", {str(split): _table(table, "datasets") for split, table in source.items()})
    if hub.is_table(source):
        return Source("datasets", {str(source.split or WHOLE): _table(source, "datasets")})
    if isinstance(source, Dataset):
        rows = [(f"{source.name}, row {number}", example) for number, example in enumerate(source, start=1)]
        return Source(source.name, {source.split: lambda: SplitTable(rows, {"label": source.labels})})
    if isinstance(source, Mapping) and source and all(is_frame(table) for table in source.values()):
        return Source("dict", {str(split): _in_memory(table) for split, table in source.items()})
    if is_in_memory(source):
        return Source("columns" if is_columns(source) else type(source).__name__, {WHOLE: _in_memory(source)})
    if isinstance(source, Mapping):
        return Source("dict", {WHOLE: lambda: SplitTable([("the dictionary", source)])})
    if isinstance(source, Sequence):
        return Source("list", {WHOLE: lambda: SplitTable(_listed(source))})
    raise InputError(
        f"cannot load data from {type(source).__name__}; give a path, the name of a preset, a Hub id, an object of "
        "`datasets`, a DataFrame or one of its columns, an array of texts, a dictionary, or a list"
    )


def _named_source(name: str) -> Source:
    if name in PRESETS:
        return _preset(PRESETS[name])
    if name.startswith("hub:"):
        return _on_hub(name.removeprefix("hub:"), name)
    path = Path(name).expanduser()
    if is_there(path):
        return _on_disk(path)
    if format_of(path) is not None:
        raise InputError(f"there is no file {name}")
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return _on_hub(name, name)
    known = (*PRESETS, CORPUS)
    raise UnknownNameError(
        f"unknown data {name!r}{close_names(name, known)}: no file, no folder and no preset; presets: "
        f"{', '.join(known)}; a data set on the Hub is written hub:OWNER/NAME"
    )


def _preset(preset: Preset) -> Source:
    folder = preset.folder()
    if folder is None and not preset.hub:
        raise InputError(
            f"{preset.name} is not on the Hub: put a file per split ({', '.join(preset.splits)}) into "
            f"$DIDACT_DATA/{preset.name}"
        )
    try:
        opened = _on_hub(preset.hub, preset.name) if folder is None else _in_folder(preset, folder)
    except InputError as problem:
        raise InputError(f"{problem}; {preset.name} is looked for as $DIDACT_DATA/{preset.name} first") from None
    # GLUE on the Hub has test sets without labels, which are no splits of the preset.
    return Source(
        preset.name, {split: opened.splits[split] for split in preset.splits if split in opened.splits}, preset
    )


def _in_folder(preset: Preset, folder: Path) -> Source:
    """A preset's own folder, in the form that it is known to have."""
    return _on_disk(folder) if preset.reader is None else _images(preset.name, preset.reader(folder))


def _images(name: str, splits: Splits) -> Source:
    return Source(name, {split: _image_table(rows) for split, rows in splits.items()})


def _image_table(rows: Callable[[], Iterable[ImageRow]]) -> Callable[[], SplitTable]:
    return lambda: SplitTable(rows())


def _on_disk(path: Path) -> Source:
    if is_there(path) and path.is_dir():
        if hub.is_saved(path):
            saved = _open(hub.load_saved(path))
            return Source(str(path), saved.splits)
        files = split_files(path)
        pictures = {} if files else folder_splits(path)
        if pictures:
            return _images(str(path), pictures)
        if not files:
            known = ", ".join((*FORMATS, *ENDINGS))
            raise InputError(f"the folder {path} holds no data file and no image; known formats: {known}")
        return Source(str(path), {split: _files(paths) for split, paths in files.items()})
    if not is_there(path):
        raise InputError(f"there is no file {path}")
    return Source(str(path), {stem_of(path): _files([path])})


def _on_hub(address: str, name: str) -> Source:
    return Source(name, _open(hub.load_hub(address)).splits)


def _files(paths: Sequence[Path]) -> Callable[[], SplitTable]:
    return lambda: SplitTable(
        (row for path in paths for row in read_rows(path)), label_names(paths[0]), paths[0].parent
    )


def _table(table: datasets.Dataset, source: str) -> Callable[[], SplitTable]:
    return lambda: SplitTable(hub.table_rows(table, source), hub.table_labels(table))


def _in_memory(table: object) -> Callable[[], SplitTable]:
    return lambda: SplitTable(rows_in_memory(table))


def _listed(items: Sequence[object]) -> Iterable[Row]:
    for number, item in enumerate(items):
        where = f"item {number} of the list"
        if isinstance(item, Mapping):
            yield where, item
            continue
        try:
            yield where, Example.of(cast("ExampleLike", item))
        except (InputError, TypeError, ValueError) as problem:
            raise InputError(f"{where}: {problem}; give texts, pairs of texts, dictionaries or examples") from None


def _drafts(source: Source, split: str, fields: Fields) -> tuple[list[Draft], tuple[str, ...]]:
    if split in source.parts:
        part = source.parts[split]
        pieces = [_drafts(source, name, fields) for name in part.of.split("+")]
        whole = [draft.read() for drafts, _ in pieces for draft in drafts]
        return [Draft(example) for example in part.cut(whole, source.name)], pieces[0][1]
    table = source.splits[split]()
    preset = source.preset
    labels = preset.labels if preset else _label_names(table, fields)
    reader = RowReader(fields, labels, preset.fields if preset else None, table.folder)
    where = source.name if len(source.splits) == 1 else f"{source.name} ({split})"
    return reader.drafts(table.rows, where), labels


def _chosen_of(drafts: Sequence[Draft], limit: int | None, seed: int) -> tuple[Example, ...]:
    """A sample, for which no other image is read."""
    by_example = {id(draft.example): draft for draft in drafts}
    chosen = sample([draft.example for draft in drafts], limit, seed)
    return tuple(by_example[id(example)].read() for example in chosen)


def _label_names(table: SplitTable, fields: Fields) -> tuple[str, ...]:
    chosen = fields.get("label", USUAL["label"])
    columns = () if chosen is None else (chosen,) if isinstance(chosen, str) else chosen
    return next((table.labels[column] for column in columns if column in table.labels), ())


def _chosen(source: Source, requested: str | None) -> str:
    """The name of the split, or the names joined by "+", as the source spells them."""
    available = [*source.splits, *source.parts]
    if requested is None:
        usual = [split for split in ("test", "validation", "dev") if split in source.splits]
        if len(source.splits) == 1 or usual:
            return usual[0] if usual else next(iter(source.splits))
        raise InputError(f"{source.name} has several splits; choose one of {', '.join(available)}")
    return "+".join(_spelled(source.name, part, available) for part in requested.split("+"))


def _spelled(name: str, requested: str, available: Sequence[str]) -> str:
    if requested in available:
        return requested
    same = [split for split in available if _plain_split(split) == _plain_split(requested)]
    if len(same) == 1:
        return same[0]
    raise InputError(f"{name} has no split {requested!r}; there is {', '.join(available)} (several are joined by '+')")


def _plain_split(split: str) -> str:
    """A split's name with one word for validation, alone or at the end ("student_dev")."""
    head, line, last = split.rpartition("_")
    return head + line + _ALIASES.get(last, last)


def _named(drafts: Sequence[Draft]) -> tuple[str, ...]:
    labels = {draft.example.label for draft in drafts} - {None}
    names = sorted(label for label in labels if isinstance(label, str))
    return tuple(names) if len(names) == len(labels) else ()


def _generated(split: str | None, limit: int | None, seed: int) -> Dataset:
    from didact.data.corpus import LABELS, generate

    if split not in (None, WHOLE):
        raise InputError(f"{CORPUS} has no split {split!r}; another seed gives other texts")
    if limit is not None:
        check_limit(limit)
    return Dataset(CORPUS, WHOLE, tuple(generate(CORPUS_SIZE if limit is None else limit, seed=seed)), LABELS)
