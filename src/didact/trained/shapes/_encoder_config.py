"""How an encoder is built; free of torch, so that a command line can list its choices quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from didact.errors import ParameterError

EXPLAINED = "explained"
"""In place of a backbone's name: the explained model's own network, without its head."""

Merge = Literal["max", "mean"]
Reads = Literal["text", "image"]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """How an encoder is built.

    Attributes:
        labels: how many outputs of the explained model it is given.
        outputs: numbers per unit that it computes.
        backbone: a directory or Hub id, "default" for the embedded model's encoder, or "explained".
        reads: what the backbone takes: "text" or "image".
        dropout: share of numbers set to 0 in training, inside the backbone and in front of the last layers.
        merge: how numbers of several tokens or patches become that of their unit: the largest, or the mean.
        frozen_embeddings: whether the backbone's input embeddings stay as they are in training.
        max_length: tokens that the backbone reads, the place of the prediction included; its own limit when not given.
        segments: whether the backbone is told the two texts of a pair apart by segment ids.
        centre: mean prediction of a model that predicts numbers; they are standardised with it.
        spread: their standard deviation.
        seed: decides the first weights that are not pretrained.
    """

    labels: int
    outputs: int = 1
    backbone: str = EXPLAINED
    reads: Reads = "text"
    dropout: float = 0.1
    merge: Merge = "max"
    frozen_embeddings: bool = True
    max_length: int | None = None
    segments: bool = False
    centre: float = 0.0
    spread: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "backbone", str(self.backbone))
        for name, allowed in (("merge", Merge), ("reads", Reads)):
            if getattr(self, name) not in get_args(allowed):
                raise ParameterError(
                    f"{name} of an encoder must be one of {get_args(allowed)}, got {getattr(self, name)!r}"
                )
        if not 0 <= self.dropout < 1:
            raise ParameterError(f"dropout of an encoder must be at least 0 and below 1, got {self.dropout!r}")
        if self.max_length is not None and self.max_length < 4:
            raise ParameterError(f"max_length of an encoder must be at least 4 tokens, got {self.max_length!r}")
