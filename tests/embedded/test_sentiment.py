"""The embedded model: small, sound, and good enough that methods can be judged on it."""

import gzip
import json
import random
from pathlib import Path

import numpy as np
import pytest

from didact.api import load_explainer, load_model
from didact.data.corpus import generate
from didact.metrics.plausibility.rationale_auc import RationaleAuc
from didact.models.encoders import embedded_path
from didact.protocols import Evidence
from didact.types import Example

FINDERS: dict[str, dict[str, int]] = {
    "occlusion": {},
    "lime": {"samples": 250},
    "kernel_shap": {"evaluations": 200},
    "integrated_gradients": {"steps": 20},
}


def test_it_fits_into_eight_megabytes() -> None:
    assert sum(path.stat().st_size for path in embedded_path().iterdir()) <= 8_000_000


def test_weights_are_half_precision_and_nothing_but_tensors() -> None:
    from safetensors import safe_open

    with safe_open(embedded_path() / "model.safetensors", "pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"F16"}  # noqa: SIM118
    assert {path.suffix for path in embedded_path().iterdir()} <= {".json", ".safetensors", ".md"}


@pytest.mark.parametrize("method", FINDERS)
def test_planted_words_are_found(method: str) -> None:
    examples = generate(16, seed=0)
    explainer = load_explainer(method, **FINDERS[method])
    found = explainer.explain(load_model(), examples, [example.label for example in examples])
    assert np.mean([grade.value for grade in RationaleAuc().measure(Evidence(found))]) >= 0.85


def test_chance_finds_half() -> None:
    examples = generate(300, seed=0)
    found = load_explainer("random").explain(load_model(), examples, [example.label for example in examples])
    assert np.mean([grade.value for grade in RationaleAuc().measure(Evidence(found))]) == pytest.approx(0.5, abs=0.05)


def test_a_text_without_evidence_is_undecided() -> None:
    (prediction,) = load_model().predict([Example("[MASK] " * 8)])
    assert max(prediction.probabilities) < 0.7


def accuracy(path: Path, sample: int | None = None) -> float:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    if sample is not None:
        rows = random.Random(0).sample(rows, sample)
    model = load_model(max_truncated=1.0)
    found = model.predict([Example(row["text"].replace("<br />", " ")) for row in rows])
    return float(np.mean([prediction.index == row["label"] for prediction, row in zip(found, rows, strict=True)]))


def test_accuracy_on_sst2(shared: Path) -> None:
    assert accuracy(shared / "data" / "sst2_glue" / "validation.jsonl.gz") >= 0.80


def test_accuracy_on_imdb(shared: Path) -> None:
    assert accuracy(shared / "data" / "imdb" / "test.jsonl.gz", sample=200) >= 0.86
