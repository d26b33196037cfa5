"""GlobEnc against its definition, token pair by token pair."""

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.attribution.globenc import GlobEnc
from didact.testing.tiny import TEXTS
from tests.reference.encoder import FAMILIES, SlowLayer, SlowModel, lively, slow
from tests.reference.plain import TEXT, per_unit


def slow_norms(model: SlowModel, layer: SlowLayer) -> Tensor:
    """N_ENC: length of what token j gives to token i through attention, residuals and both norms."""
    tokens = len(layer.before)
    attended = layer.attended()
    norms = torch.zeros(tokens, tokens, dtype=torch.double)
    for i in range(tokens):
        block = layer.parts["norm1"](attended[i])
        summed = (layer.parts["outer"](model.feed_forward(layer.parts["inner"](block))) + block).detach()
        torch.testing.assert_close(layer.parts["norm2"](summed).detach(), layer.after[i])
        for j in range(tokens):
            part = layer.normed("norm1", layer.given(i, j), attended[i])
            norms[i, j] = layer.normed("norm2", part, summed).norm()
    return norms


@pytest.mark.parametrize("architecture", FAMILIES)
def test_equals_the_product_of_norms(architecture: str) -> None:
    model = lively(architecture)
    opened = slow(model, TEXT)
    joint = torch.eye(len(opened.layers[0].before), dtype=torch.double)
    for layer in opened.layers:
        joint = slow_norms(opened, layer) @ joint
    (found,) = GlobEnc().explain(model, [TEXT])
    np.testing.assert_allclose(found.array, per_unit(found.units, joint[0] / joint[0].sum()), rtol=1e-5)


def test_scores_are_shares_and_the_target_plays_no_part() -> None:
    model = lively("bert")
    found, other = (GlobEnc().explain(model, [TEXTS[1]], [index])[0] for index in (0, 1))
    assert found.scores == other.scores
    assert min(found.scores) > 0
    assert sum(found.scores) < 1
