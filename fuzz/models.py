"""The models that cases explain: the embedded one, tiny ones of several architectures, and functions, good and bad."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random

import numpy as np

from didact.models.load import load_model
from didact.protocols import Model
from didact.testing.tiny import keyword_predict, tiny_model
from fuzz.hostile import chance

ARCHITECTURES = ("bert", "roberta", "gpt2", "distilbert")


@functools.cache
def network(architecture: str, labels: tuple[str, ...] = ("negative", "positive")) -> Model:
    """A tiny network; two of the four are left in training mode, as users leave them."""
    made = tiny_model(architecture, labels)
    made[0].train(architecture in ("roberta", "distilbert"))
    return load_model(made)


@functools.cache
def embedded() -> Model:
    """The embedded sentiment classifier."""
    return load_model()


@functools.cache
def function() -> Model:
    """A well-behaved function."""
    return load_model(keyword_predict, labels=["negative", "positive"])


def some_model(rng: Random) -> Model:
    """Any of the models that work."""
    draw = rng.random()
    if draw < 0.1:
        return embedded()
    if draw < 0.4:
        return function()
    labels = ("score",) if chance(rng, 0.1) else ("negative", "positive")
    return network(rng.choice(ARCHITECTURES), labels)


def _raises(texts: list[str]) -> object:
    raise KeyError(f"planted: {len(texts)} texts")


def _late(texts: list[str]) -> object:
    if len(texts) > 1:
        raise ValueError("planted: too many texts")
    return keyword_predict(texts)


def _none(texts: list[str]) -> object:
    return None


def _words(texts: list[str]) -> object:
    return ["positive"] * len(texts)


def _nan(texts: list[str]) -> object:
    return np.full((len(texts), 2), np.nan)


def _logits(texts: list[str]) -> object:
    return np.array([[3.0, -2.0]] * len(texts))


def _flat(texts: list[str]) -> object:
    return np.array([0.5] * len(texts))


def _short(texts: list[str]) -> object:
    return keyword_predict(texts)[:-1]


def _ragged(texts: list[str]) -> object:
    return [[0.5, 0.5], [1.0], [0.2, 0.3, 0.5]][: max(1, len(texts))]


def _deep(texts: list[str]) -> object:
    return np.zeros((len(texts), 2, 2))


def _wanders(texts: list[str]) -> object:
    return np.random.default_rng().dirichlet([1, 1], len(texts))


def _constant(texts: list[str]) -> object:
    return np.array([[0.25, 0.75]] * len(texts))


def _sure(texts: list[str]) -> object:
    return np.array([[0.0, 1.0]] * len(texts))


def _complex(texts: list[str]) -> object:
    return np.array([[1j, 1 - 1j]] * len(texts))


BAD: tuple[Callable[[list[str]], object], ...] = (
    _raises, _late, _none, _words, _nan, _logits, _flat, _short, _ragged, _deep, _wanders, _constant, _sure, _complex,
)  # fmt: skip


class Callable3:
    """A callable object that takes the wrong number of arguments."""

    def __call__(self, first: object, second: object, third: object) -> object:
        """Never reached with the right ones."""
        return first, second, third


def bad_source(rng: Random) -> object:
    """Something that is no model, or one that misbehaves."""
    pair = tiny_model("bert")
    return rng.choice(
        (
            *BAD,
            Callable3(),
            lambda: None,
            int,
            pair[0],
            (pair[0], None),
            (pair[1], pair[0]),
            (pair[0], "tokenizer"),
            pair[1],
            (),
            [],
        )
    )
