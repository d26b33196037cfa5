"""The ONNX runtime: it gives torch's scores, tells how well, and refuses where ranks change."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from didact.errors import FormatError, InputError, MismatchError, ParameterError
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import Model
from didact.testing.tiny import TEXTS, tiny_model
from didact.trained import onnx
from didact.trained.explainer import LearnedExplainer
from didact.trained.metadata import ExplainerMetadata
from didact.trained.shapes.scorer import Scorer, ScorerConfig
from didact.trained.signals.regression import Regression
from didact.types import Example

MANY = [*TEXTS, " ".join(TEXTS), TEXTS[0].split()[0]]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(tiny_model("bert"))


def made(model: Model, **settings: Any) -> LearnedExplainer:
    """An explainer with random weights: nothing here is about what it learnt."""
    assert isinstance(model, NetworkModel)
    config = ScorerConfig(labels=model.labels, **({"width": 32, "blocks": 1} | settings))
    units = model.units([Example(text) for text in TEXTS], "word")
    shape = Scorer.for_texts(units, config, tokenizer=model.tokenizer, min_count=1)
    return LearnedExplainer(shape, Regression(), ExplainerMetadata.of(model, reference="lime"))


@pytest.fixture(scope="module")
def folder(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an explainer was exported with 8 bits."""
    place = tmp_path_factory.mktemp("exported") / "explainer"
    made(model).export_onnx(place)
    return place


@pytest.mark.parametrize(
    "settings",
    [
        {"reading": "tokens", "positions": "learned", "references": 2},
        {"window": 2, "conditional": "heads", "positions": "sinusoidal", "pairs": True},
    ],
)
def test_with_floats_scores_are_those_of_torch(model: Model, settings: dict[str, Any], tmp_path: Path) -> None:
    explainer = made(model, **settings)
    explainer.save_pretrained(tmp_path)
    targets = [number % 2 for number in range(len(MANY))]
    plain = explainer.explain(model, MANY, targets)
    found = explainer.export_onnx(tmp_path, int8=False, explanations=plain)
    assert found.texts == f"{len(MANY)} given texts"
    assert found.rank_correlation > 0.999
    loaded = LearnedExplainer.from_pretrained(tmp_path, runtime="onnx")
    for one, other in zip(plain, loaded.explain(model, MANY, targets), strict=True):
        np.testing.assert_allclose(one.array, other.array, atol=1e-4)
    # In one folder with the weights: both runtimes can be loaded, also after saving the same explainer again.
    explainer.save_pretrained(tmp_path)
    for runtime in ("torch", "onnx"):
        assert LearnedExplainer.from_pretrained(tmp_path, runtime=runtime).runtime == runtime
    made(model, seed=1).save_pretrained(tmp_path)
    with pytest.raises(FormatError, match="export_onnx"):
        LearnedExplainer.from_pretrained(tmp_path, runtime="onnx")


def test_with_8_bits_scores_are_near_and_do_not_depend_on_the_batch(model: Model, folder: Path) -> None:
    loaded = LearnedExplainer.from_pretrained(folder, runtime="onnx", model=model)
    together = loaded.explain(model, MANY)
    for text, found, exact in zip(MANY, together, made(model).explain(model, MANY), strict=True):
        np.testing.assert_allclose(found.array, exact.array, atol=0.1 * np.abs(exact.array).max())
        assert loaded.explain(model, [text])[0].scores == found.scores
        assert found.parameters["runtime"] == "onnx int8"
        assert found.parameters["weights"] == exact.parameters["weights"]


def test_the_folder_stands_alone_and_tells_how_well_it_agrees(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "model.onnx",
        "vocabulary.json",
    ]
    facts = json.loads((folder / "config.json").read_text("utf-8"))["runtimes"]["onnx"]
    assert facts["int8"] is True
    assert facts["rank_correlation"] >= onnx.LIMIT
    readme = (folder / "README.md").read_text("utf-8")
    assert f"| rank correlation | {facts['rank_correlation']:.4g} |" in readme
    assert 'from_pretrained("explainer", runtime="onnx")' in readme


def test_changed_ranks_are_refused_unless_forced(model: Model, tmp_path: Path) -> None:
    explainer = made(model)
    with torch.no_grad():
        # The last layer gets one huge number that it leaves out: to floats that is nothing, but 8 bits that reach up to
        # it leave a single step for all other numbers.
        explainer.shape.get_parameter("blocks.0.done.weight")[0] = 1e4
        explainer.shape.get_parameter("output.weight")[:, 0] = 0
    with pytest.raises(MismatchError, match=r"mean rank correlation 0\.\d+ .* at least 0\.99\. Use int8=False"):
        explainer.export_onnx(tmp_path)
    assert list(tmp_path.iterdir()) == []
    found = explainer.export_onnx(tmp_path, force=True)
    assert not found.good
    assert LearnedExplainer.from_pretrained(tmp_path, runtime="onnx").runtime == "onnx int8"


def test_agreement_worked_by_hand() -> None:
    one, other = np.array([4.0, 3.0, 2.0, 1.0]), np.array([4.0, 3.0, 1.0, 2.5])
    # Ranks 4 3 2 1 and 4 3 1 2: rho = 1 - 6 * (1 + 1) / (4 * 15) = 0.8; of the top 3 two are shared.
    found = onnx.agreement([one, one, np.ones(2)], [one, other, np.zeros(2)], "texts")
    assert found["rank_correlation"] == pytest.approx(0.9)
    assert found["lowest_rank_correlation"] == pytest.approx(0.8)
    assert found["top"] == pytest.approx((1 + 2 / 3 + 1) / 3)
    assert found["largest_difference"] == 1.5
    with pytest.raises(InputError, match="several words"):
        onnx.agreement([np.ones(1)], [np.ones(1)], "texts")


def test_what_cannot_be_loaded_is_told(model: Model, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="unknown runtime 'tvm'; allowed: 'torch', 'onnx'"):
        LearnedExplainer.from_pretrained(folder, runtime="tvm")
    with pytest.raises(ParameterError, match="computes on the CPU"):
        LearnedExplainer.from_pretrained(folder, runtime="onnx", device="cuda")
    with pytest.raises(ParameterError, match="at least 1, got 0"):
        LearnedExplainer.from_pretrained(folder, runtime="onnx", threads=0)
    with pytest.raises(FormatError, match="load it with runtime='onnx'"):
        LearnedExplainer.from_pretrained(folder)
    with pytest.raises(ParameterError, match="the one it was exported from"):
        LearnedExplainer.from_pretrained(folder, runtime="onnx").save_pretrained(tmp_path)
    made(model).save_pretrained(tmp_path)
    with pytest.raises(FormatError, match="export_onnx"):
        LearnedExplainer.from_pretrained(tmp_path, runtime="onnx")


def test_a_missing_library_is_named_with_its_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ParameterError, match=r"onnxruntime: pip install 'didact\[onnx\]'"):
        LearnedExplainer.from_pretrained(folder, runtime="onnx")
