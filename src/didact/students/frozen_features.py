"""Texts as means of a frozen encoder's hidden states, in proportions that are learned from hints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from didact.models.encoders import load_encoder
from didact.models.hidden import hidden_states
from didact.models.planner import default_budget
from didact.models.readers.base import ReaderOptions
from didact.models.readers.text import TextReader
from didact.students.base import FeaturePrior, StudentRun
from didact.students.tokenized import TokenizedTexts, hint_weights, tokenised
from didact.types import Example

PART = 64
"""Texts whose states are pooled at once."""

Texts = tuple[tuple[str, ...], ...]


class FrozenFeatures:
    """Pooled hidden states as features of a closed-form student.

    Args:
        pool: texts of the training pool.
        test: test texts.
        model: a Hub id or a directory; None for the encoder of the embedded sentiment model.
        max_length: tokens per text; the rest is cut off.
        device: where states are computed and pooled.
    """

    def __init__(
        self, pool: Sequence[Example], test: Sequence[Example], *, model: str | None, max_length: int, device: str
    ) -> None:
        fields = [tuple(example.texts for example in examples) for examples in (pool, test)]
        self._pool, self._test = (_read(texts, model, max_length, device) for texts in fields)

    def view(self, run: StudentRun, prior: FeaturePrior | None) -> StateView:
        """A run's training texts and the test texts, each text one pooled state."""
        gate = None
        if prior is not None and run.weight != 0:
            gate = _gate(self._pool, run, prior)
        places, all_places = torch.from_numpy(run.places), torch.arange(len(self._test.tokens))
        return StateView(self._pool.pooled(places, gate), self._test.pooled(all_places, gate))


@dataclass(frozen=True, eq=False)
class StateView:
    """Pooled states of training texts (n, D) and test texts (items, D)."""

    train: Tensor
    test: Tensor

    def kernel(self) -> Tensor:
        """Products of training texts with training texts (n, n)."""
        return self.train @ self.train.T

    def answers(self, duals: Tensor) -> Tensor:
        """Products of test texts with training texts, summed up with these duals (n, targets) -> (items, targets)."""
        return self.test @ (self.train.T @ duals)


@dataclass(frozen=True, eq=False)
class Gate:
    """Ratio of an occurrence from its state h: 1 + (h - mean) . slope, which the prior makes a proportion."""

    mean: Tensor
    slope: Tensor
    prior: FeaturePrior
    weight: float

    def __call__(self, states: Tensor) -> Tensor:
        """Proportions (..., L) of states (..., L, D)."""
        return self.prior.proportions(states @ self.slope + (1 - self.mean @ self.slope), self.weight)


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """Texts and their hidden states.

    Attributes:
        tokens: the texts as the encoder reads them.
        states: last hidden states (texts, L, D).
        text: whether a position stands for characters (texts, L).
    """

    tokens: TokenizedTexts
    states: Tensor
    text: Tensor

    def parts(self, places: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Texts a few at a time: their places, states (some, L, D), and masks (some, L)."""
        for start in range(0, len(places), PART):
            some = places[start : start + PART].to(self.states.device)
            yield some, self.states[some], self.text[some]

    def pooled(self, places: Tensor, gate: Gate | None) -> Tensor:
        """Weighted means of states (texts, D)."""
        pooled = [torch.zeros(0, self.states.shape[2], dtype=torch.float64, device=self.states.device)]
        for _, states, text in self.parts(places):
            weights = text.to(states.dtype) if gate is None else torch.where(text, gate(states), 0.0)
            total = weights.sum(1, keepdim=True)
            shares = weights / torch.where(total > 0, total, 1.0)  # a text without words is all zero
            pooled.append((shares.unsqueeze(1) @ states).squeeze(1).double())
        return torch.cat(pooled)


def _gate(pool: EncodedTexts, run: StudentRun, prior: FeaturePrior) -> Gate | None:
    """Regression of the hints' share of each occurrence in the training texts on its state; None without hints."""
    hints = {place: hint for place, hint in zip(run.places.tolist(), run.hints, strict=True) if hint is not None}
    given = {place: hint_weights(pool.tokens, place, hint) for place, hint in hints.items()}
    hinted = [place for place, weights in given.items() if weights.any()]
    if not hinted:
        return None
    width, device = pool.states.shape[2], pool.states.device
    total = torch.zeros(width, dtype=torch.float64, device=device)
    squares = torch.zeros(width, width, dtype=torch.float64, device=device)
    products = torch.zeros(width, dtype=torch.float64, device=device)
    count = 0
    for some, states, text in pool.parts(torch.tensor(hinted)):
        weights = torch.from_numpy(np.stack([given[place] for place in some.tolist()])).to(device)
        ratios = weights / weights.sum(1, keepdim=True) * text.sum(1, keepdim=True)  # 1 on average
        states, ratios = states[text], ratios[text]  # (occurrences, D), (occurrences,)
        total += states.sum(0)  # single precision in a part, double over the parts
        squares += states.T @ states
        products += states.T @ (ratios - 1)
        count += len(states)
    mean = total / count
    spread = squares / count - torch.outer(mean, mean)
    penalty = prior.gate * spread.diagonal().mean() * torch.eye(width, dtype=torch.float64, device=device)
    # The ratios minus 1 add up to zero, so the products need no centring.
    slope = torch.linalg.solve(spread + penalty, products / count)
    return Gate(mean.float(), slope.float(), prior, run.weight)


@lru_cache(maxsize=2)
def _read(texts: Texts, model: str | None, max_length: int, device: str) -> EncodedTexts:
    """States of all texts, cached for further runs: 1.5 kB a token with 384 dimensions."""
    network, tokenizer = load_encoder(model, dropout=0.0)
    torch.nn.Module.to(network, device)
    reader = TextReader(network, tokenizer, ReaderOptions(max_length, max_truncated=1.0))
    examples = [Example(*fields) for fields in texts]
    tokens = tokenised(examples, reader.encoder)
    states = torch.zeros(*tokens.ids.shape, network.config.hidden_size, device=device)
    per_text = hidden_states(reader, reader.encode(examples), default_budget(reader.device))
    for row, own in zip(states, per_text, strict=True):
        row[: own.shape[1]] = own[-1]
    return EncodedTexts(tokens, states, torch.from_numpy(tokens.text).to(device))
