"""Generated examples of the other kinds of input, whose evidence is known because it was planted.

Pictures of one shape, questions about a few people, and translations into an invented language with words that are
wrong. Reviews are in ``didact.data.corpus``. What is generated here is for demonstrations and tests: the small models
in ``didact.embedded`` were trained on it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from didact.settings import checked
from didact.types import Bools, Example, Image, Span
from didact.types import Box as PixelBox


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SIDE = 32
"""Pixels of a picture, each way."""

# --- pictures ---------------------------------------------------------------------------------------------------------


def _disc(y: np.ndarray, x: np.ndarray) -> Bools:
    return np.asarray(x**2 + y**2 <= 1)


def _square(y: np.ndarray, x: np.ndarray) -> Bools:
    return np.asarray((abs(x) <= 0.9) & (abs(y) <= 0.9))


def _triangle(y: np.ndarray, x: np.ndarray) -> Bools:
    return np.asarray((abs(x) <= (y + 1) / 2) & (y <= 0.9))


def _cross(y: np.ndarray, x: np.ndarray) -> Bools:
    return np.asarray(np.minimum(abs(x), abs(y)) <= 0.34)


SHAPES: dict[str, Callable[[np.ndarray, np.ndarray], Bools]] = {
    "cross": _cross,
    "disc": _disc,
    "square": _square,
    "triangle": _triangle,
}
"""Name -> whether a point of [-1, 1] x [-1, 1] belongs to the shape."""


@checked
def shapes(n: int, *, seed: int = 0) -> list[Example]:
    """Pictures of one shape each on a smooth ground of another colour; the rationale is the shape's box.

    Args:
        n: how many.
        seed: another seed gives other pictures.
    """
    rng = np.random.default_rng([seed, 1])
    names = sorted(SHAPES)
    return [_picture(names[int(rng.integers(len(names)))], rng, f"shapes-{seed}-{number}") for number in range(n)]


def _picture(name: str, rng: np.random.Generator, id: str) -> Example:
    size = int(rng.integers(10, 17))
    left, top = (int(start) for start in rng.integers(0, SIDE - size + 1, 2))
    steps = (np.arange(size) + 0.5) / size * 2 - 1
    inside = SHAPES[name](steps[:, None], steps[None, :])
    ground, colour = _colours(rng)
    pixels = ground + rng.normal(0, 8, (SIDE, SIDE, 3))
    pixels[top : top + size, left : left + size][inside] = colour + rng.normal(0, 8, (int(inside.sum()), 3))
    image = Image(np.clip(pixels, 0, 255).astype(np.uint8))
    return Example(image, label=name, rationale=[PixelBox(left, top, left + size, top + size)], id=id)


def _colours(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A ground that changes slowly from corner to corner, and a colour that stands out from it."""
    corners = rng.uniform(40, 215, 3) + rng.uniform(-25, 25, (2, 2, 3))
    weight = np.linspace(0, 1, SIDE)
    across = corners[:, :1] * (1 - weight)[None, :, None] + corners[:, 1:] * weight[None, :, None]
    ground = across[:1] * (1 - weight)[:, None, None] + across[1:] * weight[:, None, None]
    while True:
        colour = rng.uniform(0, 255, 3)
        if np.abs(colour - corners.mean((0, 1))).max() > 90:
            return ground, colour


# --- questions --------------------------------------------------------------------------------------------------------

PEOPLE = _words(
    "Ada Ben Clara David Emma Felix Grace Hugo Iris Jonas Karin Leo Maria Noah Olga Paul Rosa Simon Tessa Victor"
)
FACTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "home": (
        "{} lives in {} .",
        "where does {} live ?",
        _words("Paris Oslo Lisbon Vienna Madrid Dublin Athens Prague Warsaw Helsinki"),
    ),
    "work": (
        "{} works as a {} .",
        "what does {} work as ?",
        _words("baker doctor teacher pilot farmer lawyer painter driver nurse tailor"),
    ),
    "animal": (
        "{} owns a {} .",
        "which animal does {} own ?",
        _words("cat dog horse rabbit parrot goat turtle hamster sheep pony"),
    ),
    "food": (
        "{} likes to eat {} .",
        "what does {} like to eat ?",
        _words("bread soup rice fish pasta salad cheese pizza beans cake"),
    ),
    "music": (
        "{} plays the {} .",
        "which instrument does {} play ?",
        _words("piano violin guitar flute drums harp trumpet cello organ banjo"),
    ),
}
"""What is known of people: how it is written, how it is put as a question, and the answers."""


