"""L2E's network: a small transformer over the words of a text and the label that is explained."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from didact.errors import FormatError, InputError, ParameterError
from didact.trained.shapes._attention import Sight
from didact.trained.shapes.base import Batch, Item, Shape
from didact.trained.shapes.vocabulary import PAD, READERS, UNKNOWN, Pieces, UnitReader, Vocabulary
from didact.types import Prediction, Units

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Positions = Literal["none", "sinusoidal", "learned"]
Conditional = Literal["ends", "heads"]
Reading = Literal["words", "tokens"]

LEARNED_PLACES = 512
"""Places that have a learned position of their own; all later ones share the last."""


@dataclass(frozen=True, kw_only=True)
class ScorerConfig:
    """How a scorer is built; the defaults are the published network, but narrower.

    Published are width 512 and inner 2048. A text of 20 words then takes several times as long as with 128 and 512,
    and the scores of words need little room.

    Args:
        labels: names of the explained model's outputs.
        outputs: numbers per word that the signal asks for.
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
        teachers: how many teachers there are to tell apart; 0 for one that needs no name.
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
    teachers: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        for name in ("outputs", "width", "heads", "blocks"):
            _at_least(name, getattr(self, name), 1)
        for name in ("table", "inner", "window"):
            _at_least(name, 1 if getattr(self, name) is None else getattr(self, name), 1)
        _at_least("teachers", self.teachers, 0)
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


