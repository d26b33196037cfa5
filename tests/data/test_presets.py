"""Presets: the published sizes, the papers' splits, and the same fields from a folder and from the Hub."""

import datasets
import pytest

import didact.data.hub
from didact.data.load import load_data
from didact.data.presets import PRESETS
from didact.data.sampling import Slice, place
from didact.types import Example, Span

SIZES = {
    "ag_news": {"train": 43_442, "test": 7_600},
    "cifar10": {"train": 10_000, "test": 2_000},
    "cola": {"train": 8_551, "validation": 527, "test": 516},
    "emotion": {"train": 16_000, "validation": 2_000, "test": 2_000},
    "imdb": {"train": 25_000, "test": 25_000},
    "mlqe_pe": {
        f"{pair}.{split}": size
        for pair in ("en-de", "en-zh", "et-en", "ne-en", "ro-en", "ru-en", "si-en")
        for split, size in (("train", 7_000), ("dev", 1_000), ("test20", 1_000))
    },
    "movie_rationales": {"train": 1_600, "validation": 200, "test": 199},
    "oxford_pets": {"test": 1_850},
    "qed": {"train": 7_147, "dev": 1_355},
    "rotten_tomatoes": {"train": 8_530, "validation": 1_066, "test": 1_066},
    "sst2": {"train": 6_920, "validation": 872, "test": 1_821},
    "sst2_glue": {"train": 67_349, "validation": 872},
}


@pytest.fixture
def home(shared: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIDACT_SHARED", str(shared))


def test_every_preset_is_measured() -> None:
    assert {name: set(preset.splits) for name, preset in PRESETS.items()} == {n: set(s) for n, s in SIZES.items()}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", SIZES)
def test_the_smallest_split_is_whole_and_named(name: str) -> None:
    split, size = min(SIZES[name].items(), key=lambda item: item[1])
    data = load_data(name, split=split)
    assert len(data) == size
    assert data.labels == PRESETS[name].labels
    assert {example.label for example in data if not isinstance(example.label, float)} - {None} == set(data.labels)


@pytest.mark.usefixtures("home")
def test_students_of_imdb_share_no_review() -> None:
    sizes = {"teacher_validation": 12_500, "student_train": 8_750, "student_validation": 1_250, "student_test": 2_500}
    whole = load_data("imdb", split="test")
    parts = {name: PRESETS["imdb"].parts[name].cut(whole.examples, "imdb") for name in sizes}
    assert {name: len(part) for name, part in parts.items()} == sizes
    assert load_data("imdb", split="student_dev").examples == tuple(parts["student_validation"])
    ids = [example.id for part in parts.values() for example in part]
    assert sorted(map(str, ids)) == sorted(str(example.id) for example in whole)
    texts = [{example.text for example in part} for part in parts.values()]
    assert sum(map(len, texts)) == len(set().union(*texts))
    # Fixed for good: an experiment of last year and one of today split alike.
    assert [example.id for example in parts["student_test"][:2]] == ["neg/4235_1", "neg/5237_2"]


@pytest.mark.usefixtures("home")
def test_l2e_splits_of_the_annotated_reviews() -> None:
    parts = [load_data("movie_rationales", split=f"l2e_{name}") for name in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [1_440, 160, 200]
    ids = [example.id for part in parts for example in part]
    assert len(set(ids)) == 1_800
    assert not set(ids) & {example.id for example in load_data("movie_rationales", split="test")}


@pytest.mark.usefixtures("home")
def test_mended_rationales_are_the_default() -> None:
    mended = load_data("movie_rationales")
    released = load_data("movie_rationales", fields={"rationale": "rationales"})
    assert mended.split == "test"
    for new, old in zip(mended, released, strict=True):
        assert new.rationale is not None
        assert old.rationale is not None
        assert sum(s.end - s.start for s in new.rationale) > sum(s.end - s.start for s in old.rationale)
    assert all(example.rationale is not None for example in load_data("movie_rationales", split="train", limit=50))


def test_shares_look_at_each_text_alone() -> None:
    some = [Example(f"news item {i}") for i in range(2_000)]
    train, dev = (PRESETS["ag_news"].parts[f"l2e_{name}"] for name in ("train", "validation"))
    chosen = dev.cut(some, "ag_news")
    # 2,000 draws of 0.1: mean 200, standard deviation 13.4.
    assert 150 < len(chosen) < 250
    assert set(chosen) | set(train.cut(some, "ag_news")) == set(some)
    assert not set(chosen) & set(train.cut(some, "ag_news"))
    assert dev.cut(some[:500], "ag_news") == [example for example in chosen if example in some[:500]]


def test_slices_do_not_depend_on_order() -> None:
    some = [Example(f"review {i}") for i in range(50)]
    first, rest = Slice("test", 0, 20, "here"), Slice("test", 20, 50, "here")
    assert first.cut(some, "x") == first.cut(some[::-1], "x")
    assert sorted(first.cut(some, "x") + rest.cut(some, "x"), key=some.index) == some
    assert first.cut(some, "x") != first.cut(some, "y")
    assert 0 <= place(some[0]) < 1


def test_the_hubs_columns_give_the_same_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    # The Hub has quotations where a folder has spans, and another name for the text.
    rows = {"review": ["so dull\nand long"], "label": [0], "evidences": [["dull and"]]}
    features = datasets.Features(
        review=datasets.Value("string"),
        label=datasets.ClassLabel(names=["NEG", "POS"]),
        evidences=datasets.List(datasets.Value("string")),
    )
    table = datasets.Dataset.from_dict(rows, features=features)
    monkeypatch.delenv("DIDACT_SHARED", raising=False)
    monkeypatch.delenv("DIDACT_DATA", raising=False)
    monkeypatch.setattr(
        didact.data.hub, "load_hub", lambda _: datasets.DatasetDict({"test": table, "unlabelled": table})
    )
    data = load_data("movie_rationales")
    assert data.examples == (Example("so dull\nand long", label="negative", rationale=(Span(3, 11),)),)
    assert data.name == "movie_rationales"
