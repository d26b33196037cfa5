"""A head: two classes from a bare tensor of outputs, without logits, config or tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from didact.models.batch import EncodedBatch
from didact.models.heads.base import HEADS, Head, HeadCard
from didact.models.outputs import labelled
from didact.protocols import TargetLike
from didact.types import SCALES, Prediction, Scale, Target


@HEADS.register(HeadCard(name="toy_head", family="classification", summary="Dark or light.", answers="class"))
class LightHead(Head):
    """Explains an output of a network that returns a tensor (rows, 2)."""

    labels = ("dark", "light")
    scales: tuple[Scale, ...] = SCALES[:1]

    def outputs(self, result: object) -> Tensor:
        assert isinstance(result, Tensor)
        return result

    def predictions(self, outputs: Tensor, batch: EncodedBatch) -> list[Prediction]:
        shares = outputs.softmax(-1).tolist()
        return [
            Prediction(self.labels, tuple(row), tuple(own)) for row, own in zip(outputs.tolist(), shares, strict=True)
        ]

    def values(self, outputs: Tensor, targets: Sequence[Target], batch: EncodedBatch) -> Tensor:
        assert batch.places.tolist() == [list(range(len(code))) for code in batch.codes]
        return outputs[range(len(targets)), [target.index for target in targets]]

    def readout(self, outputs: Tensor, batch: EncodedBatch) -> Tensor:
        return outputs.log_softmax(-1)

    def target(self, given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
        return labelled(self.labels, given, prediction, scale)
