"""A kind of input that the engine has never heard of: pixels, from a reader and a head written here."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.attribution.base import ATTRIBUTIONS
from didact.errors import CapabilityError, ParameterError
from didact.models.batch import EncodedBatch, Inputs
from didact.models.heads.base import Head, HeadCard
from didact.models.network import NetworkModel
from didact.models.outputs import labelled
from didact.models.readers.base import Columns, Masked, Reader, ReaderCard
from didact.ops.masking import Absence
from didact.protocols import TargetLike
from didact.types import SCALES, Box, Example, Image, Prediction, Scale, Target, Units

SIDE, GRID = 4, 3  # pixels of a patch, patches of a row


@dataclass(frozen=True, eq=False)
class Patches:
    """An image as rows of pixels, (patches, pixels)."""

    pixels: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.pixels)


class PatchReader(Reader[Patches]):
    """Feeds flattened patches; an absent patch has the image's mean colour, and its pixels are its embedding."""

    card = ReaderCard(name="toy_patches", family="image", summary="Square patches.", fields=("image",))
    levels = ("patch",)
    default_absence = "mean"

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    def probe(self) -> Example:
        return Example(Image(np.arange((SIDE * GRID) ** 2 * 3, dtype=np.uint8).reshape(SIDE * GRID, SIDE * GRID, 3)))

    def encode(self, examples: Sequence[Example]) -> list[Patches]:
        images = [field for example in examples for field in example.fields if isinstance(field, Image)]
        cut = [image.pixels.reshape(GRID, SIDE, GRID, SIDE, 3).swapaxes(1, 2) for image in images]
        return [Patches(own.reshape(GRID * GRID, -1).astype(np.float32) / 255) for own in cut]

    def units(self, examples: Sequence[Example], level: str) -> list[Units]:
        corners = [(column * SIDE, row * SIDE) for row in range(GRID) for column in range(GRID)]
        boxes = tuple(Box(left, top, left + SIDE, top + SIDE) for left, top in corners)
        return [Units(example, level, boxes, tuple((i,) for i in range(len(boxes)))) for example in examples]

    def whole(self, codes: Sequence[Patches]) -> Inputs:
        return {"patches": self.tensor(np.stack([code.pixels for code in codes]))}

    def absence(self, name: str) -> Absence:
        if name not in ("mean", "blend"):
            raise ParameterError(f"an absent patch is shown as 'mean' or by 'blend', not {name!r}")
        return Absence(name)

    def masked(self, part: Masked[Patches]) -> Columns:
        return {"patches": np.where(part.present[..., None], part.code.pixels, _mean(part.code.pixels))}

    def vectors(self, codes: Sequence[Patches]) -> list[Tensor]:
        return [self.tensor(code.pixels) for code in codes]

    def absent_vector(self, name: str, like: Tensor) -> Tensor:
        return torch.zeros_like(like[0]) if name == "zero" else self.tensor(_mean(like.cpu().numpy()))

    def embedded(self, codes: Sequence[Patches], vectors: Tensor) -> Inputs:
        return {"patches": vectors}


class LightHead(Head):
    """Two classes from a bare tensor of outputs, without logits, config or tokenizer."""

    card = HeadCard(name="toy_light", family="classification", summary="Dark or light.", answers="class")
    labels = ("dark", "light")
    scales: tuple[Scale, ...] = SCALES[:1]

    def outputs(self, result: object) -> Tensor:
        assert isinstance(result, Tensor)
        return result

    def predictions(self, outputs: Tensor, batch: EncodedBatch) -> list[Prediction]:
        return [Prediction(self.labels, tuple(row), tuple(torch.tensor(row).softmax(0))) for row in outputs.tolist()]

    def values(self, outputs: Tensor, targets: Sequence[Target], batch: EncodedBatch) -> Tensor:
        assert batch.places.tolist() == [list(range(GRID * GRID))] * len(outputs)
        return outputs[range(len(targets)), [target.index for target in targets]]

    def target(self, given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
        return labelled(self.labels, given, prediction, scale)


class Network(nn.Module):
    """Light where any patch is red; what is green or blue counts a little, and dropout would blur it all."""

    def __init__(self) -> None:
        super().__init__()
        self.colour = nn.Parameter(torch.tensor([4.0, 0.05, -0.05]))
        self.dropout = nn.Dropout(0.5)

    def forward(self, patches: Tensor) -> Tensor:
        redness = self.dropout(patches.unflatten(-1, (-1, 3)).mean(-2) @ self.colour).relu().sum(-1)
        return torch.stack([-redness, redness], -1)


def _mean(patches: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.tile(patches.reshape(-1, 3).mean(0), SIDE * SIDE)


def planted(patch: int) -> Example:
    """Grey noise with one red patch."""
    pixels = np.random.default_rng(patch).integers(60, 70, (SIDE * GRID, SIDE * GRID, 3)).astype(np.uint8)
    pixels[..., 0] = 10
    row, column = divmod(patch, GRID)
    pixels[row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE] = (250, 60, 60)
    return Example(Image(pixels))


@pytest.fixture
def model() -> NetworkModel:
    network = Network().train()
    return NetworkModel(network, PatchReader(network), LightHead())


@pytest.mark.parametrize("method", ["occlusion", "kernel_shap", "gradient_x_input", "integrated_gradients"])
def test_the_planted_patch_gets_the_highest_score(method: str, model: NetworkModel) -> None:
    patches = (0, 4, 7)
    for patch, found in zip(
        patches, ATTRIBUTIONS.get(method)().explain(model, [planted(p) for p in patches]), strict=True
    ):
        assert found.target.label == "light"
        assert found.units.level == "patch"
        assert int(np.argmax(found.scores)) == patch
        assert len(found.scores) == GRID * GRID
    assert model.network.training


def test_the_network_offers_what_its_reader_and_forward_allow(model: NetworkModel) -> None:
    assert model.capabilities == {"differentiable"}
    assert model.default_absence == "mean"
    with pytest.raises(ParameterError, match="not 'drop'"):
        model.score(model.units([planted(1)]), [Target(1, "light")], [np.ones((1, 9), dtype=np.bool_)], "drop")
    with pytest.raises(CapabilityError, match="reads no text"):
        _ = model.tokenizer
    assert model.fingerprint() == NetworkModel(model.network, model.reader, model.head).fingerprint()
