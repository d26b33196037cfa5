"""Texts by what they are for: training, validation, and measuring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from didact.data.sampling import shuffled
from didact.errors import InputError, ParameterError
from didact.protocols import ExampleLike
from didact.types import Example, Explanation


@dataclass(frozen=True)
class TextSplit:
    """Texts by what they are for, each once and in one of them only.

    Attributes:
        train: to learn from.
        validation: to choose the epoch by.
        held_out: to measure on.
        pools: all of them in the order given, so that whatever the split, the same texts share a part of the store.
    """

    train: list[Example]
    validation: list[Example]
    held_out: list[Example]
    pools: list[list[Example]]


def split_texts(
    examples: Sequence[ExampleLike] | Sequence[Explanation],
    validation: Sequence[ExampleLike] | float,
    held_out: Sequence[ExampleLike] | float,
    *,
    seed: int,
    owner: str,
) -> TextSplit:
    """Split the examples by the seed; texts that were given apart are taken out of the others.

    Args:
        examples: texts, or explanations of them.
        validation: texts, or the share of the examples.
        held_out: texts, or the share of the examples.
        seed: decides which texts go where.
        owner: the preset, whose texts are split independently of those of others.
    """
    shares = [given if isinstance(given, (int, float)) else 0.0 for given in (validation, held_out)]
    if min(shares) < 0 or sum(shares) >= 1:
        raise ParameterError(
            f"validation and held_out of {owner} are shares that leave something to train on, got {shares[0]} and "
            f"{shares[1]}"
        )
    apart = [[] if isinstance(given, (int, float)) else _distinct(given) for given in (validation, held_out)]
    taken = {example.fingerprint for given in apart for example in given}
    rest = [example for example in _distinct(examples) if example.fingerprint not in taken]
    order = shuffled(rest, [owner, seed])
    first, second = (max(round(share * len(order)), 1) if share else 0 for share in shares)
    if len(order) <= first + second:
        raise InputError(f"{len(order)} different texts are too few to train on; give more")
    held = order[first : first + second]
    return TextSplit(order[first + second :], order[:first] + apart[0], held + apart[1], [rest, *apart])


def _distinct(given: Sequence[ExampleLike] | Sequence[Explanation]) -> list[Example]:
    """The examples, equal texts once."""
    examples = [each.example if isinstance(each, Explanation) else Example.of(each) for each in given]
    return list({example.fingerprint: example for example in reversed(examples)}.values())[::-1]
