"""Explanations on disk: every field of every explanation comes back as it was."""

import dataclasses
import math
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.errors import FormatError, InputError
from didact.store import explanations
from didact.types import SCALES, Cost, Example, Explanation, Prediction, Span, Target, Units

PROPERTY = settings(max_examples=40, deadline=None, derandomize=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
COUNT = st.integers(0, 10**12)
JSON = st.none() | st.booleans() | st.integers() | st.floats() | TEXT


@st.composite
def targets(draw: st.DrawFn, classes: int) -> Target:
    contrast = draw(st.none() | st.integers(0, classes - 1))
    plain = draw(st.integers(0, classes - 1)), draw(TEXT), draw(st.sampled_from(SCALES))
    return Target(*plain, contrast=contrast, contrast_label="" if contrast is None else draw(TEXT))


@st.composite
def spans(draw: st.DrawFn, fields: tuple[str, ...]) -> tuple[Span, ...]:
    found = []
    for _ in range(draw(st.integers(0, 4))):
        field = draw(st.integers(0, len(fields) - 1))
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(fields[field]))] * 2)))
        found.append(Span(start, end, field))
    return tuple(found)


@st.composite
def any_explanation(draw: st.DrawFn) -> Explanation:
    text, pair = draw(TEXT), draw(st.none() | TEXT)
    fields = (text,) if pair is None else (text, pair)
    rationale = draw(st.none() | spans(fields))
    annotators = draw(st.lists(spans(fields), max_size=2).map(tuple))
    label = draw(
        st.none() | TEXT | st.integers() | FINITE | spans(fields) | spans(fields).map(lambda s: s[0] if s else 1)
    )
    example = Example(text, pair, label=label, rationale=rationale, id=draw(st.none() | TEXT), annotators=annotators)
    where = draw(spans(fields))
    numbers = st.lists(st.integers(0, 600), max_size=3).map(tuple)
    positions = draw(st.just(()) | st.tuples(*[numbers] * len(where)))
    units = Units(
        example, draw(st.sampled_from(("word", "token"))), where, positions, *draw(st.tuples(*[st.floats(0, 1)] * 2))
    )
    classes = draw(st.integers(1, 3))
    outputs = draw(st.tuples(*[FINITE] * classes))
    shares = draw(st.just(()) | st.tuples(*[st.floats(0.01, 1)] * classes))
    probabilities = tuple(share / sum(shares) for share in shares)
    return Explanation(
        method=draw(TEXT),
        units=units,
        scores=draw(st.tuples(*[FINITE] * len(where))),
        target=draw(targets(classes)),
        prediction=Prediction(draw(st.tuples(*[TEXT] * classes)), outputs, probabilities),
        parameters=draw(st.dictionaries(TEXT, JSON, max_size=3)),
        signed=draw(st.booleans()),
        cost=Cost(draw(COUNT), draw(COUNT), draw(st.none() | COUNT), draw(st.none() | st.floats(0, 1e9))),
        details=draw(st.dictionaries(TEXT, st.floats(), max_size=3)),
        model=draw(st.dictionaries(TEXT, TEXT, max_size=2)),
        versions=draw(st.dictionaries(TEXT, TEXT, max_size=2)),
        errors=draw(st.just(()) | st.tuples(*[st.floats(0, 1e300)] * len(where))),
        warnings=draw(st.lists(TEXT, max_size=2).map(tuple)),
    )


def a_good_film(method: str = "lime", label: str | int | None = 1) -> Explanation:
    example = Example("a good film", label=label, rationale=(Span(2, 6),), id="7")
    return Explanation(
        method=method,
        units=Units(example, "word", (Span(0, 1), Span(2, 6), Span(7, 11)), ((1,), (2, 3), (4,))),
        scores=(0.1, 0.7, 0.2),
        target=Target(1, "positive", "probability"),
        prediction=Prediction(("negative", "positive"), (-1.0, 2.0), (0.05, 0.95)),
        parameters={"samples": 100},
        details={"fit": float("nan")},
    )


