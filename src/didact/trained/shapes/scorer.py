"""L2E's network: a small transformer over the words of a text and the label that is explained."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from didact.errors import CapabilityError, FormatError, InputError, ParameterError
from didact.models.network import NetworkModel
from didact.protocols import Model
from didact.trained.shapes._attention import Sight
from didact.trained.shapes._scorer_config import ScorerConfig
from didact.trained.shapes._scorer_layers import Block, embedding, linear, turn, waves
from didact.trained.shapes._vocabulary import PAD, READERS, UNKNOWN, Pieces, UnitReader, Vocabulary
from didact.trained.shapes.base import Item, Shape, ShapeBatch, ShapeCard, register
from didact.types import Example, Prediction, Units

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LEARNED_PLACES = 512
"""Places that have a learned position of their own; all later ones share the last."""


@register(
    ShapeCard(
        name="scorer",
        family="own network",
        summary="A small transformer over the words of a text and the label that is explained.",
        reference="Situ et al. 2021, Learning to Explain: Generating Stable Explanations Fast",
    )
)
class Scorer(Shape):
    """Scores all words of a text in one pass, for a given output of the explained model.

    Tags that are not words (the label at both ends, the reference, the separator of a pair) stand in front of the
    words: order matters to the network through positions alone, and these are counted as in the text. So tags can have
    no score, and one output is left per word without picking them out.

    Args:
        config: sizes and choices.
        reader: gives words their numbers; of the kind that ``config.reading`` names.
    """

    def __init__(self, config: ScorerConfig, reader: UnitReader) -> None:
        super().__init__()
        if reader.name != config.reading:
            raise ParameterError(f"the scorer reads {config.reading}, but was given a reader of {reader.name}")
        self.config = config
        self.reader = reader
        # Rows of the embedding: those of the reader, the separator, the references, the labels.
        self._separator = reader.size
        self._references = reader.size + 1
        self._labels = self._references + config.references
        ends = config.conditional == "ends"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            numbers = self._labels + (len(config.labels) if ends else 0)
            self.embedding = embedding(numbers, config.table or config.width)
            self.places = embedding(LEARNED_PLACES, config.width) if config.positions == "learned" else None
            self.second = embedding(2, config.width) if config.pairs else None
            self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
            self.output = linear(config.width, config.outputs * (1 if ends else len(config.labels)))
            self.turn = None if config.table is None else turn(config.table, config.width)
        self.dropout = nn.Dropout(config.dropout)

    @classmethod
    def check_examples(cls, examples: Sequence[Example]) -> None:
        """Refuse images."""
        for example in examples:
            if not example.is_textual:
                raise CapabilityError(
                    f"the scorer reads words or tokens, and {example.preview} was given; train an explainer that reads "
                    "the model's hidden states instead: the preset probe"
                )

    @classmethod
    def build(cls, model: Model, units: Sequence[Units], outputs: int, settings: Mapping[str, object]) -> Self:
        """A scorer for a model and texts like these.

        Args:
            model: the explained model.
            units: of the training texts: they decide the vocabulary, and whether pairs are read.
            outputs: numbers per word.
            settings: fields of ``ScorerConfig``; ``min_count``, below which words count as unknown (2); ``embeddings``
                of tokens: "own" ones, random at first, the explained model's as "first" values, or these "kept", with a
                learned matrix that turns them to the width.
        """
        cls.check_examples([own.example for own in units])
        own = dict(settings)
        embeddings, min_count = own.pop("embeddings", "own"), cast("int", own.pop("min_count", 2))
        known = None if embeddings == "own" else _input_embeddings(model)
        table = {} if known is None else {"table": known.shape[1]}
        try:
            config = ScorerConfig(**{**table, **own, "labels": model.labels, "outputs": outputs})  # type: ignore[arg-type]
        except TypeError as problem:
            raise ParameterError(f"unknown setting of scorer: {str(problem).split('__init__() ')[-1]}") from None
        tokenizer = model.tokenizer if isinstance(model, NetworkModel) else None
        scorer = cls.for_texts(units, config, tokenizer=tokenizer, min_count=min_count)
        if known is not None:
            scorer.inherit(known, keep=embeddings == "kept")
        return scorer

    @classmethod
    def for_texts(
        cls,
        units: Sequence[Units],
        config: ScorerConfig,
        *,
        tokenizer: PreTrainedTokenizerBase | None = None,
        min_count: int = 2,
    ) -> Self:
        """An untrained scorer with a given configuration, for texts like these.

        Args:
            units: of the training texts: they decide the vocabulary of words, and whether pairs are read.
            config: sizes and choices.
            tokenizer: reads the text where ``config.reading`` is "tokens"; the explained model's.
            min_count: rarer words count as unknown.
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

        Words that no training text has then lie near words of similar meaning. Kept embeddings are not trained; those
        of labels and other tags stay as they were drawn. A matrix that turns embeddings to the width starts with the
        first directions, and learns to use the others.

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

    def finished(self) -> Scorer:
        """The same scorer with the matrix of ``table`` multiplied into the embeddings: smaller, and a step less."""
        if self.turn is None:
            return self
        folded = type(self)(dataclasses.replace(self.config, table=None), self.reader)
        weights = {name: weight for name, weight in self.state_dict().items() if not name.startswith("turn.")}
        weights["embedding.weight"] = self.turn(self.embedding.weight).detach()
        folded.to(self.embedding.weight).load_state_dict(weights)
        return folded.train(self.training)

    @property
    def outputs(self) -> int:
        """Numbers per unit."""
        return self.config.outputs

    @property
    def settings(self) -> dict[str, object]:
        """The configuration as plain JSON values."""
        return dataclasses.asdict(self.config) | {"labels": list(self.config.labels)}

    @classmethod
    def from_settings(cls, settings: Mapping[str, object], folder: Path) -> Self:
        """An untrained scorer with the vocabulary or tokenizer that ``save_reading`` wrote."""
        try:
            config = ScorerConfig(**settings)  # type: ignore[arg-type] # plain JSON values, checked by the config
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

    def read(
        self,
        model: Model | None,
        units: Sequence[Units],
        targets: Sequence[int],
        predictions: Sequence[Prediction],
    ) -> list[Item]:
        """The numbers of the words and of the explained output; the reference is the first until ``for_reference``."""
        labels = len(self.config.labels)
        for target in targets:
            if not 0 <= target < labels:
                raise InputError(f"the target is output {target}, but this scorer knows {labels} labels")
        if not self.config.pairs and any(text.example.text_pair is not None for text in units):
            raise InputError("a pair was given to a scorer that reads single texts; train one with pairs=True")
        return [self._item(*text) for text in zip(units, targets, self.reader.read(units), strict=True)]

    def _item(self, units: Units, target: int, pieces: tuple[NDArray[np.int32], NDArray[np.int32]]) -> Item:
        ids, owners = pieces
        item: dict[str, NDArray[np.generic]] = {"ids": ids, "target": np.array(target), "units": np.array(len(units))}
        if self.config.reading == "tokens":
            item["owners"] = owners
        if self.config.pairs:
            item["second"] = np.array([span.field for span in units.spans], dtype=np.int32)[owners]
        if self.config.references:
            item["reference"] = np.array(0)
        return item

    def for_reference(self, item: Item, reference: int) -> Item:
        """The item as reference number ``reference`` explains it."""
        if not 0 <= reference < self.config.references:
            raise InputError(
                f"reference {reference} was given, but this scorer has {self.config.references}, counted from 0"
            )
        return {**item, "reference": np.array(reference)}

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Pad items at their end."""
        counts = np.array([int(item["units"]) for item in items])
        batch: dict[str, NDArray[np.generic]] = {"ids": _padded([item["ids"] for item in items])}
        batch["present"] = np.arange(counts.max()) < counts[:, None]
        batch["target"] = np.array([int(item["target"]) for item in items])
        for name in ("owners", "second"):
            if name in items[0]:
                batch[name] = _padded([item[name] for item in items])
        if self.config.references:
            batch["reference"] = np.array([int(item["reference"]) for item in items])
        if self.config.positions != "none":
            batch["places"] = self._counted(batch)
        return {name: torch.from_numpy(column) for name, column in batch.items()}

    def forward(self, batch: ShapeBatch) -> Tensor:
        """Numbers for the units and each row's target: (rows, units, outputs)."""
        numbers = self.output(self._encode(batch))
        if self.config.conditional == "heads":
            numbers = numbers.unflatten(-1, (len(self.config.labels), -1))  # (rows, pieces, labels, outputs)
            chosen = batch["target"][:, None, None, None].expand(-1, numbers.shape[1], 1, numbers.shape[3])
            numbers = numbers.gather(2, chosen)[:, :, 0]
        return self._pool(numbers, batch)

    def forward_all(self, batch: ShapeBatch) -> Tensor:
        """Numbers for the units and every label: (rows, units, labels, outputs), whatever the rows' targets."""
        labels = len(self.config.labels)
        if self.config.conditional == "heads":
            numbers = self._pool(self.output(self._encode(batch)), batch)  # (rows, units, labels * outputs)
            return numbers.view(*numbers.shape[:2], labels, -1)
        many = {name: column.repeat_interleave(labels, dim=0) for name, column in batch.items()}
        many["target"] = torch.arange(labels, device=batch["target"].device).repeat(len(batch["target"]))
        each = self.forward(many)  # (rows * labels, units, outputs)
        return each.view(-1, labels, *each.shape[1:]).transpose(1, 2)

    def _encode(self, batch: ShapeBatch) -> Tensor:
        """Hidden states of the pieces: (rows, pieces, width)."""
        ids = batch["ids"]
        tags = self._tags(batch)
        first = 0 if tags is None else tags.shape[1]
        hidden = self._embed(ids if tags is None else torch.cat([tags, ids], dim=1), batch, first)
        sight = Sight.of(ids != PAD, first, self.config.window)
        for block in self.blocks:
            hidden = block(hidden, sight)
        return hidden[:, first:]

    def _tags(self, batch: ShapeBatch) -> Tensor | None:
        """Numbers of the tags: (rows, tags)."""
        target = batch["target"]
        tags = []
        if self.config.conditional == "ends":
            tags += [target + self._labels] * 2
        if self.config.pairs:
            tags += [torch.full_like(target, self._separator)]
        if self.config.references:
            tags += [batch["reference"] + self._references]
        return torch.stack(tags, dim=1) if tags else None

    def _embed(self, ids: Tensor, batch: ShapeBatch, first: int) -> Tensor:
        hidden = self.embedding(ids) if self.turn is None else self.turn(self.embedding(ids))
        if self.second is not None:
            hidden = hidden + F.pad(self.second(batch["second"]), (0, 0, first, 0))
        if self.places is not None:
            hidden = hidden + self.places(batch["places"].clamp(max=LEARNED_PLACES - 1))
        hidden = hidden * math.sqrt(self.config.width)
        if self.config.positions == "sinusoidal":
            hidden = hidden + waves(batch["places"], self.config.width).to(hidden.dtype)
        dropped: Tensor = self.dropout(hidden)
        return dropped

    def _pool(self, numbers: Tensor, batch: ShapeBatch) -> Tensor:
        """The mean over each unit's pieces: (rows, pieces, n) -> (rows, units, n).

        The last layer is linear, so this is what it would give for the mean of the hidden states.
        """
        if "owners" not in batch:
            return numbers
        there = (batch["ids"] != PAD)[..., None].to(numbers.dtype)
        owners = batch["owners"][..., None]
        empty = numbers.new_zeros(numbers.shape[0], batch["present"].shape[1], numbers.shape[-1])
        total = empty.scatter_add(1, owners.expand_as(numbers), numbers * there)
        count = empty[..., :1].scatter_add(1, owners, there)
        return total / count.clamp(min=1)

    def _counted(self, batch: Mapping[str, NDArray[np.generic]]) -> NDArray[np.int64]:
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
        if self.config.references:
            tags += [np.zeros(len(there), dtype=np.int64)]
        return np.concatenate([*(tag[:, None] for tag in tags), pieces * there], axis=1)


def _padded(columns: Sequence[NDArray[np.generic]]) -> NDArray[np.int64]:
    padded = np.zeros((len(columns), max(map(len, columns))), dtype=np.int64)
    for row, column in zip(padded, columns, strict=True):
        row[: len(column)] = column
    return padded


def _input_embeddings(model: Model) -> Tensor:
    """The explained model's: (tokens, size)."""
    if not isinstance(model, NetworkModel):
        raise ParameterError(f"{model.name} shows no embeddings to keep; use embeddings='own'")
    return cast("Tensor", model.network.get_input_embeddings().weight).detach()
