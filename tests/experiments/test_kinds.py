"""Grading, teaching and training on other kinds than single texts: pairs with a number as the answer, and images."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import didact
from didact.cli import main
from didact.errors import CapabilityError, InputError
from didact.models.heads.base import HEADS
from didact.models.network import NetworkModel
from didact.models.readers.base import READERS
from didact.protocols import Model
from didact.testing.tiny import tiny_model
from didact.types import Box, Example, Span
from tests.third_party.images import RedNetwork, planted
from tests.third_party.installed import installed

WORDS = ("good", "dull", "film", "plot", "warm", "evening", "a", "the", "not")


def pairs(count: int, seed: int = 0) -> list[Example]:
    """Translations with a score and the second word of each side tagged BAD."""
    random = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        source, target = (" ".join(random.choice(WORDS, size=random.integers(4, 7))) for _ in range(2))
        spans = [
            Span(start := text.index(" ") + 1, start + len(text.split()[1]), side)
            for side, text in enumerate((source, target))
        ]
        examples.append(Example(source, target, label=float(random.normal()), rationale=spans, id=f"pair {number}"))
    return examples


@pytest.fixture(scope="module")
def quality() -> Model:
    return didact.load_model(tiny_model("bert", ["quality"]))


@pytest.fixture(scope="module")
def images() -> Iterator[tuple[NetworkModel, list[Example]]]:
    with installed():
        network = RedNetwork()
        reader = READERS.get("toy_reader")(network)  # type: ignore[call-arg]
        boxes = [
            Box(4 * (patch % 3), 4 * (patch // 3), 4 * (patch % 3) + 4, 4 * (patch // 3) + 4) for patch in range(9)
        ]
        marked = [dataclasses.replace(planted(patch), rationale=(boxes[patch],)) for patch in range(9)]
        yield NetworkModel(network, reader, HEADS.get("toy_head")()), marked


# Pairs with a number as the answer.


def test_a_number_called_quality_is_of_pairs(quality: NetworkModel) -> None:
    assert (quality.reader.card.name, quality.head.card.name) == ("pair", "number")
    with pytest.raises(InputError, match="load it with inputs='text'"):
        didact.explain("a single text", quality, "random")


def test_pairs_are_compared_by_every_method(quality: NetworkModel) -> None:
    made = didact.compare(pairs(1)[0], quality)
    assert len(made) > 20
    assert {region.field for one in made for region in one.units.regions} == {0, 1}


def test_pairs_are_graded_side_by_side(quality: NetworkModel, tmp_path: Path) -> None:
    metrics = [
        {"metric": "rationale_auc", "label": "source", "field": 0, "evidence": "against"},
        {"metric": "rationale_auc", "label": "translation", "field": 1, "evidence": "against"},
        "comprehensiveness",
    ]
    methods = [{"method": "human", "level": "whitespace"}, {"method": "occlusion", "level": "whitespace"}]
    result = didact.evaluate(pairs(12), quality, methods, metrics, out=tmp_path)
    means = {(row["explainer"], row["metric"]): row["mean"] for row in result.table}
    assert means["human", "source"] == means["human", "translation"] == 1.0
    assert 0 < means["occlusion", "translation"] < 1
    assert {one.units.level for one in result.explanations()} >= {"whitespace"}
    assert all(isinstance(one.example.label, float) for one in result.explanations())


def test_all_metrics_that_a_regression_allows(quality: NetworkModel, tmp_path: Path) -> None:
    names = {row["metric"] for row in didact.evaluate(pairs(4), quality, ["random"], "all", out=tmp_path).table}
    assert {"comprehensiveness", "rationale_auc", "neighbour_iou"} <= names
    assert not {"log_odds_difference", "prediction_agreement"} & names


def test_pairs_are_taught(quality: NetworkModel, tmp_path: Path) -> None:
    settings = {"sizes": [16], "subsets": 2, "controls": False}
    result = didact.simulate(pairs(60), quality, ["occlusion"], ["ridge"], out=tmp_path, **settings)
    assert {row["method"] for row in result.table} == {"none", "occlusion"}


def test_a_learned_explainer_of_pairs(quality: NetworkModel, tmp_path: Path) -> None:
    small = {"epochs": 1, "width": 16, "blocks": 1}
    learned = didact.train("l2e", pairs(40), quality, "gradient_norm", out=tmp_path, progress=False, **small)
    (made,) = didact.explain(pairs(1, seed=5), quality, learned)
    assert {region.field for region in made.units.regions} == {0, 1}


# Images.


def test_images_are_compared_by_every_method_that_takes_them(images: tuple[NetworkModel, list[Example]]) -> None:
    model, examples = images
    methods = {one.method for one in didact.compare(examples[4], model)}
    assert {"occlusion", "lime", "integrated_gradients", "human"} <= methods
    assert "deep_shap" not in methods


def test_images_are_graded(images: tuple[NetworkModel, list[Example]], tmp_path: Path) -> None:
    model, examples = images
    result = didact.evaluate(examples, model, ["occlusion", "random"], out=tmp_path)
    means = {(row["explainer"], row["metric"]): row["mean"] for row in result.table}
    assert means["occlusion", "rationale_auc"] == 1.0
    assert means["occlusion", "deletion_area"] < means["random", "deletion_area"]
    assert ("occlusion", "comprehensiveness") in means
    assert ("occlusion", "neighbour_iou") not in means  # compares words
    assert [one.example for one in result.explanations()][:9] == examples
    assert "data:image" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_what_images_do_not_have_is_named(images: tuple[NetworkModel, list[Example]], tmp_path: Path) -> None:
    model, examples = images
    with pytest.raises(InputError, match="neighbour_iou compares words, and an image of 12 x 12 pixels has none"):
        didact.evaluate(examples, model, ["random"], ["neighbour_iou"], out=tmp_path / "metric")
    with pytest.raises(InputError, match="deep_shap takes text and pair inputs, and an image was given"):
        didact.evaluate(examples, model, ["deep_shap"], ["deletion_area"], out=tmp_path / "method")
    with pytest.raises(CapabilityError, match="the scorer reads words or tokens, and an image of 12 x 12 pixels"):
        didact.train("l2e", examples * 3, model, "occlusion", progress=False, shape="scorer")
    with pytest.raises(InputError, match=r"ridge reads texts, and an image of 12 x 12 .*: vision_transformer"):
        didact.simulate(examples, model, ["occlusion"], ["ridge"], sizes=[4], out=tmp_path / "students")


# The command line.


def test_a_pair_on_the_command_line_means_a_model_of_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network, tokenizer = tiny_model("bert", ["score"])
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    given = ["explain", "a dull plot", "--pair", "a good film", "--model", str(tmp_path), "--format", "json"]
    assert main([*given, "--method", "occlusion", "--level", "whitespace"]) == 0
    assert '"a good film"' in capsys.readouterr().out
