"""Labels: made once, kept through a kill, shared with experiments, and refused with their line where they are wrong."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from didact.attribution.base import Attribution
from didact.attribution.lime import Lime
from didact.attribution.occlusion import Occlusion
from didact.data.load import load_data
from didact.errors import FormatError, InputError, ParameterError
from didact.experiments.engine.run import run_job
from didact.experiments.engine.steps import RunOptions
from didact.experiments.grading.job import GradingJob
from didact.experiments.grading.prepare import prepare
from didact.experiments.grading.recipe import GradingRecipe
from didact.meter import metered
from didact.models.load import load_model
from didact.progress import listening
from didact.protocols import ExampleLike, Model, TargetLike
from didact.scale.collect import collect, fresh
from didact.scale.label_files import read_labels
from didact.store import explanations as store
from didact.store import files
from didact.store.parts import Parts
from didact.testing.tiny import keyword_predict
from didact.types import Card, Cost, Example, Explanation, Units

TEXTS = ["a warm and wonderful film", "a dull plot", "good food", "the acting was worse", "avoid it", "we saw it"]
LABELS = ("negative", "positive")


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(keyword_predict, labels=LABELS)


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path / "parts")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Watched(Occlusion):
    """Occlusion that says what it is asked, and can break down."""

    asked: ClassVar[list[str]] = []
    broken_at: ClassVar[list[str]] = []

    def explain(
        self, model: Model, examples: Sequence[ExampleLike], targets: Sequence[TargetLike] | None = None
    ) -> list[Explanation]:
        texts = [Example.of(example).text for example in examples]
        if set(self.broken_at) & set(texts):
            raise KeyboardInterrupt
        self.asked.extend(texts)
        return super().explain(model, examples, targets)


@pytest.fixture
def teacher(monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(Watched, "asked", [])
    return Watched()


def test_labels_are_the_teachers_and_are_made_once(model: Model, parts: Parts, teacher: Watched) -> None:
    found = collect(model, TEXTS, teacher, parts, chunk=4)
    assert [one.scores for one in found] == [one.scores for one in Occlusion().explain(model, TEXTS)]
    assert teacher.asked == TEXTS
    assert collect(model, TEXTS, teacher, parts, chunk=4) == found
    assert teacher.asked == TEXTS


def test_equal_texts_are_explained_once_and_stay_themselves(model: Model, parts: Parts, teacher: Watched) -> None:
    given = [Example("good food", label="x", id="1"), Example("a dull plot"), Example("good food", label="y", id="2")]
    found = collect(model, given, teacher, parts)
    assert teacher.asked == ["good food", "a dull plot"]
    assert [one.example for one in found] == given
    assert found[0].scores == found[2].scores


def test_after_a_kill_only_the_rest_is_made(
    model: Model, parts: Parts, teacher: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watched, "broken_at", [])
    Watched.broken_at.append(TEXTS[4])
    with pytest.raises(KeyboardInterrupt):
        collect(model, TEXTS, teacher, parts, chunk=2)
    assert teacher.asked == TEXTS[:4]
    Watched.broken_at.clear()
    assert len(collect(model, TEXTS, teacher, parts, chunk=2)) == 6
    assert teacher.asked == TEXTS


def test_what_decides_the_scores_decides_the_part(model: Model, parts: Parts, teacher: Watched) -> None:
    collect(model, TEXTS[:1], teacher, parts)
    collect(model, TEXTS[:1], teacher, parts, ["negative"])
    collect(model, TEXTS[:1], Watched(scale="probability"), parts)
    collect(
        load_model(lambda texts: keyword_predict(texts)[:, ::-1], labels=LABELS), TEXTS[:1], teacher, parts
    )  # another function
    assert len(teacher.asked) == 4
    assert collect(model, TEXTS[:1], teacher, parts, ["negative"])[0].target.label == "negative"


def test_any_explainer_teaches(model: Model, parts: Parts) -> None:
    class Lengths:
        """Scores words by their letters."""

        card: ClassVar[Card] = Card("lengths", "outside", "Letters.", "none", "none", signed=False)
        parameters: ClassVar[dict[str, Any]] = {}

        def explain(
            self, model: Model, examples: Sequence[ExampleLike], targets: Sequence[TargetLike] | None = None
        ) -> list[Explanation]:
            made = Occlusion().explain(model, examples, targets)
            letters = [tuple(float(len(text)) for text in one.units.texts) for one in made]
            return [dataclasses.replace(o, method="lengths", scores=s) for o, s in zip(made, letters, strict=True)]

        def cost(self, units: Units) -> Cost:
            return Cost()

    assert collect(model, ["a dull plot"], Lengths(), parts)[0].scores == (1.0, 4.0, 4.0)


def test_an_experiments_parts_are_found(model: Model, parts: Parts, tmp_path: Path) -> None:
    recipe = {
        "name": "x",
        "model": {"source": "x"},
        "data": {"source": "x"},
        "chunk": 3,
        "metrics": ["comprehensiveness"],
        "nulls": [],
    }
    data = load_data(TEXTS)
    prepared = prepare(GradingRecipe.from_dict(recipe, "test"), model=model, data=data, explainers={"o": Occlusion()})
    run_job(GradingJob(prepared, RunOptions(tmp_path / "run", parts.root)))
    with metered() as meter:
        collect(model, data.examples, Occlusion(), parts, chunk=3)
    assert meter.forwards == 0


def test_an_edited_copy_of_a_method_does_not_get_its_parts(model: Model, parts: Parts, teacher: Watched) -> None:
    collect(model, TEXTS, Occlusion(), parts)
    collect(model, TEXTS, teacher, parts)
    assert teacher.asked == TEXTS


def test_progress_is_told(model: Model, parts: Parts) -> None:
    class Steps:
        """Adds up the steps of the first piece of work."""

        def __init__(self) -> None:
            self.names: list[str] = []

        def start(self, what: str, total: int) -> None:
            self.names.append(f"{what} {total}")

        def advance(self, steps: int) -> None: ...

        def stop(self) -> None: ...

    steps = Steps()
    with listening(steps):
        collect(model, TEXTS, Occlusion(), parts)
    assert steps.names[0] == "labels: occlusion 6"


def test_fresh_labels_differ_by_epoch_and_can_be_drawn_again(model: Model, parts: Parts) -> None:
    draw = fresh(model, TEXTS, Lime(samples=4, seed=5), parts)
    assert [one.scores for one in draw(2)] == [o.scores for o in Lime(samples=4, seed=7).explain(model, TEXTS)]
    assert draw(0) != draw(1)
    assert draw(1) == draw(1)
    with pytest.raises(ParameterError, match="occlusion has no seed"):
        fresh(model, TEXTS, Occlusion(), parts)


def made(model: Model, method: Attribution | None = None) -> list[Explanation]:
    return (method or Occlusion()).explain(model, TEXTS[:3])


def test_label_files_give_back_what_was_written(model: Model, tmp_path: Path) -> None:
    found = made(model)
    (tmp_path / "a.jsonl").write_text("\n\n".join(one.to_json() for one in found))
    store.write(tmp_path / "a.parquet", store.to_table(found))
    assert read_labels(tmp_path / "a.jsonl", model) == found
    assert read_labels(tmp_path / "a.parquet", model) == found


def test_plain_rows_get_the_models_units_and_prediction(model: Model, tmp_path: Path) -> None:
    rows = [
        {"text": "a dull plot", "scores": [0, 2, 1], "label": "positive", "model": model.fingerprint()},
        {"text": "good food", "scores": [-1.5, 0]},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    first, second = read_labels(tmp_path / "a.jsonl", model)
    assert (first.scores, first.target.label, first.prediction.label) == ((0, 2, 1), "positive", "negative")
    assert first.units.texts == ("a", "dull", "plot")
    assert (second.target.label, second.signed, first.signed) == ("positive", True, True)


GOOD = '{"text": "a dull plot", "scores": [0, 2, 1]}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "good food", "scores": [1, NaN]}', "list of finite numbers"),
        ('{"text": "good food", "scores": [1, Infinity]}', "list of finite numbers"),
        ('{"text": "good food", "scores": [1, "2"]}', "list of finite numbers"),
        ('{"text": "good food", "scores": [1, 2, 3]}', "3 scores, but .* reads 2 words: good food"),
        ('{"text": "good food", "scores": [1, 2], "model": "0123"}', "fingerprint 0123, .* force=True"),
        ('{"text": "good food", "scores": [1, 2], "label": "great"}', "unknown label 'great'"),
        ('{"text": "  ", "scores": [1]}', "empty or blank"),
        ('{"scores": [1]}', "field 'text' is missing"),
        ('{"text": "good food"}', "an object with 'text' and 'scores'"),
        ("nonsense", "not JSON"),
    ],
)
def test_a_wrong_line_is_named(model: Model, tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n{GOOD}\n")
    with pytest.raises(FormatError, match=rf"labels\.jsonl, line 3: .*{message}"):
        read_labels(path, model)


def test_explanations_of_another_model_are_refused_unless_forced(model: Model, tmp_path: Path) -> None:
    other = load_model(lambda texts: keyword_predict(texts)[:, ::-1], labels=LABELS)
    found = made(model)
    (tmp_path / "a.jsonl").write_text("\n".join(one.to_json() for one in found))
    store.write(tmp_path / "a.parquet", store.to_table(found))
    for name, where in (("a.jsonl", "line 1"), ("a.parquet", "row 1")):
        with pytest.raises(FormatError, match=f"{where}: .*{model.fingerprint()}.*{other.fingerprint()}"):
            read_labels(tmp_path / name, other)
        assert read_labels(tmp_path / name, other, force=True) == found


def test_other_units_are_refused(model: Model, tmp_path: Path) -> None:
    (one,) = Occlusion().explain(model, ["good food"])
    spans = (dataclasses.replace(one.units.spans[0], end=3), one.units.spans[1])
    cut = dataclasses.replace(one, units=dataclasses.replace(one.units, regions=spans))
    (tmp_path / "a.jsonl").write_text(cut.to_json())
    with pytest.raises(FormatError, match=r"line 1: the scores belong to other words .*goo food instead of good food"):
        read_labels(tmp_path / "a.jsonl", model)


def test_a_table_with_nan_names_the_row(model: Model, tmp_path: Path) -> None:
    table = store.to_table(made(model))
    scores = table.column("scores").to_pylist()
    scores[1][0] = float("nan")
    place = table.column_names.index("scores")
    files.write(tmp_path / "a.parquet", table.set_column(place, table.schema.field(place), pa.array(scores)))
    with pytest.raises(FormatError, match=r"a\.parquet, row 2: .*scores must be finite"):
        read_labels(tmp_path / "a.parquet", model)


def test_files_that_are_none(model: Model, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_labels(tmp_path / "a.jsonl", model)
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(InputError, match=r"give \.parquet or \.jsonl"):
        read_labels(tmp_path / "a.csv", model)
    (tmp_path / "a.jsonl").write_text("\n")
    with pytest.raises(InputError, match="holds no labels"):
        read_labels(tmp_path / "a.jsonl", model)
