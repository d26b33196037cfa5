"""Tables in memory: pandas, polars, pyarrow, numpy, dictionaries."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest

import didact
from didact.data.load import load_data
from didact.errors import DidactError, FormatError, InputError, ParameterError
from didact.types import Example

TEXTS = ["A warm film.", "A dull plot."]
LABELS = ["positive", "negative"]
COLUMNS = {"text": TEXTS, "label": LABELS}
EXPECTED = [Example(text, label=label) for text, label in zip(TEXTS, LABELS, strict=True)]


def frame(kind: str, columns: dict[str, list[object]]):
    if kind == "pyarrow":
        return pyarrow.table(columns)
    return pytest.importorskip(kind).DataFrame(columns)


FRAMES = pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])


@FRAMES
def test_a_frame_is_read_as_its_columns(kind: str) -> None:
    data = load_data(frame(kind, COLUMNS))
    assert list(data) == EXPECTED
    assert data.labels == ("negative", "positive")
    renamed = frame(kind, {"body": TEXTS, "stars": [5, 1]})
    data = load_data(renamed, text_column="body", label_column="stars")
    assert [(example.text, example.label) for example in data] == [("A warm film.", 5), ("A dull plot.", 1)]


@FRAMES
def test_a_frame_without_the_named_column_is_refused(kind: str) -> None:
    with pytest.raises(FormatError, match=r"column 'body' \(field 'text'\) is missing; found label, text"):
        load_data(frame(kind, COLUMNS), text_column="body")
    with pytest.raises(FormatError, match=r"no row has the column 'stars', given for the field 'label'"):
        load_data(frame(kind, COLUMNS), label_column="stars")
    with pytest.raises(FormatError, match=r"'text' is missing; found body; name the column .* with text_column='NAME'"):
        load_data(frame(kind, {"body": TEXTS}))


@FRAMES
def test_missing_texts_are_named_and_missing_labels_are_none(kind: str) -> None:
    with pytest.raises(FormatError, match=r"(index|row) 1: field 'text' holds no text \(None or NaN\)"):
        load_data(frame(kind, {"text": ["A warm film.", None]}))
    assert [example.label for example in load_data(frame(kind, {**COLUMNS, "label": [1, None]}))] == [1, None]


def test_what_pandas_calls_missing() -> None:
    pandas = pytest.importorskip("pandas")
    for nothing in (float("nan"), pandas.NA, pandas.NaT):
        texts = pandas.Series(["A warm film.", nothing], dtype=object, index=["a", "b"])
        table = pandas.DataFrame({"text": texts})
        with pytest.raises(FormatError, match="DataFrame, index 'b': field 'text' holds no text"):
            load_data(table)
        labels = pandas.DataFrame({"text": TEXTS, "label": pandas.Series(["x", nothing], dtype=object)})
        assert [example.label for example in load_data(labels)] == ["x", None]


def test_mixed_types_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": ["A warm film.", 5]}, index=[10, 20])
    with pytest.raises(FormatError, match=r"index 20: field .text. must be text, got .*5.*convert it with str"):
        load_data(table)
    twice = pandas.DataFrame([["a", "b"]], columns=["text", "text"])
    with pytest.raises(InputError, match="several columns of one name: text; rename them"):
        load_data(twice)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_column_is_a_list_of_texts_whatever_it_is_called(kind: str) -> None:
    column = frame(kind, {"whatever": TEXTS})["whatever"]
    assert [example.text for example in load_data(column)] == TEXTS


def test_arrays() -> None:
    assert [example.text for example in load_data(np.array(TEXTS))] == TEXTS
    assert [example.text for example in load_data(np.array(TEXTS, dtype=object))] == TEXTS
    assert load_data(np.array([TEXTS])).examples[0].text_pair == "A dull plot."
    assert len(load_data(np.zeros((3, 8, 9, 3), dtype=np.uint8))) == 3
    with pytest.raises(InputError, match="cannot load data from ndarray"):
        load_data(np.arange(4))


def test_dictionaries() -> None:
    assert list(load_data(COLUMNS)) == EXPECTED
    assert list(load_data({"text": "A warm film.", "label": "positive"})) == EXPECTED[:1]
    assert list(load_data({"text": np.array(TEXTS), "label": tuple(LABELS)})) == EXPECTED
    marked = load_data({"text": "A warm film.", "rationale": [[2, 6]]})
    assert marked.examples[0].rationale is not None
    splits = {"train": frame("pyarrow", COLUMNS), "test": frame("pyarrow", {"text": ["Rain."]})}
    assert [example.text for example in load_data(splits)] == ["Rain."]
    assert list(load_data(splits, split="train")) == EXPECTED
    with pytest.raises(InputError, match="must be equally long, got text 2, label 1"):
        load_data({"text": TEXTS, "label": ["x"]})


def test_a_column_named_twice_is_refused() -> None:
    with pytest.raises(ParameterError, match="the column of text is named both in fields and by text_column"):
        load_data(COLUMNS, fields={"text": "a"}, text_column="b")


@FRAMES
def test_an_empty_frame_is_refused(kind: str) -> None:
    with pytest.raises(FormatError, match="holds no example: it is empty"):
        load_data(frame(kind, {"text": []}))


@pytest.mark.filterwarnings("ignore")  # polars warns that a look at the columns of a lazy table is slow
def test_a_lazy_table_is_refused() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"columns of a LazyFrame cannot be read .* what collect\(\) returns"):
        load_data(polars.DataFrame(COLUMNS).lazy())


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(DidactError):
        load_data(SimpleNamespace(columns=["text"]))
    with pytest.raises(InputError, match="cannot load data from float"):
        load_data(1.5)


def test_everything_is_reached_from_the_top() -> None:
    assert list(didact.load_data(COLUMNS)) == EXPECTED
