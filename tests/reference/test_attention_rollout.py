"""Attention rollout against the product of matrices written out entry by entry."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.attribution.attention_rollout import AttentionRollout
from didact.errors import ParameterError
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS
from tests.reference.plain import TEXT, eager, encoded, per_unit, text_model


def maps(model: NetworkModel, text: str) -> Tensor:
    network = model.network if model.network.config.model_type == "deberta-v2" else eager(model.network)
    with torch.no_grad():
        seen = network(**encoded(model, text), output_attentions=True).attentions
    return torch.stack([layer[0] for layer in seen]).double()


def slow_rollout(heads: Tensor, residual: float = 0.5) -> Tensor:
    """Joint attention of all layers, (tokens, tokens), with loops over entries."""
    layers, count, tokens, _ = heads.shape
    joint = torch.eye(tokens, dtype=heads.dtype)
    for layer in range(layers):
        product = torch.zeros_like(joint)
        for i in range(tokens):
            for j in range(tokens):
                for k in range(tokens):
                    mean = sum(heads[layer, h, i, k] for h in range(count)) / count
                    product[i, j] += ((1 - residual) * mean + residual * (i == k)) * joint[k, j]
        joint = product
    return joint


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "modernbert", "deberta-v2"])
def test_equals_the_product_over_layers(architecture: str) -> None:
    model = text_model(architecture)
    (found,) = AttentionRollout().explain(model, ["good and warm"])
    joint = slow_rollout(maps(model, "good and warm"))
    np.testing.assert_allclose(found.array, per_unit(found.units, joint[0]), atol=1e-6)


def test_one_layer_is_half_attention_half_identity() -> None:
    model = text_model("bert")
    network: Any = model.network.base_model
    network.encoder.layer = network.encoder.layer[:1]
    (found,) = AttentionRollout(level="token").explain(model, [TEXT])
    wanted = 0.5 * maps(model, TEXT)[0].mean(0) + 0.5 * torch.eye(len(found.units) + 2)
    np.testing.assert_allclose(found.array, wanted[0, 1:-1], atol=1e-6)


def test_a_decoder_is_read_at_its_last_token() -> None:
    model = text_model("gpt2")
    (found,) = AttentionRollout().explain(model, ["good and warm"])
    joint = slow_rollout(maps(model, "good and warm"))
    np.testing.assert_allclose(found.array, per_unit(found.units, joint[-1]), atol=1e-6)
    assert sum(found.scores) == pytest.approx(1, abs=1e-5)  # a decoder has no special tokens here


def test_mean_pooling_reads_the_mean_of_rows() -> None:
    model = text_model("modernbert")
    model.network.config.classifier_pooling = "mean"
    (found,) = AttentionRollout().explain(model, ["good and warm"])
    joint = slow_rollout(maps(model, "good and warm"))
    np.testing.assert_allclose(found.array, per_unit(found.units, joint.mean(0)), atol=1e-6)


@pytest.mark.parametrize("residual", [0.0, 0.2, 1.0])
def test_the_weight_of_the_residual_can_be_chosen(residual: float) -> None:
    model = text_model("bert")
    (found,) = AttentionRollout(residual=residual).explain(model, ["good and warm"])
    joint = slow_rollout(maps(model, "good and warm"), residual)
    np.testing.assert_allclose(found.array, per_unit(found.units, joint[0]), atol=1e-6)


def test_scores_are_shares_and_the_target_plays_no_part() -> None:
    model = text_model("roberta")
    found, other = (AttentionRollout().explain(model, [TEXTS[1]], [index])[0] for index in (0, 1))
    assert found.scores == other.scores
    assert min(found.scores) >= 0
    assert sum(found.scores) < 1


@pytest.mark.parametrize("residual", [-0.1, 1.5])
def test_a_weight_outside_0_to_1_is_refused(residual: float) -> None:
    with pytest.raises(ParameterError, match="residual of attention_rollout"):
        AttentionRollout(residual=residual)
