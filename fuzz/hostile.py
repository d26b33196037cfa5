"""Values that users, files and attackers hand over."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import TypeVar

import numpy as np

from didact.testing.tiny import TEXTS

T = TypeVar("T")

BLANK = ("", " ", "\n\t\r", "\u200b", "\u00a0", "\u3000", "\ufeff", "\u2028")
SURROGATES = ("\ud800", "a \udfff b", "good\udc80film", "\udcff\ud83d", "\ud83d\ude00 as two halves")
CONTROL = (
    "\x00",
    "a\x00b",
    "\x1b[31mred\x1b[0m",
    "\x07\x08",
    "\x9b31m c1",
    "\x7f",
    "\x1b]8;;http://x\x07y",
    "\ufffe\uffff",
)
SCRIPTS = (
    "\u202egnp.exe", "שלום עולם", "مرحبا بالعالم", "好电影", "क्षि त्रि", "Z\u0351\u036b\u0343algo", "👩‍👩‍👧‍👦 🇩🇪 ☠️",
    "ﬁne ǅ ß İ", "e\u0301 é",
)  # fmt: skip
MARKUP = (
    "[/]", "[bold]x[/bold]", "[link=http://x]y[/link]", "<script>alert(1)</script>", "</pre>&amp;", "{{7*7}} ${x} `id`",
    "=1+1", "@SUM(A1)", "+cmd|' /C x'!A0", "-2+3", "| a | b |", "```\n# head", "\\input{x} $x_1$ \\end{document}",
    "%s%n{0}{}",
    "]]>", "<!--", "'\"\\",
)  # fmt: skip
SPECIAL = ("[CLS] [SEP] [MASK] [PAD] [UNK]", "<s> </s> <pad> <mask> <unk>", "##ing ▁the Ġfilm", "<|endoftext|>")
NUMERIC = ("²", "٣", "½", "1e400", "-0", "NaN", "Infinity", "0x10", "1_000", "9" * 5000, "-1", "1.5")
NAMES = (
    "/",
    "..",
    "../../x",
    "/etc/passwd",
    "a" * 300,
    "x.csv",
    "x.html",
    "-",
    "--help",
    "NUL",
    "~",
    "$HOME",
    "a/b/c",
    ".",
)
LONG = ("word " * 300, "a" * 5000, "good " * 60 + ".", "\n".join(["a line"] * 200), "🙂" * 400)

HOSTILE: tuple[tuple[str, ...], ...] = (BLANK, SURROGATES, CONTROL, SCRIPTS, MARKUP, SPECIAL, NUMERIC, NAMES, LONG)


class Rude:
    """An object that most operations fail on."""

    def __len__(self) -> int:
        raise RuntimeError("planted: no length")

    def __iter__(self) -> object:
        raise RuntimeError("planted: not iterable")

    def __float__(self) -> float:
        raise RuntimeError("planted: no number")


NUMBERS: tuple[object, ...] = (
    0, -1, 1, 2, 3, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.5, 1.0, 1e308, -1e308, 1e-320, math.nan, math.inf,
    -math.inf, -0.0,
    True, False, Decimal("NaN"), Decimal("0.1"), Fraction(1, 3), 1j, np.float32("nan"), np.float64(0.5), np.int64(3),
    np.bool_(True),
    "5", "0.5",
)  # fmt: skip
OBJECTS: tuple[Callable[[], object], ...] = (
    lambda: None, object, Rude, dict, list, tuple, set, lambda: b"bytes", lambda: bytearray(b"\xff"),
    lambda: Path("nowhere"),
    lambda: np.zeros((0, 3)), lambda: np.array(["a", None], dtype=object), lambda: np.full((2, 2), np.nan),
    lambda: range(3),
    lambda: (word for word in TEXTS), lambda: {"text": 3}, lambda: {1: 2, None: object()}, lambda: [[[[[]]]]],
    lambda: int,
    lambda: len, lambda: frozenset({"a"}), lambda: {"scores": [1.0], "tokens": ["a"]}, lambda: memoryview(b"x"),
    lambda: NotImplemented,
)  # fmt: skip


def chance(rng: Random, share: float) -> bool:
    """Whether something with this probability happens."""
    return rng.random() < share


def one_of(rng: Random, *makers: Callable[[Random], object]) -> object:
    """What one of these makes."""
    return rng.choice(makers)(rng)


def hostile_text(rng: Random) -> str:
    """A string that has broken some program."""
    return rng.choice(rng.choice(HOSTILE))


def name_text(rng: Random) -> str:
    """A hostile name or label; halves of surrogate pairs, which are refused at once, are rare."""
    return hostile_text(rng) if chance(rng, 0.1) else valid(hostile_text(rng))


def valid(text: str) -> str:
    """The text as UTF-8 can hold it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def text(rng: Random) -> str:
    """A text to explain: plain, hostile, or a mixture."""
    draw = rng.random()
    if draw < 0.4:
        return rng.choice(TEXTS)
    if draw < 0.7:
        return hostile_text(rng)
    parts = [rng.choice((*rng.choice(TEXTS).split(), hostile_text(rng)[:40])) for _ in range(rng.randint(1, 12))]
    return rng.choice((" ", "", "\n", ", ")).join(parts)


def number(rng: Random) -> object:
    """Anything that may pass for a number."""
    return rng.choice(NUMBERS)


def anything(rng: Random) -> object:
    """Any object at all."""
    draw = rng.random()
    if draw < 0.3:
        return text(rng)
    if draw < 0.55:
        return number(rng)
    if draw < 0.85:
        return rng.choice(OBJECTS)()
    return nested(rng, 3)


def nested(rng: Random, depth: int) -> object:
    """Lists, tuples and mappings of anything."""
    if depth == 0:
        return rng.choice((number, hostile_text))(rng)
    items = [nested(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    keys = [hostile_text(rng)[:20] for _ in items]
    return rng.choice((items, tuple(items), dict(zip(keys, items, strict=True))))


def some(rng: Random, items: Sequence[T], most: int) -> list[T]:
    """A few of these, repeated ones possible."""
    return [rng.choice(items) for _ in range(rng.randint(0, most))]


def mostly(rng: Random, usual: object, share: float = 0.85, other: Callable[[Random], object] = anything) -> object:
    """The usual value, or rarely something else."""
    return usual if chance(rng, share) else other(rng)


def json_value(rng: Random, depth: int = 2) -> object:
    """A value that JSON and TOML can hold."""
    draw = rng.random()
    if draw < 0.35 or depth == 0:
        return hostile_text(rng)[:200]
    if draw < 0.7:
        return rng.choice((0, -1, 1, 3, 10**20, 0.5, -1.5, math.nan, math.inf, True, False))
    if draw < 0.85:
        return [json_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {hostile_text(rng)[:20]: json_value(rng, depth - 1) for _ in range(rng.randint(0, 3))}
