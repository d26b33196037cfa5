"""ALTI against its definition, token pair by token pair."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.attribution.alti import Alti
from didact.testing.tiny import TEXTS
from tests.reference.encoder import FAMILIES, SlowLayer, lively, slow
from tests.reference.plain import TEXT, per_unit


def slow_shares(layer: SlowLayer) -> Tensor:
    """Contributions c_ij of token j to token i, rows adding up to 1."""
    tokens = len(layer.before)
    attended = layer.attended()
    shares = torch.zeros(tokens, tokens, dtype=torch.double)
    for i in range(tokens):
        y = layer.parts["norm1"](attended[i]).detach()
        for j in range(tokens):
            transformed = layer.normed("norm1", layer.given(i, j), attended[i])
            distance = (y - transformed).abs().sum()
            shares[i, j] = max(0.0, float(y.abs().sum() - distance))
        shares[i] /= shares[i].sum()
    return shares


@pytest.mark.parametrize("architecture", FAMILIES)
def test_equals_the_product_of_contributions(architecture: str) -> None:
    model = lively(architecture)
    opened = slow(model, TEXT)
    joint = torch.eye(len(opened.layers[0].before), dtype=torch.double)
    for layer in opened.layers:
        joint = slow_shares(layer) @ joint
    (found,) = Alti().explain(model, [TEXT])
    np.testing.assert_allclose(found.array, per_unit(found.units, joint[0]), atol=1e-5)
    assert joint[0].sum() == pytest.approx(1)


def test_transformed_vectors_and_biases_add_up_to_the_blocks_output() -> None:
    layer = slow(lively("bert"), TEXT).layers[1]
    attended = layer.attended()
    parts = [layer.normed("norm1", layer.given(2, j), attended[2]) for j in range(len(attended))]
    rest = layer.normed("norm1", layer.bias("output"), attended[2]) + layer.bias("norm1")
    torch.testing.assert_close(torch.stack(parts).sum(0) + rest, layer.parts["norm1"](attended[2]).detach())


def test_where_no_vector_comes_near_a_token_comes_from_itself() -> None:
    model = lively("bert")
    network: Any = model.network.base_model
    for layer in network.encoder.layer:  # an output that is all bias lies away from every transformed vector
        norm = layer.attention.output.LayerNorm
        norm.weight.data.fill_(1e-3)
        norm.bias.data.copy_(torch.tensor([10.0, -10.0]).repeat(16))
        layer.attention.output.dense.weight.data.zero_()
        layer.attention.output.dense.bias.data.copy_(torch.tensor([-1e6, 1e6]).repeat(16))
    (found,) = Alti().explain(model, [TEXT])
    assert not found.array.any()  # the position that the classifier reads comes from itself, a special token


def test_scores_are_shares_and_the_target_plays_no_part() -> None:
    model = lively("bert")
    found, other = (Alti().explain(model, [TEXTS[1]], [index])[0] for index in (0, 1))
    assert found.scores == other.scores
    assert min(found.scores) >= 0
    assert sum(found.scores) < 1
