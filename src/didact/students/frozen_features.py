"""Texts as means of a frozen encoder's hidden states, pooled as hints have taught to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from didact.models.encoding import Encoder
from didact.progress import advance, working
from didact.students.base import Course, Ints
from didact.students.channels.prior import PriorChannel
from didact.students.kinds.transformer import length_limit, load_encoder
from didact.students.tokenized import TokenizedTexts, hint_weights, tokenised
from didact.types import Example

BATCH = 32
"""Texts that the encoder reads at once."""

PART = 64
"""Texts whose states are weighed at once."""

Texts = tuple[tuple[str, ...], ...]


class FrozenFeatures:
    """Pooled hidden states as features of a closed-form student.

    Args:
        pool: texts of the lessons.
        exam: texts that are asked about.
        model: a Hub id or a directory; None for the encoder of the embedded sentiment model.
        max_length: tokens that are read of a text.
        device: where states are computed and pooled.
    """

    def __init__(
        self, pool: Sequence[Example], exam: Sequence[Example], *, model: str | None, max_length: int, device: str
    ) -> None:
        fields = [tuple(example.fields for example in texts) for texts in (pool, exam)]
        self._pool, self._exam = (_read(texts, model, max_length, device) for texts in fields)

    def view(self, course: Course, prior: PriorChannel | None) -> StateView:
        """A course's lessons and the exam, each text one pooled state."""
        gate = None
        if prior is not None and course.weight != 0:
            gate = _gate(self._pool, course, prior)
        lessons, exam = torch.from_numpy(course.lessons), torch.arange(len(self._exam.sheets))
        return StateView(self._pool.pooled(lessons, gate), self._exam.pooled(exam, gate))


@dataclass(frozen=True, eq=False)
class StateView:
    """Pooled states of lessons (n, D) and exam (items, D)."""

    train: Tensor
    exam: Tensor

    def kernel(self) -> Tensor:
        """Products of lessons with lessons (n, n)."""
        return self.train @ self.train.T

    def answers(self, duals: Tensor) -> Tensor:
        """Products of the exam with lessons, summed up with these duals (n, targets) -> (items, targets)."""
        return self.exam @ (self.train.T @ duals)


@dataclass(frozen=True, eq=False)
class Gate:
    """Ratio of an occurrence from its state h: 1 + (h - mean) . slope, made a proportion as the prior says."""

    mean: Tensor
    slope: Tensor
    prior: PriorChannel
    weight: float

    def __call__(self, states: Tensor) -> Tensor:
        """Proportions (..., L) of states (..., L, D)."""
        return self.prior.proportions(states @ self.slope + (1 - self.mean @ self.slope), self.weight)


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """Texts as the encoder read them.

    Attributes:
        sheets: their tokens.
        states: last hidden states (texts, L, D).
        text: whether a position stands for characters (texts, L).
    """

    sheets: TokenizedTexts
    states: Tensor
    text: Tensor

    def parts(self, places: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Texts a few at a time: their places, states (some, L, D), and masks (some, L)."""
        for start in range(0, len(places), PART):
            some = places[start : start + PART].to(self.states.device)
            yield some, self.states[some], self.text[some]

    def pooled(self, places: Tensor, gate: Gate | None) -> Tensor:
        """Weighted means of states (texts, D)."""
        found = [torch.zeros(0, self.states.shape[2], dtype=torch.float64, device=self.states.device)]
        for _, states, text in self.parts(places):
            weights = text.to(states.dtype) if gate is None else torch.where(text, gate(states), 0.0)
            total = weights.sum(1, keepdim=True)
            shares = weights / torch.where(total > 0, total, 1.0)  # a text without words is all zero
            found.append((shares.unsqueeze(1) @ states).squeeze(1).double())
        return torch.cat(found)


def _gate(pool: EncodedTexts, course: Course, prior: PriorChannel) -> Gate | None:
    """Regression of what hints gave to each occurrence in the lessons on its state; None where nothing was said."""
    told = {place: hint for place, hint in zip(course.lessons.tolist(), course.hints, strict=True) if hint is not None}
    given = {place: hint_weights(pool.sheets, place, hint) for place, hint in told.items()}
    says = [place for place, weights in given.items() if weights.any()]
    if not says:
        return None
    width, device = pool.states.shape[2], pool.states.device
    total = torch.zeros(width, dtype=torch.float64, device=device)
    squares = torch.zeros(width, width, dtype=torch.float64, device=device)
    products = torch.zeros(width, dtype=torch.float64, device=device)
    count = 0
    for some, states, text in pool.parts(torch.tensor(says)):
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
    # The ratios less 1 add up to zero, so the mean needs no taking off from the products.
    slope = torch.linalg.solve(spread + penalty, products / count)
    return Gate(mean.float(), slope.float(), prior, course.weight)


@lru_cache(maxsize=2)
def _read(texts: Texts, model: str | None, max_length: int, device: str) -> EncodedTexts:
    """States of all texts, kept for the courses to come: 1.5 kB a token with 384 dimensions."""
    network, tokenizer = load_encoder(model, 0.0)
    examples = [Example(*fields) for fields in texts]
    sheets = tokenised(examples, Encoder(tokenizer, length_limit(network, tokenizer, max_length), 1.0))
    torch.nn.Module.to(network, device)
    typed = "token_type_ids" in tokenizer.model_input_names
    order: Ints = np.argsort(sheets.lengths, kind="stable")
    states = torch.zeros(*sheets.ids.shape, network.config.hidden_size, device=device)
    with working("reading texts", len(texts)), torch.inference_mode():
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            states[rows, : sheets.lengths[rows].max()] = _states(network, sheets, rows, typed)
            advance(len(rows))
    return EncodedTexts(sheets, states, torch.from_numpy(sheets.text).to(device))


def _states(network: torch.nn.Module, sheets: TokenizedTexts, rows: Ints, typed: bool) -> Tensor:
    device = next(network.parameters()).device
    longest = int(sheets.lengths[rows].max())
    inputs = {
        "input_ids": sheets.ids[rows, :longest],
        "attention_mask": (np.arange(longest) < sheets.lengths[rows, None]).astype(np.int64),
    }
    if typed:
        inputs["token_type_ids"] = sheets.types[rows, :longest]
    found: Tensor = network(**{name: torch.from_numpy(x).to(device) for name, x in inputs.items()}).last_hidden_state
    return found
