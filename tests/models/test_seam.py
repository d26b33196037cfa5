"""A kind of input that the engine has never heard of: pixels, from a reader and a head of another package."""

import numpy as np
import pytest

from didact.attribution.base import ATTRIBUTIONS
from didact.errors import CapabilityError, ParameterError
from didact.models.network import NetworkModel
from didact.types import Target
from tests.third_party.images import RedNetwork, planted
from tests.third_party.installed import installed

with installed():
    from toybox.toy_head import LightHead
    from toybox.toy_reader import GRID, PatchReader


@pytest.fixture
def model() -> NetworkModel:
    network = RedNetwork().train()
    return NetworkModel(network, PatchReader(network), LightHead())


@pytest.mark.parametrize("method", ["occlusion", "kernel_shap", "gradient_x_input", "integrated_gradients"])
def test_the_planted_patch_gets_the_highest_score(method: str, model: NetworkModel) -> None:
    patches = (0, 4, 7)
    explanations = ATTRIBUTIONS.get(method)().explain(model, [planted(patch) for patch in patches])
    for patch, explanation in zip(patches, explanations, strict=True):
        assert explanation.target.label == "light"
        assert explanation.units.level == "patch"
        assert int(np.argmax(explanation.scores)) == patch
        assert len(explanation.scores) == GRID * GRID
    assert model.network.training


def test_the_network_offers_what_its_reader_and_forward_allow(model: NetworkModel) -> None:
    assert model.capabilities == {"differentiable"}
    assert model.default_absence == "mean"
    with pytest.raises(ParameterError, match="not 'drop'"):
        model.score(model.units([planted(1)]), [Target(1, "light")], [np.ones((1, 9), dtype=np.bool_)], "drop")
    with pytest.raises(CapabilityError, match="reads no text"):
        _ = model.tokenizer
    assert model.fingerprint() == NetworkModel(model.network, model.reader, model.head).fingerprint()
