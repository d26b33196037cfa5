"""Images, cut into the patches that a vision transformer reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from didact.errors import InputError, ModelError, ParameterError
from didact.models.batch import Inputs
from didact.models.eval_mode import evaluating, quiet
from didact.models.readers._patch_grid import PatchGrid, View
from didact.models.readers.base import (
    READERS,
    Columns,
    Masked,
    Numbers,
    Reader,
    ReaderCard,
    ReaderOptions,
    network_name,
)
from didact.ops.blur import gaussian_blur
from didact.ops.masking import COLOURS, Absence
from didact.types import Example, Image, Level, Units

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.image_processing_utils import BaseImageProcessor

Pixels = NDArray[np.float32]

RECENT = 1 << 26
"""Bytes of the processed images kept: those at work, which every step of an explanation needs again."""
PROBE = 256
"""Height and width of the image that networks are tried on."""

TRIED = {"drop": "attention_mask", "mask": "bool_masked_pos"}
"""Further operators, and the argument of the network's forward pass that each needs."""


@dataclass(frozen=True, eq=False)
class ProcessedImage:
    """One image as the network is fed it.

    Attributes:
        pixels: as the image processor makes them, (channels, height, width).
        positions: of the network.
    """

    pixels: Pixels
    positions: int

    def __len__(self) -> int:
        return self.positions


