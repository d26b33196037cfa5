"""A pretrained vision transformer that is fine-tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from didact.models.encoders import embedded_path, load_image_encoder
from didact.models.readers.base import ReaderOptions
from didact.models.readers.patches import PatchesReader
from didact.students.base import STUDENTS, Batch, LabelledExample, StudentCard, TaskSetup
from didact.students.batches import cohort_data
from didact.students.kinds._fine_tuned import FineTuned, FineTunedFactory
from didact.students.network import NetworkTraining
from didact.students.patched import patched
from didact.types import Example

EMBEDDED = "shapes"
"""The embedded model whose encoder is the default."""


@STUDENTS.register(
    StudentCard(
        name="vision_transformer",
        family="network",
        summary="A pretrained vision transformer with a linear layer on its first state, all of it fine-tuned.",
        reference="Fernandes et al., Learning to Scaffold, NeurIPS 2022 (ViT students)",
        answers=frozenset({"class", "number"}),
        offers=frozenset({"attention_row", "attention_matrix", "head_scores", "states"}),
        reads="image",
    )
)
@dataclass(frozen=True, kw_only=True)
class VisionTransformer(FineTuned):
    """Reads images with any vision transformer of Transformers; a position is a patch, and hints are parts of an image.

    The encoder of the embedded model of shapes, with which it begins unless another is given, needs no download but is
    small, and has seen shapes before. The embedding of patches is frozen unless ``train_embeddings`` is true, and then
    students are trained one after another.

    See also ``transformer``, which reads texts.
    """

    def training(self, pool: Sequence[LabelledExample], test: Sequence[Example], setup: TaskSetup) -> NetworkTraining:
        """Copies of the loaded encoder, and images as its processor makes them."""
        factory = ImageEncoderFactory(self, setup)
        images = [patched(some, factory.reader) for some in ([labelled.example for labelled in pool], test)]
        data = cohort_data(pool, images[0], images[1], setup)
        return NetworkTraining(factory.cohort, data, self.planned(), factory.together)


class ImageEncoderFactory(FineTunedFactory):
    """The loaded encoder of images, of which every student is a copy.

    Args:
        student: the settings.
        setup: kind of answer and device.
    """

    def __init__(self, student: VisionTransformer, setup: TaskSetup) -> None:
        place = embedded_path(EMBEDDED) if student.model is None else student.model
        encoder, processor = load_image_encoder(place, dropout=student.dropout)
        self.reader = PatchesReader(encoder, processor, ReaderOptions(max_truncated=1.0))
        super().__init__(student, setup, encoder)

    def embeddings(self) -> nn.Module:
        """What embeds patches and adds their positions."""
        whole: nn.Module | None = getattr(self.encoder, "embeddings", None)
        return self.encoder.get_input_embeddings() if whole is None else whole

    def inputs(self, batch: Batch) -> dict[str, Tensor]:
        """Pixels."""
        if batch.pixels is None:
            raise ValueError("the batch has no pixels, and vision_transformer reads images")
        return {"pixel_values": batch.pixels.flatten(0, 1)}

    def probe(self) -> dict[str, Tensor]:
        """Four images of noise."""
        size = (4, *self.reader.encode([self.reader.probe()])[0].pixels.shape)
        noise = torch.randn(size, generator=torch.Generator().manual_seed(0))
        return {"pixel_values": noise.to(self.encoder.device)}
