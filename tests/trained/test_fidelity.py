"""How close a learned explainer comes to its reference, counted by hand."""

import dataclasses

import pytest
import torch

from didact.attribution.occlusion import Occlusion
from didact.models.load import load_model
from didact.protocols import Model
from didact.testing.tiny import keyword_predict
from didact.trained.fidelity import agreement_with_reference, comparable, top_weight
from didact.trained.samples import Sample
from didact.trained.shapes.scorer import Scorer, ScorerConfig
from didact.trained.signals.labelling import Labelling
from didact.trained.signals.ranking import Ranking


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(keyword_predict, labels=("negative", "positive"))


def test_correlations_and_overlap(model: Model) -> None:
    (reference,) = Occlusion().explain(model, ["good dull film plot"])
    reference = dataclasses.replace(reference, scores=(1.0, -3.0, 0.5, 0.0))
    learned = dataclasses.replace(reference, scores=(3.0, 4.0, 2.0, 1.0))
    assert comparable(reference, Ranking()).tolist() == [1.0, 3.0, 0.5, 0.0]
    found = agreement_with_reference([learned], [reference], Ranking())  # the same order as |w|
    assert (found["spearman"][0], found["kendall"][0], found["top-k IoU"][0]) == pytest.approx((1, 1, 1))
    found = agreement_with_reference([learned], [reference], Labelling())
    # orders 2nd, 1st, 3rd, 4th against 1st, 4th, 2nd, 3rd: d = 1, -3, 1, 1, rho = 1 - 6 * 12 / (4 * 15) = -0.2;
    # pairs: good-dull, dull-film and dull-plot differ, 3 of 6: tau 0; tops {dull, good} and {good, film}: 1 of 3
    assert (found["spearman"][0], found["kendall"][0], found["top-k IoU"][0]) == pytest.approx((-0.2, 0, 1 / 3))


class Says(Ranking):
    """A ranking whose scores are known."""

    def scores(self, outputs: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[7.0, 8.0, 0.0, 1.0], [2.0, 1.0, 9.0, 9.0]])[: len(outputs), : outputs.shape[1]]


def test_the_weight_on_top(model: Model) -> None:
    """Of 4 words 2 are on top: the network's top two have 1 + 3 of at most 3 + 2; of the other text, all of 5."""
    first, second = Occlusion().explain(model, ["film plot acting the", "a with"])
    reference = [
        dataclasses.replace(first, scores=(1.0, 3.0, -1.0, 2.0)),
        dataclasses.replace(second, scores=(5.0, 0.0)),
    ]
    config = ScorerConfig(labels=model.labels, width=8, heads=2, blocks=1)
    scorer = Scorer.for_texts([one.units for one in reference], config)
    samples = [
        Sample(item, one.array) for item, one in zip(scorer.read_explained(None, reference), reference, strict=True)
    ]
    assert top_weight(Says(by="signed"), samples, reference)(scorer) == pytest.approx((4 / 5 + 1) / 2)
