"""Scores of patches beside captum's, on the same network, baseline and patches."""

import captum.attr
import numpy as np
import pytest
import torch
from torch import Tensor

from didact.attribution.base import ATTRIBUTIONS
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.testing.tiny import tiny_image_model, tiny_images
from didact.types import Floats


class Case:
    """An image, the network as captum calls it, and captum's per-pixel numbers added up over patches."""

    def __init__(self) -> None:
        made = load_model(tiny_image_model())
        assert isinstance(made, NetworkModel)
        self.model, self.example = made, tiny_images()[1]
        reader = made.reader
        self.pixels = reader.whole(reader.encode([self.example]))["pixel_values"]
        self.mean = self.pixels.mean((2, 3), keepdim=True).expand_as(self.pixels)
        self.target = made.predict([self.example])[0].index
        self.grid = reader.grid  # type: ignore[attr-defined]

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.model.network(pixel_values=pixels).logits
        return logits

    def by_patch(self, numbers: Tensor) -> Floats:
        summed: Floats = self.grid.cut(numbers.detach())[0].double().sum(-1).numpy()
        return summed

    def ours(self, method: str, **settings: object) -> Floats:
        return ATTRIBUTIONS.get(method).configured(**settings).explain(self.model, [self.example])[0].array


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


def test_integrated_gradients(case: Case) -> None:
    theirs = captum.attr.IntegratedGradients(case.forward).attribute(
        case.pixels, case.mean, target=case.target, n_steps=50, method="gausslegendre"
    )
    ours = case.ours("integrated_gradients", steps=50, max_steps=50, baseline="mean")
    np.testing.assert_allclose(ours, case.by_patch(theirs), rtol=1e-3, atol=1e-4)


def test_gradient_x_input(case: Case) -> None:
    theirs = captum.attr.InputXGradient(case.forward).attribute(
        case.pixels.clone().requires_grad_(), target=case.target
    )
    np.testing.assert_allclose(case.ours("gradient_x_input"), case.by_patch(theirs), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("absence", ["mean", "zero"])
def test_occlusion(absence: str, case: Case) -> None:
    numbers = torch.arange(16).view(4, 4).repeat_interleave(4, 0).repeat_interleave(4, 1)
    base = case.mean if absence == "mean" else torch.zeros_like(case.pixels)
    with torch.no_grad():
        theirs = captum.attr.FeatureAblation(case.forward).attribute(
            case.pixels, base, target=case.target, feature_mask=numbers[None, None]
        )
    each = theirs[0, 0, ::4, ::4].flatten().double().numpy()  # the same number at every pixel of a patch
    np.testing.assert_allclose(case.ours("occlusion", absence=absence), each, rtol=1e-3, atol=1e-4)