@READERS.register(
    ReaderCard(
        name="patches",
        family="image",
        summary="An image, as the square patches that a vision transformer embeds.",
        fields=("image",),
        processor="AutoImageProcessor",
        main_input="pixel_values",
    )
)
class PatchesReader(Reader[ProcessedImage]):
    """Feeds pixels; units are the patches, as boxes in the original image.

    Gradients are taken with respect to the pixels of each patch, after the image processor has scaled them: to the
    network's own input. An absent patch is painted with another colour ("mean", "zero", "blur"), mixed with the mean
    colour ("blend"), hidden from attention ("drop") where the network takes an attention mask, or replaced by the
    network's mask token ("mask") where it has one. Baselines named "mask" and "pad", as for texts, are the mean colour
    and 0.

    Args:
        network: a Transformers network that takes ``pixel_values``, or one that is called alike.
        processor: its image processor.
        options: how much of an image the processor may cut off.
    """

    levels: tuple[Level, ...] = ("patch",)
    default_absence = "mean"

    def __init__(
        self, network: PreTrainedModel, processor: BaseImageProcessor, options: ReaderOptions | None = None
    ) -> None:
        self.network = network
        self.processor = processor
        self.options = options or ReaderOptions()
        if self.options.max_length is not None:
            raise ParameterError("max_length limits texts; an image always has as many patches as the network takes")
        self.settings: Mapping[str, object] = processor.to_dict()
        self._recent: dict[str, ProcessedImage] = {}
        self._further: frozenset[str] | None = None
        self.grid = self._find_grid()
        self.reads = None if self.grid.first else "mean"  # without a position of its own, the classifier reads them all

    @classmethod
    def serves(cls, network: nn.Module, processor: object) -> bool:
        """Networks of patches with an image processor."""
        return is_image_processor(processor) and hasattr(getattr(network, "config", None), "patch_size")

    @classmethod
    def of(cls, network: nn.Module, processor: object, options: ReaderOptions) -> Self:
        """With the network's image processor."""
        if not is_image_processor(processor):
            raise ModelError(
                f"{network_name(network)} reads images, so an image processor is needed beside it, got "
                f"{type(processor).__name__}; give (model, AutoImageProcessor.from_pretrained(...))"
            )
        return cls(cast("PreTrainedModel", network), cast("BaseImageProcessor", processor), options)

    def identity(self) -> object:
        """The image processor with all its settings."""
        settings = json.dumps(dict(self.settings), sort_keys=True, default=str)
        return [self.card.name, type(self.processor).__name__, settings]

    def tensor(self, array: Numbers) -> Tensor:
        """An array where the network is; pixels in the type of its weights."""
        made = super().tensor(array)
        return made.to(next(self.network.parameters()).dtype) if made.is_floating_point() else made

    def check(self, example: Example) -> None:
        """Refuse texts, images with fewer pixels than patches, and those of which most would be cut off."""
        image = self._image(example)
        (width, height), view = image.size, self._view(image)
        if (view.right - view.left) < self.grid.columns or (view.bottom - view.top) < self.grid.rows:
            raise InputError(
                f"the image has {width} x {height} pixels, and {network_name(self.network)} cuts it into "
                f"{self.grid.columns} x {self.grid.rows} patches, each of which must be at least a pixel; enlarge it"
            )
        hidden = view.hidden(width, height)
        if hidden > self.options.max_truncated:
            raise InputError(
                f"the image processor cuts {hidden:.0%} off an image of {width} x {height} pixels, more than the "
                f"{self.options.max_truncated:.0%} allowed; crop the image yourself, or raise max_truncated"
            )

    def probe(self) -> Example:
        """An image of many colours."""
        return Example(Image(_probe()))

    def encode(self, examples: Sequence[Example]) -> list[ProcessedImage]:
        """Pixels as the image processor makes them."""
        return [self._encoded(self._image(example)) for example in examples]

    def units(self, examples: Sequence[Example], level: Level) -> list[Units]:
        """The patches, row by row, that show a part of the image."""
        return [self._units(example, level) for example in examples]

    def whole(self, codes: Sequence[ProcessedImage]) -> Inputs:
        """Pixels of whole images."""
        return {"pixel_values": self.tensor(np.stack([code.pixels for code in codes]))}

    def absence(self, name: str) -> Absence:
        """Another colour for absent patches, or what else the network has for them."""
        offered = [*COLOURS, "blend"] if name not in TRIED else [*COLOURS, "blend", *sorted(self.further)]
        if name in TRIED and name not in offered:
            raise ParameterError(
                f"{network_name(self.network)} takes no {TRIED[name]}, so {name!r} is not possible; allowed: "
                f"{', '.join(offered)}"
            )
        return Absence.parse(name, offered)

    def masked(self, part: Masked[ProcessedImage]) -> Columns:
        """Pixels of the variants, with absent patches painted over, or marked as hidden or masked."""
        pixels, operator = part.code.pixels, part.operator
        if operator.kind in ("hide", "mask"):
            every = np.broadcast_to(pixels, (len(part.present), *pixels.shape))
            return {"pixel_values": every, **self._marks(operator.kind, part.present)}
        present = self.grid.pixels(part.present)[:, None]
        return {"pixel_values": np.where(present, pixels, self._painted(operator, pixels))}

    def vectors(self, codes: Sequence[ProcessedImage]) -> list[Tensor]:
        """The pixels of each patch; positions that are no patch have zeros, which nothing reads."""
        return [self._by_position(self.whole([code])["pixel_values"])[0] for code in codes]

    def absent_vector(self, name: str, like: Tensor) -> Tensor:
        """The pixels that a patch is painted with: "mean", "zero" or "blur"; "mask" is the mean and "pad" is 0."""
        operator = Absence.parse({"mask": "mean", "pad": "zero"}.get(name, name), COLOURS)
        pixels = self.grid.fold(like[None, self.grid.first :])[0].float().cpu().numpy()
        painted = np.broadcast_to(self._painted(operator, pixels), pixels.shape)
        return self._by_position(self.tensor(painted)[None])[0]

    def embedded(self, codes: Sequence[ProcessedImage], vectors: Tensor) -> Inputs:
        """Images put together from the pixels of their patches."""
        if vectors.shape[1] != len(self.grid):
            raise ValueError(f"there are {len(self.grid)} positions, and none can be added")
        return {"pixel_values": self.grid.fold(vectors[:, self.grid.first :])}

    @property
    def further(self) -> frozenset[str]:
        """Operators beyond colours that the network has what it takes for; tried once, on first need."""
        if self._further is None:
            with evaluating(self.network), quiet(), torch.inference_mode():
                self._further = frozenset(kind for kind in TRIED if self._takes(kind))
        return self._further

    def _takes(self, kind: str) -> bool:
        """Whether the argument of an operator changes what the network computes."""
        codes = self.encode([self.probe()])
        inputs = self.whole(codes)
        present = np.ones((1, len(self.grid)), dtype=np.bool_)
        present[0, self.grid.first] = False
        marks = {name: self.tensor(column) for name, column in self._marks(kind, present).items()}
        try:
            plain, marked = (_first(self.network(**given)) for given in (inputs, {**inputs, **marks}))
        except (TypeError, ValueError, RuntimeError, AttributeError, IndexError):
            return False
        return bool((plain != marked).any())

    def _marks(self, kind: str, present: NDArray[np.generic]) -> Columns:
        """The argument that shows to the network which patches are absent."""
        if kind == "mask":
            return {TRIED[kind]: 1 - present[:, self.grid.first :].astype(np.int64)}
        return {TRIED["drop"]: present.astype(np.int64)}

    def _painted(self, operator: Absence, pixels: Pixels) -> Pixels:
        """What shows where a patch is absent; broadcasts to the pixels' shape."""
        if operator.kind == "zero":
            return np.zeros_like(pixels[:, :1, :1])
        if operator.kind == "blur":
            return gaussian_blur(pixels, float(operator.token or max(self.grid.height, self.grid.width)))
        return np.asarray(pixels.mean((1, 2), keepdims=True))

    def _by_position(self, images: Tensor) -> Tensor:
        return functional.pad(self.grid.cut(images), (0, 0, self.grid.first, 0))

    def _units(self, example: Example, level: Level) -> Units:
        image = self._image(example)
        view = self._view(image)
        boxes = view.boxes(self.grid, *image.size)
        seen = [(box, (self.grid.first + number,)) for number, box in enumerate(boxes) if box is not None]
        regions, positions = zip(*seen, strict=True)
        return Units(example, level, regions, positions, truncated=view.hidden(*image.size))

    def _image(self, example: Example) -> Image:
        fields = example.fields
        if len(fields) != 1 or not isinstance(fields[0], Image):
            kinds = " and ".join("text" if isinstance(field, str) else "image" for field in fields)
            raise InputError(f"{network_name(self.network)} explains single images, got {kinds}")
        return fields[0]

    def _view(self, image: Image) -> View:
        return View.of(self.settings, *image.size)

    def _encoded(self, image: Image) -> ProcessedImage:
        known = self._recent.get(image.fingerprint)
        if known is not None:
            return known
        made = ProcessedImage(self._processed(image), len(self.grid))
        if made.pixels.shape[1:] != self.grid.size:
            raise ModelError(
                f"the image processor makes {made.pixels.shape[1:]} pixels of an image of {image.size}, but the "
                f"network takes {self.grid.size}; set its size or crop_size"
            )
        if (len(self._recent) + 1) * made.pixels.nbytes > RECENT:
            self._recent = {}
        self._recent[image.fingerprint] = made
        return made

    def _processed(self, image: Image) -> Pixels:
        with quiet():
            batch = self.processor(images=[image.pixels], return_tensors="pt", input_data_format="channels_last")
        return np.asarray(batch["pixel_values"][0].float().numpy())

    def _find_grid(self) -> PatchGrid:
        """How the network cuts what its processor makes, and how many positions it has beside the patches."""
        pixels = self._processed(Image(_probe()))
        given = self.network.config.patch_size  # type: ignore[union-attr]
        height, width = given if isinstance(given, (tuple, list)) else (given, given)
        rows, columns = pixels.shape[1] // height, pixels.shape[2] // width
        grid = PatchGrid(rows, columns, height, width)
        if grid.size != pixels.shape[1:]:
            raise ModelError(
                f"images of {pixels.shape[2]} x {pixels.shape[1]} pixels, which the image processor makes, cannot be "
                f"cut into patches of {width} x {height}; set its size to a multiple"
            )
        with evaluating(self.network), quiet(), torch.inference_mode():
            positions = self._positions(pixels)
        if positions < len(grid):
            raise ModelError(
                f"{type(self.network).__name__} has {positions} positions at its end for {len(grid)} patches: it "
                "merges patches on the way, so they cannot be followed; explain it as a function of images"
            )
        return replace(grid, first=positions - len(grid))

    def _positions(self, pixels: Pixels) -> int:
        try:
            states = self._states({"pixel_values": self.tensor(pixels[None])})
        except (ValueError, RuntimeError) as problem:
            raise ModelError(
                f"{type(self.network).__name__} does not take what its image processor makes: {problem}"
            ) from problem
        return states.shape[1]

    def _states(self, inputs: Inputs) -> Tensor:
        states: Tensor = self.network.base_model(**inputs).last_hidden_state  # type: ignore[operator]
        return states


def is_image_processor(processor: object) -> bool:
    """Whether what came along with a network turns images into its inputs."""
    module = sys.modules.get("transformers.image_processing_base")  # whoever has one has loaded it
    return module is not None and isinstance(processor, module.ImageProcessingMixin)


def _first(result: object) -> Tensor:
    """The first tensor of what a network returns."""
    return result if isinstance(result, Tensor) else cast("Sequence[Tensor]", result)[0]


def _probe() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (PROBE, PROBE, 3), dtype=np.uint8)
