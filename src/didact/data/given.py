"""What a user gives to be explained: one example, or many in any form of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from didact.data import hub
from didact.data.dataset import Dataset
from didact.data.frames import is_frame, is_in_memory
from didact.data.load import load_apart, load_data
from didact.data.rows import Unreadable as Unreadable

if TYPE_CHECKING:
    from didact.protocols import ExampleLike


def given_examples(given: object) -> tuple[list[ExampleLike | Unreadable], bool]:
    """What is to be explained, and whether it was given as several; rows that hold no example in place of one."""
    if isinstance(given, list) and not any(isinstance(item, Mapping) for item in given):
        return list(given), True
    if isinstance(given, list) or holds_many(given):
        return list(load_apart(given)), True
    if isinstance(given, Mapping):
        return list(load_data(given).examples), False
    return [cast("ExampleLike", given)], False


def readable(examples: Sequence[ExampleLike | Unreadable], *, skip: bool = False) -> list[ExampleLike]:
    """Those that could be read; the first that could not is an error unless such are skipped and some are left."""
    bad = [example for example in examples if isinstance(example, Unreadable)]
    if bad and (not skip or len(bad) == len(examples)):
        raise bad[0].problem
    return [example for example in examples if not isinstance(example, Unreadable)]


def holds_many(given: object) -> bool:
    """Whether it is data rather than one example: a table, a column, an array, a data set; strings and lists aside."""
    if isinstance(given, Mapping) and given and all(is_frame(table) for table in given.values()):
        return True
    return isinstance(given, Dataset) or is_in_memory(given) or hub.is_table(given) or hub.is_tables(given)
