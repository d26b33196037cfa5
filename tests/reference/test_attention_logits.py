"""Attention logits against all matrices, written out query by query."""

import numpy as np
import pytest

from didact.attribution.attention import Attention
from didact.attribution.attention_logits import AttentionLogits
from didact.errors import CapabilityError, ParameterError
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS
from didact.types import Floats, Units
from tests.reference.plain import text_model


def slow(model: NetworkModel, units: Units, layer: int, head: int) -> Floats:
    """Mean over the queries of all units, and over the positions of each, less the smallest."""
    ((_, logits),) = model.attention([units], "all", "logits")
    covered = [place for own in units.positions for place in own]
    scores = [
        np.mean([np.mean([float(logits[layer, head, query, key]) for query in covered]) for key in own])
        for own in units.positions
    ]
    return np.array(scores) - min(scores)


@pytest.mark.parametrize("architecture", ["bert", "distilbert"])
def test_a_head_is_the_mean_over_the_rows_of_its_matrix(architecture: str) -> None:
    model = text_model(architecture)
    (made,) = AttentionLogits(layer=1, head=2).explain(model, TEXTS[:1])
    np.testing.assert_allclose(made.array, slow(model, made.units, 1, 2), atol=1e-4)
    assert made.cost.forwards == 2


def test_all_and_last_layer_are_means_over_heads() -> None:
    model = text_model("bert")
    (every,) = AttentionLogits().explain(model, TEXTS[:1])
    (last,) = AttentionLogits(layer=-1).explain(model, TEXTS[:1])
    heads = np.array([[slow(model, every.units, layer, head) for head in range(4)] for layer in range(2)])
    for made, mean in ((every, heads.mean((0, 1))), (last, heads[1].mean(0))):
        np.testing.assert_allclose(made.array, mean - mean.min(), atol=1e-4)


def test_a_single_token_per_unit_ranks_as_the_logits_of_attention_do() -> None:
    model = text_model("bert")
    (ours,) = AttentionLogits(layer=0, head=0, level="token").explain(model, TEXTS[:1])
    (theirs,) = Attention(layer=0, head=0, level="token", rows="mean", kind="logits").explain(model, TEXTS[:1])
    assert np.corrcoef(ours.array, theirs.array)[0, 1] > 0.9  # theirs has queries at special tokens as well


def test_what_does_not_exist_is_refused() -> None:
    for settings in ({"layer": 2}, {"head": 4}):
        with pytest.raises(ParameterError, match="does not exist; the model has"):
            AttentionLogits(**settings).explain(text_model("bert"), TEXTS[:1])  # type: ignore[arg-type]
    with pytest.raises(CapabilityError, match="attention_logits needs a model that is heads"):
        AttentionLogits().explain(text_model("deberta-v2"), TEXTS[:1])