@PROPERTY
@given(st.lists(any_explanation(), max_size=4))
def test_every_explanation_comes_back_exactly(given: list[Explanation]) -> None:
    found = explanations.from_table(explanations.to_table(given))
    # As JSON text NaN equals NaN, and 1 is not 1.0; what JSON cannot tell apart is a tuple from a list.
    assert [one.to_json() for one in found] == [one.to_json() for one in given]
    assert [hash((one.units, one.scores, one.target, one.errors)) for one in found] == [
        hash((one.units, one.scores, one.target, one.errors)) for one in given
    ]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Example, "fields label rationale id annotators"),
        (Units, "example level regions positions truncated unknown"),
        (Target, "index label scale answer contrast contrast_label"),
        (Prediction, "labels outputs probabilities extract"),
        (Cost, "forwards backwards evaluated seconds"),
        (
            Explanation,
            "method units scores target prediction parameters signed cost details model versions errors warnings",
        ),
    ],
)
def test_no_field_is_forgotten(kind: type, names: str) -> None:
    # A field added to a noun needs a column, and a place in the explanations drawn above.
    assert [field.name for field in dataclasses.fields(kind)] == names.split()


def test_a_file_gives_the_table_back_with_the_experiments_columns(tmp_path: Path) -> None:
    given = [a_good_film("lime"), a_good_film("ig", "1"), a_good_film("ig", None)]
    table = explanations.to_table(given, ["lime", "ig", "ig"], [0, 0, 1])
    explanations.write(tmp_path / "e.parquet", table)
    found = explanations.read(tmp_path / "e.parquet")
    assert found.schema == table.schema
    assert found.column("explainer").to_pylist() == ["lime", "ig", "ig"]
    assert found.column("seed").to_pylist() == [0, 0, 1]
    assert [one.to_json() for one in explanations.from_table(found)] == [one.to_json() for one in given]
    explanations.write(tmp_path / "again.parquet", pa.concat_tables([found.slice(0, 1), found.slice(1)]))
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "e.parquet").read_bytes()


def test_columns_can_be_read_by_people() -> None:
    (row,) = explanations.to_table([a_good_film()]).to_pylist()
    assert row["units"] == ["a", "good", "film"]
    assert row["scores"] == [0.1, 0.7, 0.2]
    assert (row["label"], row["predicted"], row["target"]) == ("1", "positive", "positive")
    assert row["parameters"] == '{"samples": 100}'
    assert row["details"][0][0] == "fit"
    assert math.isnan(row["details"][0][1])
    assert (row["evaluated"], row["seconds"], row["text_pair"]) == (None, None, None)


def test_a_part_of_a_table_is_read_as_that_part() -> None:
    given = [a_good_film(method) for method in ("lime", "ig", "occlusion", "random")]
    found = explanations.from_table(explanations.to_table(given).slice(1, 2))
    assert [one.method for one in found] == ["ig", "occlusion"]
    assert [one.to_json() for one in found] == [one.to_json() for one in given[1:3]]


def test_more_explanations_than_are_turned_back_at_once() -> None:
    given = [a_good_film(label=number) for number in range(explanations.BATCH + 5)]
    found = explanations.from_table(explanations.to_table(given))
    assert [one.example.label for one in found] == list(range(explanations.BATCH + 5))


def test_errors_say_what_was_given(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="seed needs one value per explanation: 2 for 1"):
        explanations.to_table([a_good_film()], seeds=[0, 1])
    with pytest.raises(FormatError, match="not a table of explanations: it lacks method"):
        explanations.from_table(pa.table({"text": ["a"]}))
    table = explanations.to_table([a_good_film()])
    broken = table.set_column(table.column_names.index("model"), "model", pa.array(["{"]))
    with pytest.raises(FormatError, match=r"'\{' is not JSON"):
        explanations.from_table(broken)
    with pytest.raises(InputError, match="not valid Unicode"):
        a_good_film("\udfff")


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("probabilities", [0.2, 7.0]),
        ("outputs", [float("inf"), 1.0]),
        ("truncated", 7.0),
        ("span_start", [0, -2, 7]),
        ("span_end", [1, 6, 99]),
        ("span_field", [0, 0, 3]),
        ("span_end", [1, 6]),
        ("scale", "odds"),
        ("target_index", -1),
        ("forwards", -1),
        ("seconds", float("nan")),
        ("parameters", '{"samples": [1]}'),
        ("parameters", "[" * 10_000),
        ("model", "3"),
        ("label", "\u00b2"),
        ("label", "1" * 5_000),
        ("extract", '{"a": 1}'),
        ("extract", "[0.5, 1]"),
    ],
)
def test_what_no_explanation_can_hold_is_refused_with_its_row(column: str, cell: object) -> None:
    table = explanations.to_table([a_good_film(), a_good_film()])
    kind = table.schema.field(column).type
    values = table.column(column).to_pylist()
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    broken = table.set_column(table.column_names.index(column), column, pa.array([values[0], cell], kind))
    with pytest.raises(FormatError, match="row 2: "):
        explanations.from_table(broken)
