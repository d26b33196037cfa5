"""Options for inputs that are not a single text: a question about a passage and its answer, and images."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from didact.data.files import is_there, read_plain
from didact.data.images import folder_splits
from didact.data.load import load_data
from didact.errors import InputError, ParameterError, TargetError
from didact.types import Example, Image, Span, Target

if TYPE_CHECKING:
    from didact.protocols import Model, TargetLike


def add_question(parser: argparse.ArgumentParser) -> None:
    """A question, its passage, and the place whose score is explained."""
    group = parser.add_argument_group("question about a passage")
    group.add_argument(
        "--question", metavar="TEXT", help="question to explain, instead of TEXT|-|FILE; needs --passage"
    )
    group.add_argument(
        "--passage", metavar="TEXT|FILE", help="the passage that the answer is taken from, or a file with it"
    )
    group.add_argument(
        "--answer",
        metavar="TEXT|START:END",
        help="explain this answer instead of the predicted one (for token classification: this word), as written in "
        "the passage or by character offsets",
    )


def read_question(options: argparse.Namespace) -> Example | None:
    """The question and its passage; None where neither is given."""
    question, passage = options.question, options.passage
    if question is None and passage is None:
        return None
    if options.input is not None or options.pair is not None:
        raise ParameterError("give either a text (with --pair), or --question and --passage, not both")
    if passage is None:
        raise InputError("--question goes with --passage: the text, or a file with the text, that may hold the answer")
    if question is None:
        raise InputError("--passage goes with --question: what is to be answered from the passage")
    if options.model == "default":
        raise ParameterError(
            "the embedded model reads single texts; --question goes with --model, a network for questions "
            "(default:questions is a tiny one)"
        )
    return Example.of((question, _passage(passage)))


def add_image(parser: argparse.ArgumentParser) -> None:
    """Images."""
    group = parser.add_argument_group("image")
    group.add_argument(
        "--image",
        metavar="FILE|DIR",
        type=Path,
        action="append",
        default=[],
        help="an image or a folder of images, instead of TEXT|-|FILE; needs --model, an image classifier; may be "
        "repeated",
    )


def read_images(options: argparse.Namespace) -> list[Example]:
    """The images that are named, in order; those of a folder with their labels and masks."""
    if not options.image:
        return []
    if any(given is not None for given in (options.input, options.pair, options.question, options.passage)):
        raise ParameterError("give either a text, a question with its passage, or --image, not several of them")
    if options.model == "default":
        raise ParameterError("the embedded model reads texts; --image goes with --model, an image classifier")
    examples: list[Example] = []
    for path in options.image:
        if is_there(path) and path.is_dir():
            examples += load_data(path, split="+".join(folder_splits(path)) or None).examples
        else:
            examples.append(Example(Image.of(path), id=path.name))
    return examples


def place_of(options: argparse.Namespace, example: Example) -> Span | None:
    """The characters of the last text that ``--answer`` names."""
    given = options.answer
    if given is None:
        return None
    field, text = len(example.texts) - 1, example.texts[-1]
    ends = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", given)
    if ends:
        return Span(int(ends[1]), int(ends[2]), field)
    starts = [found.start() for found in re.finditer(re.escape(given), text)] if given.strip() else []
    if len(starts) == 1:
        return Span(starts[0], starts[0] + len(given), field)
    if not starts:
        raise TargetError(f"--answer {given!r:.60} does not stand in the text; copy it as it is written there")
    places = ", ".join(f"{start}:{start + len(given)}" for start in starts[:5])
    raise TargetError(f"--answer {given!r:.60} stands {len(starts)} times in the text; give one of {places}")


def target_at(place: Span, label: str | int | None, model: Model) -> TargetLike:
    """A place as the target, with one of the labels that it may have where one is named."""
    if label is None:
        return place
    if label not in (*model.labels, *range(len(model.labels))):
        raise TargetError(f"unknown label {label!r}; known: {', '.join(model.labels)}")
    index = label if isinstance(label, int) else model.labels.index(label)
    return Target(index, model.labels[index], model.scales[0], place)


def _passage(given: str) -> str:
    path = Path(given)
    if not given.strip() or not is_there(path):
        return given
    if path.is_dir():
        raise InputError(f"--passage {path} is a directory; give a text or a file with it")
    return "\n".join(line.text for line in read_plain(path))