class Scorer(Shape):
    """Scores all words of a text in one pass, for the output of the explained model that it is told.

    What is no word (the label at both ends, the teacher, the separator of a pair) is kept in front of the words: order
    matters to the network through positions alone, and these are counted as in the text. So tags can have no score,
    and one output is left per word without picking them out.

    Args:
        config: sizes and choices.
        reader: gives words their numbers; of the kind that ``config.reading`` says.
    """

    name = "scorer"

    def __init__(self, config: ScorerConfig, reader: UnitReader) -> None:
        super().__init__()
        if reader.name != config.reading:
            raise ParameterError(f"the scorer reads {config.reading}, but was given a reader of {reader.name}")
        self.config = config
        self.reader = reader
        # Numbers of the embedding: what the reader gives, the separator, the teachers, the labels.
        self._separator = reader.size
        self._teachers = reader.size + 1
        self._labels = self._teachers + config.teachers
        ends = config.conditional == "ends"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            numbers = self._labels + (len(config.labels) if ends else 0)
            self.embedding = _embedding(numbers, config.table or config.width)
            self.places = _embedding(LEARNED_PLACES, config.width) if config.positions == "learned" else None
            self.second = _embedding(2, config.width) if config.pairs else None
            self.blocks = nn.ModuleList(_Block(config) for _ in range(config.blocks))
            self.output = _linear(config.width, config.outputs * (1 if ends else len(config.labels)))
            self.turn = None if config.table is None else _turn(config.table, config.width)
        self.dropout = nn.Dropout(config.dropout)

    @classmethod
    def for_texts(
        cls,
        units: Sequence[Units],
        config: ScorerConfig,
        *,
        tokenizer: PreTrainedTokenizerBase | None = None,
        min_count: int = 2,
    ) -> Self:
        """An untrained scorer for texts like these, which should be the training texts.

        Args:
            units: decide the vocabulary of words, and whether pairs are read.
            config: sizes and choices.
            tokenizer: what reads the text where ``config.reading`` is "tokens": the explained model's.
            min_count: rarer words are unknown ones.
        """
        reader: UnitReader
        if config.reading == "words":
            reader = Vocabulary.of(units, min_count=min_count)
        elif tokenizer is None:
            raise ParameterError(
                "a scorer with reading='tokens' needs the explained model's tokenizer; give tokenizer="
            )
        else:
            reader = Pieces(tokenizer)
        pairs = config.pairs or any(unit.example.text_pair is not None for unit in units)
        return cls(dataclasses.replace(config, pairs=pairs), reader)

    def inherit(self, rows: Tensor, *, keep: bool = True) -> None:
        """Give the tokens another model's embeddings (tokens, size), turned to as many main directions as fit.

        Words that no training text has then lie near words that they have something in common with. Kept ones are not
        trained; embeddings of what is no token, such as labels, are as they were drawn. A matrix that turns embeddings
        to the width takes the first directions at first, and learns what the others are good for.

        Args:
            rows: embeddings of the tokenizer's tokens, in its order.
            keep: whether to leave them as they are in training.
        """
        if self.config.reading != "tokens":
            raise ParameterError("a scorer of words has no tokens to inherit embeddings for; use reading='tokens'")
        size, first = self.embedding.embedding_dim, UNKNOWN + 1  # the reader counts tokens from here on
        with torch.no_grad():
            rows = rows.float().cpu()
            centred = rows - rows.mean(0)
            _, _, directions = torch.linalg.svd(centred.T @ centred)
            turned = centred @ directions[:size].T
            turned = turned / turned.std() * size**-0.5  # as wide as the random ones
            count = min(len(turned), self.reader.size - first)
            self.embedding.weight[first : first + count, : turned.shape[1]] = turned[:count].to(self.embedding.weight)
            if self.turn is not None:
                nn.init.eye_(self.turn.weight)
                self.turn.weight *= self.config.width**-0.5 / turned[:, : self.config.width].std()
        self.embedding.weight.requires_grad_(not keep)

    def folded(self) -> Self:
        """The same scorer with the matrix of ``table`` multiplied into the embeddings: smaller, and a step less."""
        if self.turn is None:
            return self
        made = type(self)(dataclasses.replace(self.config, table=None), self.reader)
        weights = {name: weight for name, weight in self.state_dict().items() if not name.startswith("turn.")}
        weights["embedding.weight"] = self.turn(self.embedding.weight).detach()
        made.to(self.embedding.weight).load_state_dict(weights)
        return made.train(self.training)

    @property
    def outputs(self) -> int:
        """Numbers per unit."""
        return self.config.outputs

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration as plain JSON values."""
        return dataclasses.asdict(self.config) | {"labels": list(self.config.labels)}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], folder: Path) -> Self:
        """Build it untrained, reading as what ``save_reading`` wrote says."""
        try:
            config = ScorerConfig(**settings)
        except TypeError as problem:
            raise FormatError(f"these are not the settings of a scorer: {problem}") from None
        return cls(config, READERS[config.reading].load(folder))

    def save_reading(self, folder: Path) -> None:
        """Write the vocabulary or the tokenizer."""
        self.reader.save(folder)

    def vocabulary(self) -> Sequence[str]:
        """The reader's words."""
        return self.reader.vocabulary()

    @property
    def traced_units(self) -> int:
        """More than a window: the pass of shorter texts leaves it out."""
        return 8 + (self.config.window or 0)

    def read(self, texts: Sequence[Units], targets: Sequence[int], predictions: Sequence[Prediction]) -> list[Item]:
        """The numbers of its words, and which output is explained; the teacher is the first until ``taught_by``."""
        labels = len(self.config.labels)
        for target in targets:
            if not 0 <= target < labels:
                raise InputError(f"the target is output {target}, but this scorer knows {labels} labels")
        if not self.config.pairs and any(units.example.text_pair is not None for units in texts):
            raise InputError("a pair was given to a scorer that reads single texts; train one with pairs=True")
        return [self._item(*one) for one in zip(texts, targets, self.reader.read(texts), strict=True)]

    def _item(self, units: Units, target: int, pieces: tuple[NDArray[np.int32], NDArray[np.int32]]) -> Item:
        ids, owners = pieces
        item = {"ids": ids, "target": np.array(target), "units": np.array(len(units))}
        if self.config.reading == "tokens":
            item["owners"] = owners
        if self.config.pairs:
            item["second"] = np.array([span.field for span in units.spans], dtype=np.int32)[owners]
        if self.config.teachers:
            item["teacher"] = np.array(0)
        return item

    def taught_by(self, item: Item, teacher: int) -> Item:
        """The item as teacher number ``teacher`` explains it."""
        if not 0 <= teacher < self.config.teachers:
            raise InputError(f"teacher {teacher} was asked for, but this scorer tells {self.config.teachers} apart")
        return {**item, "teacher": np.array(teacher)}

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Pad items at their end."""
        counts = np.array([int(item["units"]) for item in items])
        batch: dict[str, NDArray[Any]] = {"ids": _padded([item["ids"] for item in items])}
        batch["present"] = np.arange(counts.max()) < counts[:, None]
        batch["target"] = np.array([int(item["target"]) for item in items])
        for name in ("owners", "second"):
            if name in items[0]:
                batch[name] = _padded([item[name] for item in items])
        if self.config.teachers:
            batch["teacher"] = np.array([int(item["teacher"]) for item in items])
        if self.config.positions != "none":
            batch["places"] = self._counted(batch)
        return {name: torch.from_numpy(column) for name, column in batch.items()}

    def forward(self, batch: Batch) -> Tensor:
        """Numbers for the units and each row's target: (rows, units, outputs)."""
        found = self.output(self._encode(batch))
        if self.config.conditional == "heads":
            found = found.unflatten(-1, (len(self.config.labels), -1))  # (rows, pieces, labels, outputs)
            chosen = batch["target"][:, None, None, None].expand(-1, found.shape[1], 1, found.shape[3])
            found = found.gather(2, chosen)[:, :, 0]
        return self._pool(found, batch)

    def forward_all(self, batch: Batch) -> Tensor:
        """Numbers for the units and every label: (rows, units, labels, outputs), whatever the rows' targets."""
        labels = len(self.config.labels)
        if self.config.conditional == "heads":
            found = self._pool(self.output(self._encode(batch)), batch)  # (rows, units, labels * outputs)
            return found.view(*found.shape[:2], labels, -1)
        many = {name: column.repeat_interleave(labels, dim=0) for name, column in batch.items()}
        many["target"] = torch.arange(labels, device=batch["target"].device).repeat(len(batch["target"]))
        each = self.forward(many)  # (rows * labels, units, outputs)
        return each.view(-1, labels, *each.shape[1:]).transpose(1, 2)

    def _encode(self, batch: Batch) -> Tensor:
        """Hidden states of the pieces: (rows, pieces, width)."""
        ids = batch["ids"]
        tags = self._tags(batch)
        first = 0 if tags is None else tags.shape[1]
        hidden = self._embed(ids if tags is None else torch.cat([tags, ids], dim=1), batch, first)
        sight = Sight.of(ids != PAD, first, self.config.window)
        for block in self.blocks:
            hidden = block(hidden, sight)
        return hidden[:, first:]

    def _tags(self, batch: Batch) -> Tensor | None:
        """Numbers of what is no word: (rows, tags)."""
        target = batch["target"]
        tags = []
        if self.config.conditional == "ends":
            tags += [target + self._labels] * 2
        if self.config.pairs:
            tags += [torch.full_like(target, self._separator)]
        if self.config.teachers:
            tags += [batch["teacher"] + self._teachers]
        return torch.stack(tags, dim=1) if tags else None

    def _embed(self, ids: Tensor, batch: Batch, first: int) -> Tensor:
        hidden = self.embedding(ids) if self.turn is None else self.turn(self.embedding(ids))
        if self.second is not None:
            hidden = hidden + F.pad(self.second(batch["second"]), (0, 0, first, 0))
        if self.places is not None:
            hidden = hidden + self.places(batch["places"].clamp(max=LEARNED_PLACES - 1))
        hidden = hidden * math.sqrt(self.config.width)
        if self.config.positions == "sinusoidal":
            hidden = hidden + _waves(batch["places"], self.config.width).to(hidden.dtype)
        dropped: Tensor = self.dropout(hidden)
        return dropped

    def _pool(self, found: Tensor, batch: Batch) -> Tensor:
        """The mean over each unit's pieces: (rows, pieces, n) -> (rows, units, n).

        The last layer is linear, so this is what it would give for the mean of the hidden states.
        """
        if "owners" not in batch:
            return found
        there = (batch["ids"] != PAD)[..., None].to(found.dtype)
        owners = batch["owners"][..., None]
        empty = found.new_zeros(found.shape[0], batch["present"].shape[1], found.shape[-1])
        total = empty.scatter_add(1, owners.expand_as(found), found * there)
        count = empty[..., :1].scatter_add(1, owners, there)
        return total / count.clamp(min=1)

    def _counted(self, batch: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
        """Places of tags and pieces in the text, from 1 on; 0 is no place: (rows, tags + pieces)."""
        there = batch["ids"] != PAD
        ahead = 1 if self.config.conditional == "ends" else 0
        second = batch["second"] if self.config.pairs else np.zeros_like(batch["ids"])
        pieces = np.cumsum(there, axis=1) + ahead + second
        tags = []
        if ahead:
            last = there.sum(1) + 2 + (1 if self.config.pairs else 0)
            tags += [np.ones_like(last), last]
        if self.config.pairs:
            tags += [(there & (second == 0)).sum(1) + ahead + 1]
        if self.config.teachers:
            tags += [np.zeros(len(there), dtype=np.int64)]
        return np.concatenate([*(tag[:, None] for tag in tags), pieces * there], axis=1)


class _Block(nn.Module):
    """Attention and a feed-forward part, each added to what came in and then normalised."""

    def __init__(self, config: ScorerConfig) -> None:
        super().__init__()
        width, inner = config.width, config.inner or 4 * config.width
        self.heads = config.heads
        self.share = config.dropout
        self.project = _linear(width, width, times=3)  # queries, keys, values
        self.mix = _linear(width, width)
        self.mixed = nn.LayerNorm(width)
        self.widen = _linear(width, inner)
        self.narrow = _linear(inner, width)
        self.done = nn.LayerNorm(width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor, sight: Sight) -> Tensor:
        q, k, v = self.project(hidden).chunk(3, dim=-1)
        seen = sight.attend(q, k, v, self.heads, self.share if self.training else 0.0)
        hidden = self.mixed(hidden + self.dropout(self.mix(seen)))
        inner = self.dropout(F.relu(self.widen(hidden)))
        found: Tensor = self.done(hidden + self.dropout(self.narrow(inner)))
        return found


def _embedding(size: int, width: int) -> nn.Embedding:
    """Rows from N(0, 1 / width), the first one 0; they are multiplied by sqrt(width) when used."""
    made = nn.Embedding(size, width, padding_idx=0)
    nn.init.normal_(made.weight, std=width**-0.5)
    with torch.no_grad():
        made.weight[0] = 0
    return made


def _turn(size: int, width: int) -> nn.Linear:
    """From embeddings of one size to the width: rows from N(0, 1 / size) come out as from N(0, 1 / width)."""
    made = nn.Linear(size, width, bias=False)
    nn.init.normal_(made.weight, std=width**-0.5)
    return made


def _linear(size: int, width: int, *, times: int = 1) -> nn.Linear:
    """``times`` layers side by side, each drawn by itself."""
    made = nn.Linear(size, times * width)
    for part in made.weight.chunk(times):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(made.bias)
    return made


def _waves(places: Tensor, width: int) -> Tensor:
    """Sines and cosines of the places, nothing for place 0: (...) -> (..., width)."""
    half = torch.arange((width + 1) // 2, device=places.device)
    angles = places[..., None] / 10000 ** (2 * half / width)
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :width]
    return waves * (places != 0)[..., None]


def _padded(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    made = np.zeros((len(columns), max(map(len, columns))), dtype=np.int64)
    for row, column in zip(made, columns, strict=True):
        row[: len(column)] = column
    return made


def _at_least(name: str, value: int, bound: int) -> None:
    if value < bound:
        raise ParameterError(f"{name} of a scorer must be at least {bound}, got {value!r}")
