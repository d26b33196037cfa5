"""What is compared, and the model and texts as the libraries need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from benchmarks.common import timed
from didact.models.compose import compose
from didact.types import Example, Floats

Length = Literal["short", "long"]
Run = Callable[["Item", int], object]
"""Explains a list of texts with so many evaluations each."""


@dataclass(frozen=True, eq=False)
class Text:
    """One text, prepared beforehand for the libraries that need it so."""

    text: str
    label: int
    words: list[str]
    ids: Tensor  # (1, tokens) without the special tokens at both ends
    owner: Tensor  # (1, tokens): word of each token


Item = list[Text]


@dataclass(frozen=True)
class Entry:
    """One line of a table: the library, its setting, and how to run it.

    Attributes:
        name: library and setting.
        differs: what is not as in the other lines.
        run: explains.
        finds_label: whether it finds the predicted class by itself.
        same: whether it is the same method, so that it counts as a rival.
    """

    name: str
    differs: str
    run: Run
    finds_label: bool = False
    same: bool = True


@dataclass(frozen=True)
class Case:
    """One method on texts of one length.

    Attributes:
        method: didact's name of it.
        length: of the texts.
        evaluations: samples or steps requested; 0 where the method decides.
        together: texts given at once.
        batches: batch sizes from which every peer gets its best.
    """

    method: str
    length: Length
    evaluations: int
    together: int
    batches: tuple[int, ...]


class Bench:
    """The model as the libraries need it."""

    def __init__(self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.network = network
        self.tokenizer = tokenizer
        self.didact = compose(network, tokenizer)
        self.mask = int(tokenizer.mask_token_id)
        ends = torch.tensor(tokenizer("")["input_ids"])
        self.first, self.last = ends[:1], ends[1:]

    def prepare(self, texts: Sequence[str]) -> Item:
        """Tokenise, find words and the predicted label."""
        examples = [Example(text) for text in texts]
        items = []
        for unit, prediction in zip(self.didact.units(examples), self.didact.predict(examples), strict=True):
            ids = torch.tensor(self.tokenizer(unit.example.text)["input_ids"])[None, 1:-1]
            owner = torch.zeros_like(ids)
            for number, positions in enumerate(unit.positions):
                owner[0, [place - 1 for place in positions]] = number
            items.append(Text(unit.example.text, prediction.index, list(unit.texts), ids, owner))
        return items

    def find_labels(self, items: Item) -> list[int]:
        """Predicted labels of texts from one plain pass, which a library that takes the label as input needs first."""
        with torch.inference_mode():
            inputs = self.tokenizer([item.text for item in items], padding=True, return_tensors="pt")
            labels: list[int] = self.network(**inputs).logits.argmax(-1).tolist()
        return labels

    def logits(self, ids: Tensor) -> Tensor:
        """Logits of rows of token ids of one length, without special tokens."""
        rows = torch.cat([self.first.expand(len(ids), -1), ids, self.last.expand(len(ids), -1)], 1)
        logits: Tensor = self.network(input_ids=rows).logits
        return logits

    def predict(self, texts: Sequence[str], batch: int) -> Floats:
        """Probabilities of strings: tokenised together, sorted by length, padded to the longest of their batch."""
        codes = self.tokenizer(list(texts))["input_ids"]
        order = sorted(range(len(codes)), key=lambda i: -len(codes[i]))
        probabilities = np.zeros((len(codes), int(self.network.config.num_labels or 2)))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            inputs = self.tokenizer.pad({"input_ids": [codes[i] for i in chosen]}, return_tensors="pt")
            probabilities[chosen] = self.network(**inputs).logits.softmax(-1).numpy()
        return probabilities

    def embedded(self, items: Item) -> tuple[Tensor, Tensor, Tensor | None]:
        """Embeddings of the texts and of their baselines, every word masked; a mask only where rows are padded."""
        rows = [torch.cat([self.first, item.ids[0], self.last]) for item in items]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=int(self.tokenizer.pad_token_id))
        lengths = torch.tensor([len(row) for row in rows])[:, None]
        place = torch.arange(ids.shape[1])[None]
        inside = (place > 0) & (place < lengths - 1)
        with torch.no_grad():
            table = self.network.get_input_embeddings()
            vectors, baselines = table(ids), table(torch.where(inside, self.mask, ids))
        padded = None if (lengths == lengths[0]).all() else (place < lengths).long()
        return vectors, baselines, padded


class OfVectors(nn.Module):
    """The model as a module from embeddings to logits."""

    def __init__(self, network: PreTrainedModel) -> None:
        super().__init__()
        self.network = network

    def forward(self, vectors: Tensor, mask: Tensor | None = None) -> Tensor:
        """(rows, tokens, dim) -> (rows, labels)."""
        logits: Tensor = self.network(inputs_embeds=vectors, attention_mask=mask).logits
        return logits


def best(make: Callable[[int], Run], trial: Item, case: Case, which: str) -> int:
    """The batch size that is fastest on a first text, of two interleaved tries."""
    runs = {batch: make(batch) for batch in case.batches}
    if len(runs) == 1:
        return case.batches[0]
    seconds: dict[int, list[float]] = {batch: [] for batch in runs}
    evaluations = min(case.evaluations, max(runs))  # enough to tell them apart
    runs[case.batches[0]](trial, min(evaluations, 8))
    for _ in range(2):
        for batch, run in runs.items():
            seconds[batch].append(getattr(timed(lambda run=run: run(trial, evaluations)), which))  # type: ignore[misc]
    return min(seconds, key=lambda batch: min(seconds[batch]))
