"""Loading: every source gives the same examples, and every choice of a split or a sample is the user's to repeat."""

import csv
import gzip
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest

from didact.data.load import load_data
from didact.errors import DidactError, InputError, ParameterError, UnknownNameError
from didact.types import Example, Span

ROWS: list[dict[str, Any]] = [
    {"text": "A dull plot, badly told.", "label": "negative", "rationale": [[2, 6], [13, 18]], "id": "a"},
    {"text": "Warm and witty.", "label": "positive", "rationale": [[0, 4]], "id": "b"},
    {"text": "It lasts two hours.", "label": "negative", "rationale": [], "id": "c"},
]
EXAMPLES = (
    Example("A dull plot, badly told.", label="negative", rationale=(Span(2, 6), Span(13, 18)), id="a"),
    Example("Warm and witty.", label="positive", rationale=(Span(0, 4),), id="b"),
    Example("It lasts two hours.", label="negative", rationale=(), id="c"),
)


class Tabs(csv.excel_tab):
    quoting = csv.QUOTE_NONE
    quotechar = None


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A file of the format that its name tells."""
    table = pyarrow.Table.from_pylist(rows)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif path.suffix in (".arrow", ".feather"):
        pyarrow.feather.write_feather(table, path)
    else:
        packed = path.suffix == ".gz"
        with gzip.open(path, "wt", encoding="utf-8") if packed else path.open("w", encoding="utf-8") as file:
            if ".json" in path.suffixes:
                json.dump(rows, file)
            elif ".jsonl" in path.suffixes or ".ndjson" in path.suffixes:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            else:
                dialect = Tabs if ".tsv" in path.suffixes else csv.excel
                writer = csv.DictWriter(file, list(rows[0]), dialect=dialect)
                writer.writeheader()
                writer.writerows({key: cell(value) for key, value in row.items()} for row in rows)
    return path


def cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, list) else value


@pytest.mark.parametrize(
    "name",
    [
        *("x.jsonl", "x.jsonl.gz", "x.ndjson", "x.json", "x.json.gz", "x.csv", "x.csv.gz", "x.tsv"),
        *("x.parquet", "x.arrow", "x.feather"),
    ],
)
def test_every_format_gives_the_same_examples(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, ROWS)
    for source in (path, str(path)):
        data = load_data(source)
        assert data.examples == EXAMPLES
        assert (data.name, data.split, data.labels) == (str(path), "x", ("negative", "positive"))
    assert data.fingerprint == load_data(ROWS).fingerprint


def test_texts_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("A dull plot.\n\n  Warm and witty. \n", encoding="utf-8")
    assert [example.text for example in load_data(tmp_path / "x.txt")] == ["A dull plot.", "Warm and witty."]


def test_lines_end_only_where_a_file_breaks_them(tmp_path: Path) -> None:
    # IMDB has raw next-line characters inside reviews, where str.splitlines() would break the JSON.
    text = "Great\x85 or so\u2028they say"
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"text": text}, ensure_ascii=False) + "\n", encoding="utf-8")
    assert load_data(path).examples[0].text == text


def test_lists_of_anything() -> None:
    given = ["Warm.", ("A man sleeps.", "He is awake."), Example("Dull.", label=3), {"review": "Fine.", "label": 1}]
    assert load_data(given).examples == (
        Example("Warm."),
        Example("A man sleeps.", "He is awake."),
        Example("Dull.", label=3),
        Example("Fine.", label=1),
    )
    assert load_data(given).split == "all"
    again = load_data(load_data(ROWS), limit=2)
    assert again.examples == load_data(ROWS, limit=2).examples


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"sentence": "a", "idx": 4}, Example("a", id="4")),
        ({"premise": "a", "hypothesis": "b", "label": 2}, Example("a", "b", label=2)),
        ({"sentence1": "a", "sentence2": "b"}, Example("a", "b")),
        ({"question": "a", "sentence": "b"}, Example("a", "b")),
        ({"question": "a", "context": "b"}, Example("a", "b")),
        ({"text": "a", "question": "b", "context": "c"}, Example("a")),
        ({"text": "a", "text_pair": None, "label": None}, Example("a")),
        ({"text": "a", "label": 1.0}, Example("a", label=1)),
        ({"text": "a", "label": 0.73}, Example("a", label=0.73)),
        ({"text": "a", "label": float("nan")}, Example("a")),
        ({"text": "a", "label": True}, Example("a", label=1)),
        ({"text": "a", "tokens": 17}, Example("a")),
    ],
)
def test_usual_columns(row: dict[str, Any], expected: Example) -> None:
    (found,) = load_data([row])
    assert found == expected
    assert type(found.label) is type(expected.label)


def test_columns_of_ones_own() -> None:
    row = {"body": "a", "text": "b", "gold": "x", "rationale": "because"}
    (found,) = load_data([row], fields={"text": "body", "label": "gold", "rationale": None})
    assert found == Example("a", label="x")


def test_a_label_in_a_table_of_texts_may_be_a_number(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,label\n2012,1\nfine,0\n", encoding="utf-8")
    assert load_data(path).examples == (Example("2012", label=1), Example("fine", label=0))
    assert load_data(path).labels == ()


@pytest.fixture
def table() -> datasets.Dataset:
    names = datasets.ClassLabel(names=["bad", "good"])
    features = datasets.Features({"sentence": datasets.Value("string"), "label": names})
    rows = {"sentence": ["dull", "warm", "secret"], "label": [0, 1, -1]}
    return datasets.Dataset.from_dict(rows, features=features)


NAMED = (Example("dull", label="bad"), Example("warm", label="good"), Example("secret"))


def test_objects_of_datasets(table: datasets.Dataset) -> None:
    assert load_data(table).examples == NAMED
    assert load_data(table).labels == ("bad", "good")
    both = datasets.DatasetDict({"train": table.select([1]), "dev": table})
    assert load_data(both).split == "dev"
    assert load_data(both, split="validation").examples == NAMED
    assert load_data(both, split="train").examples == NAMED[1:2]
    assert load_data(both, split="train+dev").examples == NAMED[1:2] + NAMED
    assert load_data(both, split="train+dev").split == "train+dev"


def test_label_names_travel_in_parquet_and_arrow(table: datasets.Dataset, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "x.parquet")
    table.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": table, "test": table}).save_to_disk(tmp_path / "many")
    (stream,) = (tmp_path / "one").glob("*.arrow")
    for source in (tmp_path / "x.parquet", tmp_path / "one", tmp_path / "many", stream):
        assert load_data(source).examples == NAMED
        assert load_data(source).labels == ("bad", "good")


def test_the_hubs_way_of_loading(table: datasets.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # `datasets` takes a folder for an id, so the path to it can be walked without a network.
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "set"
    folder.mkdir()
    table.to_parquet(folder / "test-00000-of-00001.parquet")
    data = load_data(f"hub:{folder}")
    assert (data.examples, data.split, data.labels) == (NAMED, "test", ("bad", "good"))


def test_what_the_hub_cannot_give_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIDACT_SHARED", raising=False)
    monkeypatch.delenv("DIDACT_DATA", raising=False)
    for address in ("hub:no-such/data", "no-such/data"):
        with pytest.raises(InputError, match=r"cannot load 'no-such/data' from the Hugging Face Hub: .*network"):
            load_data(address)
    with pytest.raises(InputError, match=r"stanfordnlp/imdb.* looked for as \$DIDACT_DATA/imdb first"):
        load_data("imdb")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"needs the library datasets: pip install 'didact\[datasets\]'"):
        load_data("hub:no-such/data")


def test_folders_have_splits(tmp_path: Path) -> None:
    write(tmp_path / "train-00000-of-00002.parquet", ROWS[:1])
    write(tmp_path / "train-00001-of-00002.parquet", ROWS[1:2])
    write(tmp_path / "validation.jsonl.gz", ROWS[2:])
    (tmp_path / "README.md").write_text("about")
    assert load_data(tmp_path, split="train").examples == EXAMPLES[:2]
    assert load_data(tmp_path, split="dev").examples == EXAMPLES[2:]
    assert load_data(tmp_path).split == "validation"
    assert load_data(tmp_path, split="train+validation").examples == EXAMPLES
    with pytest.raises(InputError, match=r"no split 'test'; there is train, validation"):
        load_data(tmp_path, split="test")


def test_a_choice_between_splits_is_not_guessed(tmp_path: Path) -> None:
    write(tmp_path / "one.jsonl", ROWS)
    write(tmp_path / "two.jsonl", ROWS)
    with pytest.raises(InputError, match="several splits; choose one of one, two"):
        load_data(tmp_path)


def test_the_generated_corpus() -> None:
    data = load_data("corpus", limit=10, seed=3)
    assert len(data) == 10
    assert data.labels == ("negative", "positive")
    assert all(example.rationale for example in data)
    assert load_data("corpus", limit=20, seed=3).examples[:10] == data.examples
    assert load_data("corpus", limit=10, seed=4).fingerprint != data.fingerprint


@pytest.mark.parametrize(
    ("source", "options", "kind", "message"),
    [
        ("imbd", {}, UnknownNameError, r"unknown data 'imbd' \(did you mean imdb\?\)"),
        ("nowhere.jsonl", {}, InputError, "there is no file nowhere.jsonl"),
        (Path("nowhere"), {}, InputError, "there is no file nowhere"),
        (3, {}, InputError, "cannot load data from int"),
        ("corpus", {"split": "test"}, InputError, "corpus has no split 'test'"),
        ("corpus", {"limit": 0}, ParameterError, "limit must be .* got 0"),
        (["a"], {"limit": -1}, ParameterError, "limit must be .* got -1"),
        (["a"], {"split": "test"}, InputError, "list has no split 'test'; there is all"),
        (["a"], {"fields": {"txt": "a"}}, ParameterError, "unknown field 'txt'; an example has text, "),
        (["a", 3], {}, InputError, "item 1 of the list: a text must be a string, got int"),
        (["a", " "], {}, InputError, "item 1 of the list: the text is empty or blank"),
        ([], {}, DidactError, "list holds no example"),
    ],
)
def test_what_cannot_be_loaded(source: Any, options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        load_data(source, **options)


@pytest.fixture
def many() -> list[Example]:
    return [Example(f"text {i}", label="abc"[0 if i < 60 else 1 if i < 90 else 2], id=str(i)) for i in range(100)]


def test_samples_do_not_depend_on_order(many: list[Example]) -> None:
    sample = load_data(many, limit=20).examples
    mixed = many.copy()
    random.Random(0).shuffle(mixed)
    assert load_data(mixed, limit=20).examples == sample
    assert load_data(many, limit=20, seed=1).examples != sample
    assert load_data(many, limit=50).examples[:20] == sample
    assert set(load_data(many, limit=1000).examples) == set(many)
    assert load_data(many).fingerprint == load_data(mixed).fingerprint != load_data(many[1:]).fingerprint


@pytest.mark.parametrize("limit", [10, 20, 50])
def test_samples_keep_the_proportion_of_labels(limit: int, many: list[Example]) -> None:
    counts = Counter(example.label for example in load_data(many, limit=limit))
    assert counts == {"a": 6 * limit // 10, "b": 3 * limit // 10, "c": limit // 10}


def test_json_lines_are_read_without_heavy_libraries(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl.gz", ROWS)
    code = (
        "import sys; from didact.data.load import load_data; load_data(sys.argv[1]); "
        "print(sorted({'pyarrow', 'datasets', 'torch'} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
