"""The tiny embedded models of other kinds of input: small, good at what they were trained on, loaded by name."""

from collections.abc import Callable

import numpy as np
import pytest

from didact.api import compare, load_model
from didact.data.corpus import generate
from didact.data.planted import questions, shapes, translations
from didact.errors import UnknownNameError
from didact.metrics.plausibility.rationale_auc import RationaleAuc
from didact.models.encoders import embedded_path
from didact.protocols import Evidence, Model
from didact.types import Example

PROMPT = embedded_path("reviews") / "prompt.toml"
KINDS: dict[str, tuple[Callable[[], Model], Callable[..., list[Example]]]] = {
    "shapes": (lambda: load_model("default:shapes"), shapes),
    "questions": (lambda: load_model("default:questions"), questions),
    "quality": (lambda: load_model("default:quality"), translations),
    "reviews": (lambda: load_model("default:reviews", prompt=PROMPT), generate),
}


CLEAR = {
    "shapes": "attention_rollout",
    "questions": "occlusion",
    "quality": "occlusion",
    "reviews": "integrated_gradients",
}
"""A method that finds the evidence of a kind; others may miss what is there more than once."""


def test_together_they_fit_into_four_megabytes() -> None:
    assert sum(path.stat().st_size for kind in KINDS for path in embedded_path(kind).iterdir()) <= 4_000_000


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"embedded model 'shape' \(did you mean shapes\?\).*questions"):
        load_model("default:shape")


@pytest.mark.parametrize("kind", KINDS)
def test_they_predict_what_was_planted(kind: str) -> None:
    load, made = KINDS[kind]
    examples = made(40, seed=7)
    predictions = load().predict(examples)
    if kind == "quality":
        right = [abs(p.outputs[0] - e.label) < 0.05 for p, e in zip(predictions, examples, strict=True)]  # type: ignore[operator]
    else:
        right = [e.label in (p.answer, p.label) for p, e in zip(predictions, examples, strict=True)]
    assert np.mean(right) >= 0.75


@pytest.mark.parametrize("kind", KINDS)
def test_explanations_point_to_the_planted_evidence(kind: str) -> None:
    load, made = KINDS[kind]
    model = load()
    found = [compare(example, model, [CLEAR[kind]], progress=False)[0] for example in made(6, seed=7)]
    metric = RationaleAuc(evidence="against" if kind == "quality" else "for")
    assert np.nanmean([grade.value for grade in metric.measure(Evidence(found))]) >= 0.7
