"""How a scorer is built; free of torch, so that a command line can list its choices quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from didact.errors import ParameterError

Positions = Literal["none", "sinusoidal", "learned"]
Conditional = Literal["ends", "heads"]
Reading = Literal["words", "tokens"]
Embeddings = Literal["own", "first", "kept"]


@dataclass(frozen=True, kw_only=True)
class ScorerConfig:
    """How a scorer is built; the defaults are the published network, but narrower.

    Published are width 512 and inner 2048. A text of 20 words then takes several times as long as with 128 and 512,
    and the scores of words need little room.

    Args:
        labels: names of the explained model's outputs.
        outputs: numbers per word that the signal needs.
        width: size of a hidden state.
        table: size of an embedding where it is not the width: a learned matrix then turns embeddings to the width. For
            embeddings of a wider model that are kept as they are; ``folded`` takes the matrix out after training.
        inner: size inside the feed-forward part; four times the width when not given.
        heads: attention heads per block; they divide the width.
        blocks: how many blocks.
        dropout: in training, the share of numbers set to 0.
        positions: "none" as published: words then have no order, and the scores follow the words when these change
            places; "sinusoidal", or "learned".
        conditional: how the network knows which output is explained. "ends": the output's label is a token at both
            ends of the text, as published, and explaining all outputs means reading the text once for each. "heads":
            no such token, and each word gets its numbers for all outputs at once.
        reading: "words", a vocabulary of the training texts, or "tokens" of a tokenizer, averaged over each word.
        window: how many words (tokens, where those are read) each one sees to either side; all when not given. Labels
            are seen from everywhere.
        pairs: whether pairs of texts are read: a separator stands between them, and words of the second are marked.
        references: how many references there are to tell apart; 0 where there is only one.
        seed: decides the first weights.
    """

    labels: tuple[str, ...]
    outputs: int = 1
    width: int = 128
    table: int | None = None
    inner: int | None = None
    heads: int = 4
    blocks: int = 4
    dropout: float = 0.0
    positions: Positions = "none"
    conditional: Conditional = "ends"
    reading: Reading = "words"
    window: int | None = None
    pairs: bool = False
    references: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        for name in ("outputs", "width", "heads", "blocks"):
            _at_least(name, getattr(self, name), 1)
        for name in ("table", "inner", "window"):
            _at_least(name, 1 if getattr(self, name) is None else getattr(self, name), 1)
        _at_least("references", self.references, 0)
        for name, allowed in (("positions", Positions), ("conditional", Conditional), ("reading", Reading)):
            if getattr(self, name) not in get_args(allowed):
                raise ParameterError(
                    f"{name} of a scorer must be one of {get_args(allowed)}, got {getattr(self, name)!r}"
                )
        if not self.labels:
            raise ParameterError("labels of a scorer must name the explained model's outputs, got none")
        if self.width % self.heads:
            raise ParameterError(f"width of a scorer must be a multiple of its {self.heads} heads, got {self.width}")
        if not 0 <= self.dropout < 1:
            raise ParameterError(f"dropout of a scorer must be at least 0 and below 1, got {self.dropout}")


def _at_least(name: str, value: int, bound: int) -> None:
    if value < bound:
        raise ParameterError(f"{name} of a scorer must be at least {bound}, got {value!r}")
