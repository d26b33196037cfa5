"""Images for the backbone of an encoder: pixels, and behind the embedded patches the prediction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from didact.errors import FormatError, InputError, ModelError
from didact.models.encoders import pretrained
from didact.models.exclusive import exclusive
from didact.models.readers.base import ReaderOptions
from didact.models.readers.patches import PatchesReader
from didact.trained.shapes._encoder_backbone import FOLDER, embeddings_of
from didact.trained.shapes._encoder_config import EncoderConfig
from didact.trained.shapes._encoder_inputs import PLACES, Arrays, BackboneInputs
from didact.types import Units, overlap_matrix

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.image_processing_utils import BaseImageProcessor


class BackboneImages(BackboneInputs):
    """Pixels as the backbone's image processor makes them; a unit has the patches that share a pixel with it.

    Args:
        network: a vision transformer.
        processor: its image processor.
    """

    name = "image"

    def __init__(self, network: PreTrainedModel, processor: BaseImageProcessor) -> None:
        self.reader = PatchesReader(network, processor, ReaderOptions(max_truncated=1.0))

    @classmethod
    def of(cls, network: PreTrainedModel, processor: object, config: EncoderConfig) -> Self:
        """For a vision transformer with its image processor; refused where no vector can be put behind the patches."""
        made = cls(network, cast("BaseImageProcessor", processor))
        made._check_vector(network)
        return made

    @classmethod
    def load(cls, folder: Path, network: PreTrainedModel, config: EncoderConfig) -> Self:
        """With the stored image processor."""
        try:
            processor = pretrained("AutoImageProcessor", str(folder / FOLDER), local_files_only=True)
        except (OSError, ValueError) as problem:
            raise FormatError(f"{folder / FOLDER} does not hold an image processor: {problem!s:.200}") from None
        return cls(network, processor)

    def save(self, folder: Path) -> None:
        """Write the image processor."""
        self.reader.processor.save_pretrained(str(folder / FOLDER))

    def read(self, units: Sequence[Units]) -> list[Arrays]:
        """Pixels, and the patches of each unit."""
        for own in units:
            if own.example.is_textual:
                raise InputError(f"the encoder's backbone reads images, and the text {own.example.preview} was given")
            self.reader.check(own.example)
        return [self._read(own) for own in units]

    def collate(self, items: Sequence[Mapping[str, NDArray[np.generic]]]) -> dict[str, Tensor]:
        """All images have the size that the backbone takes."""
        return {"pixel_values": torch.from_numpy(np.stack([item["pixel_values"] for item in items]))}

    def width(self, network: PreTrainedModel) -> int:
        """As wide as an embedded patch."""
        return int(network.config.hidden_size)

    def states(self, network: PreTrainedModel, batch: Mapping[str, Tensor], vector: Tensor) -> Tensor:
        """States of all positions, that of the vector last."""
        with exclusive(network), _appended(embeddings_of(network), vector):
            states: Tensor = network(pixel_values=batch["pixel_values"]).last_hidden_state
        return states

    def length(self, item: Mapping[str, NDArray[np.generic]]) -> int:
        """Positions of the backbone and the vector."""
        return len(self.reader.grid) + 1

    def _read(self, units: Units) -> Arrays:
        (code,) = self.reader.encode([units.example])
        (patches,) = self.reader.units([units.example], "patch")
        positions = np.array([own[0] for own in patches.positions], dtype=np.int32)
        return {
            "pixel_values": code.pixels.astype(np.float32),
            PLACES: _table(overlap_matrix(units.regions, patches.regions), positions),
        }

    def _check_vector(self, network: PreTrainedModel) -> None:
        size = (1, *self.reader.encode([self.reader.probe()])[0].pixels.shape)
        with torch.no_grad():
            try:
                states = self.states(network, {"pixel_values": torch.zeros(size)}, torch.zeros(1, self.width(network)))
            except (RuntimeError, ValueError, TypeError, IndexError) as problem:
                raise _unfit(network) from problem
        if states.shape[1] != len(self.reader.grid) + 1:
            raise _unfit(network)


def _table(shared: NDArray[np.bool_], positions: NDArray[np.int32]) -> NDArray[np.int32]:
    """Positions of the patches that each unit shares a pixel with: (units, patches) -> (units, most)."""
    counts = shared.sum(axis=1)
    table = np.full((len(shared), max(1, int(counts.max(initial=0)))), -1, dtype=np.int32)
    table[np.arange(table.shape[1]) < counts[:, None]] = np.broadcast_to(positions, shared.shape)[shared]
    return table


@contextlib.contextmanager
def _appended(embeddings: nn.Module, vector: Tensor) -> Iterator[None]:
    """Inside the block the module gives one more position, which holds the vector (rows, width)."""

    def append(module: nn.Module, given: object, made: Tensor) -> Tensor:
        return torch.cat([made, vector[:, None].to(made.dtype)], dim=1)

    handle = embeddings.register_forward_hook(append)
    try:
        yield
    finally:
        handle.remove()


def _unfit(network: PreTrainedModel) -> ModelError:
    return ModelError(
        f"{type(network).__name__} takes no further position behind its patches, where the prediction could stand; "
        "give backbone= a vision transformer such as 'google/vit-base-patch16-224'"
    )
