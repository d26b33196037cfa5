"""Questions, labels of words and prompts through all that is done with explanations, from storing to training."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import didact
from didact.attribution.occlusion import Occlusion
from didact.attribution.random import Random
from didact.data.corpus import generate
from didact.data.planted import questions, shapes
from didact.errors import CapabilityError, InputError
from didact.experiments.simulability.recipe import SimulabilityRecipe, able_students
from didact.meter import metered
from didact.models.encoders import embedded_path
from didact.protocols import Model
from didact.scale.collect import collect
from didact.store import explanations as tables
from didact.store.parts import Parts
from didact.testing.tiny import tiny_model
from didact.trained.explainer import LearnedExplainer
from didact.types import Example, Explanation, Span

LABELS = ("O", "PER", "LOC")


def texts(n: int, *, seed: int = 0) -> list[Example]:
    """Reviews without their labels, which are no labels of words."""
    return [Example(example.text, id=example.id) for example in generate(n, seed=seed)]


KINDS: dict[str, tuple[Callable[[], Model], Callable[..., Sequence[Example]]]] = {
    "questions": (lambda: didact.load_model("default:questions"), questions),
    "words": (
        lambda: didact.load_model(tiny_model("bert", LABELS, auto_class="AutoModelForTokenClassification")),
        texts,
    ),
    "prompt": (
        lambda: didact.load_model("default:reviews", prompt=embedded_path("reviews") / "prompt.toml"),
        generate,
    ),
}


@functools.cache
def loaded(kind: str) -> Model:
    return KINDS[kind][0]()


def drawn(kind: str, n: int, seed: int = 3) -> list[Example]:
    return list(KINDS[kind][1](n, seed=seed))


@functools.cache
def explained(kind: str) -> list[Explanation]:
    return didact.explain(drawn(kind, 4), loaded(kind), "occlusion", progress=False)


every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_explanations_come_back_from_tables_and_json(kind: str, tmp_path: Path) -> None:
    made = explained(kind)
    tables.write(tmp_path / "made.parquet", tables.to_table(made))
    assert tables.from_table(tables.read(tmp_path / "made.parquet")) == made
    didact.save(made, tmp_path / "made.json")
    assert [Explanation.from_json(each.to_json()) for each in made] == made


@every_kind
def test_what_is_stored_is_not_computed_again(kind: str, tmp_path: Path) -> None:
    parts, examples = Parts(tmp_path), drawn(kind, 4)
    first = collect(loaded(kind), examples, Occlusion(), parts, chunk=2)
    with metered() as meter:
        assert collect(loaded(kind), examples, Occlusion(), parts, chunk=2) == first
    assert meter.forwards == 0
    np.testing.assert_allclose(first[0].array, explained(kind)[0].array, atol=1e-5)
    answers = [each.target.answer for each in first]
    assert all(isinstance(answer, Span) for answer in answers) if kind != "prompt" else answers == [None] * 4


@every_kind
def test_methods_are_compared_on_the_same_target(kind: str) -> None:
    made = didact.compare(
        drawn(kind, 1)[0], loaded(kind), ["occlusion", "integrated_gradients", "attention", "random"], progress=False
    )
    assert [each.method for each in made] == ["occlusion", "integrated_gradients", "attention", "random"]
    assert len({each.target for each in made}) == 1
    assert len({each.units for each in made}) == 1


@every_kind
def test_a_method_is_graded_above_random_scores(kind: str, tmp_path: Path) -> None:
    result = didact.evaluate(
        drawn(kind, 6),
        loaded(kind),
        {"occlusion": Occlusion(), "chance": Random()},
        ["comprehensiveness"],
        out=tmp_path / "run",
        progress=False,
    )
    values: dict[str, list[float]] = {}
    for record in result.records():
        if not record.null and not record.part:
            values.setdefault(record.explainer, []).append(record.value)
    assert {len(values["occlusion"]), len(values["chance"])} == {6}
    assert np.mean(values["occlusion"]) > np.mean(values["chance"])


@every_kind
def test_students_learn_from_explanations(kind: str, tmp_path: Path) -> None:
    result = didact.simulate(
        drawn(kind, 14),
        loaded(kind),
        ["occlusion"],
        [{"student": "transformer", "epochs": 1, "max_length": 64}] if kind == "questions" else ["ridge"],
        ["attention"] if kind == "questions" else [],
        sizes=[6],
        subsets=1,
        controls=False,
        out=tmp_path / "run",
        progress=False,
    )
    assert result.verdict.metric == ("f1" if kind == "questions" else "accuracy")
    assert {row["method"] for row in result.table} == {"none", "occlusion"}
    assert all(np.isfinite(row["score"]) for row in result.table)  # type: ignore[call-overload]


@every_kind
def test_an_explainer_is_learned_saved_and_used(kind: str, tmp_path: Path) -> None:
    made = didact.train(
        "l2e",
        drawn(kind, 16),
        loaded(kind),
        "occlusion",
        out=tmp_path / "explainer",
        progress=False,
        epochs=2,
        width=16,
        blocks=1,
    )
    new = drawn(kind, 2, seed=11)
    first = didact.explain(new, loaded(kind), made, progress=False)
    loaded_again = LearnedExplainer.from_pretrained(tmp_path / "explainer")
    again = didact.explain(new, loaded(kind), loaded_again, progress=False)
    for one, other, slow in zip(
        first, again, didact.explain(new, loaded(kind), "occlusion", progress=False), strict=True
    ):
        assert one.units == slow.units
        assert one.target == slow.target
        np.testing.assert_allclose(one.array, other.array, atol=1e-5)


@every_kind
@pytest.mark.parametrize("signal", ["ablate", "erasure", "contrast"])
def test_a_probe_learns_without_a_reference_and_explains_in_one_pass(kind: str, signal: str, tmp_path: Path) -> None:
    made = didact.train(
        "probe",
        drawn(kind, 16),
        loaded(kind),
        out=tmp_path / "probe",
        progress=False,
        epochs=3,
        signal=signal,
        signal_settings={} if signal == "ablate" else {"warm": 1, "orders": 2},
        pairs=2,
        rounds=1,
        rank=8,
        width=16,
    )
    made.reads_all = False
    new = drawn(kind, 3, seed=11)
    with metered() as meter:
        first = made.explain(loaded(kind), new)
    assert meter.forwards == len(new)
    assert not meter.backwards
    again = LearnedExplainer.from_pretrained(tmp_path / "probe").explain(loaded(kind), new)
    for one, other, slow in zip(first, again, Occlusion().explain(loaded(kind), new), strict=True):
        assert one.units == slow.units
        assert one.target == slow.target
        assert np.isfinite(one.array).all()
        np.testing.assert_allclose(one.array, other.array, atol=1e-5)


@pytest.mark.parametrize("kind", ["questions", "words"])
def test_masks_are_learned_for_predictions_of_the_whole_input(kind: str) -> None:
    with pytest.raises(CapabilityError, match=r"predicts a .* of a part of it; use a signal that learns another"):
        didact.train("aml", drawn(kind, 8), loaded(kind), progress=False)


def test_students_are_chosen_by_what_they_can_imitate(tmp_path: Path) -> None:
    recipe = SimulabilityRecipe()
    assert [each.name for each in able_students(recipe, "span")] == ["transformer"]
    assert able_students(recipe, "class") == recipe.students
    assert [each.name for each in able_students(recipe, "class", "image")] == ["vision_transformer"]
    with pytest.raises(didact.errors.ParameterError, match=r"ridge cannot .*'span'.*students that can: transformer"):
        didact.simulate(drawn("questions", 8), loaded("questions"), ["occlusion"], ["ridge"], out=tmp_path / "run")


def test_images_are_refused_where_texts_are_read(tmp_path: Path) -> None:
    model, images = didact.load_model("default:shapes"), shapes(6)
    with pytest.raises(InputError, match="ridge reads texts, and an image"):
        didact.simulate(images, model, ["occlusion"], ["ridge"], out=tmp_path / "run", progress=False)
    with metered() as meter, pytest.raises(CapabilityError, match="preset probe"):
        didact.train("l2e", images, model, "occlusion", progress=False, shape="scorer")
    assert meter.forwards == 0
