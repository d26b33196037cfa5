"""Word tags of translation quality: what is tagged BAD becomes a rationale, side by side and person by person."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from didact.data.load import load_data
from didact.data.sampling import sample
from didact.errors import FormatError
from didact.types import Example, Span

ROW: dict[str, Any] = {"source": "the old man , sleeps", "target": "der alte Mann schläft", "score": -0.75}
OLD_MAN, DER = Span(4, 11), Span(0, 3, 1)
SOURCE, TARGET = ["OK", "BAD", "BAD", "OK", "OK"], ["BAD", "OK", "OK", "OK"]


def read(**cells: object) -> Example:
    (example,) = load_data([ROW | cells], fields={"label": "score"})
    return example


def test_tags_of_both_sides_are_one_rationale() -> None:
    example = read(source_tags=SOURCE, target_tags=TARGET)
    assert example.fields == (ROW["source"], ROW["target"])
    assert example.label == -0.75
    assert example.rationale == (OLD_MAN, DER)
    assert example.annotators == ()


def test_tags_as_text_and_of_one_side() -> None:
    assert read(source_tags=" ".join(SOURCE)).rationale == (OLD_MAN,)
    assert read(target_tags=TARGET).rationale == (DER,)
    assert read(source_tags=["OK"] * 5, target_tags=["OK"] * 4).rationale == ()
    assert read().rationale is None


def test_several_annotators() -> None:
    other = ["OK", "BAD", "OK", "OK", "OK"]
    example = read(source_tags=[SOURCE, other, ["OK"] * 5], target_tags=[TARGET, ["OK"] * 4, ["OK"] * 4])
    assert example.annotators == ((OLD_MAN, DER), (Span(4, 7),), ())
    assert example.rationale == (Span(4, 7),)  # what at least half of them marked


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"source_tags": SOURCE[:-1]}, "field 'source_tags': there are 4 tags for 5 words between blanks"),
        ({"target_tags": [*TARGET, "OK"]}, "field 'target_tags': there are 5 tags for 4 words between blanks"),
        ({"source_tags": ["OK", "BAD", "bad", "OK", "OK"]}, "a tag is OK or BAD, got str 'bad'"),
        ({"source_tags": 3}, "must be a list of tags"),
        ({"source_tags": [["OK"], "OK", "OK", "OK", "OK"]}, "a tag is OK or BAD, got list"),
        ({"source_tags": [SOURCE, SOURCE], "target_tags": TARGET}, "2 annotators tagged the text, but 1 its pair"),
        ({"source_tags": [SOURCE, TARGET]}, "there are 4 tags for 5 words"),
        ({"source_tags": SOURCE, "rationale": [[0, 3]]}, "there are tags beside a rationale"),
    ],
)
def test_bad_tags_are_refused_with_the_place(cells: dict[str, object], message: str) -> None:
    with pytest.raises(FormatError, match="item 0 of the list") as problem:
        read(**cells)
    assert message in str(problem.value)
    assert "leaves" in str(problem.value)


def test_tags_of_a_second_text_that_is_not_there() -> None:
    with pytest.raises(FormatError, match="there is only one text"):
        load_data([{"text": "a b", "target_tags": ["OK", "OK"]}])


def test_tags_can_be_named_and_left_out() -> None:
    row = {"text": "so dull", "word_tags": ["OK", "BAD"]}
    assert load_data([row], fields={"tags": "word_tags"}).examples[0].rationale == (Span(3, 7),)
    assert load_data([ROW | {"source_tags": ["?"]}], fields={"tags": None}).examples[0].rationale is None


def test_a_sample_of_measured_numbers_is_not_sorted_by_them() -> None:
    examples = [Example(f"text {number}", label=number / 100) for number in range(1, 400)]
    labels = [float(example.label) for example in sample(examples, 100)]  # type: ignore[arg-type]
    assert abs(np.mean(labels) - 2.0) < 0.4
    assert sample(examples, 200)[:100] == sample(examples, 100)


def test_every_line_of_the_published_dev_sets(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIDACT_SHARED", str(shared))
    data = load_data("mlqe_pe", split="en-de.dev+ne-en.dev")
    assert len(data) == 2_000
    assert all(isinstance(example.label, float) for example in data)
    german = data.examples[:1_000]
    bad = [0, 0]
    for example in german:
        for span in example.rationale or ():
            bad[span.field] += len(example.texts[span.field][span.start : span.end].split())
    assert [round(count / words, 3) for count, words in zip(bad, (16_519, 16_160), strict=True)] == [0.133, 0.163]
