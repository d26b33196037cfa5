"""Explanations of images go through a table unchanged, beside those of texts, and each image is kept once."""

import dataclasses
from pathlib import Path

import numpy as np

from didact.store import explanations as store
from didact.types import Box, Example, Explanation, Image, Mask, Prediction, Span, Target, Units

BOXES = (Box(0, 0, 2, 2), Box(2, 0, 4, 2))
PREDICTION = Prediction(("dark", "light"), (-1.0, 1.0), (0.1, 0.9))
RANDOM = np.random.default_rng(0)


def explained(example: Example, *regions: Box | Span) -> Explanation:
    units = Units(example, "patch" if example.fields[0] is not str else "word", regions)
    return Explanation("made", units, tuple(range(len(regions))), Target(1, "light"), PREDICTION)


def image(side: int = 4) -> Image:
    return Image(RANDOM.integers(0, 256, (side, side, 3)).astype(np.uint8))


def test_images_and_texts_in_one_table(tmp_path: Path) -> None:
    plain = Example(image(), label="light", id="a")
    marked = Example(image(), rationale=BOXES[:1], annotators=[BOXES[:1], BOXES, ()])
    unmarked = Example(image(), rationale=())
    outlined = Example(image(), rationale=(Mask.of(np.eye(4, dtype=bool)),))
    captioned = Example("a dog", image(), rationale=(Span(2, 5), Box(0, 0, 1, 1, 1)))
    text = Example("a dull plot", rationale=(Span(2, 6),), annotators=[(Span(2, 6),), ()])
    given = [
        *(explained(example, *BOXES) for example in (plain, marked, unmarked, outlined)),
        explained(captioned, Span(0, 1), dataclasses.replace(BOXES[0], field=1)),
        explained(text, Span(0, 1), Span(2, 6)),
    ]
    store.write(tmp_path / "x.parquet", store.to_table(given))
    assert store.from_table(store.read(tmp_path / "x.parquet")) == given


def test_an_image_is_kept_once(tmp_path: Path) -> None:
    noise = Example(image(100))
    for name, count in (("one", 1), ("ten", 10)):
        store.write(tmp_path / name, store.to_table([explained(noise, *BOXES)] * count))
    assert (tmp_path / "ten").stat().st_size < 1.5 * (tmp_path / "one").stat().st_size