@checked
def questions(n: int, *, seed: int = 0) -> list[Example]:
    """Questions about one of several facts about a person, with a passage that states them.

    The label is the answer's place in the passage, and so is the rationale: every sentence has the person's name, and
    of the question's other words any is enough.

    Args:
        n: how many.
        seed: another seed gives other questions.
    """
    rng = random.Random(f"questions {seed}")
    return [_question(rng, f"questions-{seed}-{number}") for number in range(n)]


def _question(rng: random.Random, id: str) -> Example:
    person, stated = rng.choice(PEOPLE), rng.sample(sorted(FACTS), rng.randint(3, 5))
    wanted = rng.choice(stated)
    passage, answer = "", Span(0, 0, 1)
    for fact in stated:
        value = rng.choice(FACTS[fact][2])
        passage += (" " if passage else "") + FACTS[fact][0].format(person, value)
        if fact == wanted:
            answer = Span(len(passage) - len(value) - 2, len(passage) - 2, 1)
    return Example(FACTS[wanted][1].format(person), passage, label=answer, rationale=[answer], id=id)


# --- translations -----------------------------------------------------------------------------------------------------

CLASSES: dict[str, tuple[str, ...]] = {
    "article": ("the", "a", "this", "every"),
    "adjective": _words("old young red green small big happy tired quiet loud"),
    "noun": _words("cat dog house river tree child king boat road garden"),
    "verb": _words("sees likes finds follows paints leaves hears builds"),
    "adverb": _words("today often never again slowly"),
}
ORDER = ("article", "adjective", "noun", "verb", "article", "noun", "adverb")
"""Kinds of words of a sentence, in order; adjective and adverb may be left out."""


def _invented() -> dict[str, str]:
    """Every word with its translation, made of syllables; another word for each."""
    rng = random.Random("a language of its own")
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    made: dict[str, str] = {}
    for word in (word for words in CLASSES.values() for word in words):
        while (new := "".join(rng.sample(syllables, 2))) in made.values():
            pass
        made[word] = new
    return made


DICTIONARY = _invented()


@checked
def translations(n: int, *, seed: int = 0) -> list[Example]:
    """Sentences with a word by word translation in which some words are wrong.

    The label is the share of words that are right; the rationale is what is wrong, in the translation and in the
    sentence. Words are separated by blanks.

    Args:
        n: how many.
        seed: another seed gives other sentences.
    """
    rng = random.Random(f"translations {seed}")
    return [_translation(rng, f"translations-{seed}-{number}") for number in range(n)]


def _translation(rng: random.Random, id: str) -> Example:
    kinds = [kind for kind in ORDER if kind not in ("adjective", "adverb") or rng.random() < 0.7]
    words = [rng.choice(CLASSES[kind]) for kind in kinds]
    share = rng.choice((0.0, 0.2, 0.4))
    wrong = [rng.random() < share for _ in words]
    taken = [
        rng.choice([other for other in CLASSES[kind] if other != word]) if bad else word
        for kind, word, bad in zip(kinds, words, wrong, strict=True)
    ]
    sides = (words, [DICTIONARY[word] for word in taken])
    marked = [
        span for field, side in enumerate(sides) for span, bad in zip(_spans(side, field), wrong, strict=True) if bad
    ]
    right = 1 - sum(wrong) / len(words)
    return Example(" ".join(sides[0]), " ".join(sides[1]), label=right, rationale=marked, id=id)


def _spans(words: list[str], field: int) -> list[Span]:
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    return [Span(int(end) - len(word), int(end), field) for word, end in zip(words, ends, strict=True)]
