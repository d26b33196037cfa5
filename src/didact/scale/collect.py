"""Explanations of many texts by one explainer, computed once and stored in shards, so that a killed run resumes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence

from didact.errors import FormatError, InputError, ParameterError
from didact.progress import advance, working
from didact.protocols import ExampleLike, Explainer, Model, TargetLike
from didact.store import explanations as store
from didact.store import keys
from didact.store.parts import Parts
from didact.types import Example, Explanation, Target

CHUNK = 32


def collect(
    model: Model,
    examples: Sequence[ExampleLike],
    explainer: Explainer,
    parts: Parts,
    targets: Sequence[TargetLike] | None = None,
    *,
    chunk: int = CHUNK,
) -> list[Explanation]:
    """The explainer's explanation of every example, in order; what ``parts`` holds is not computed again.

    Equal texts are explained once. A part holds a chunk of texts under a hash of everything that decides it, so a
    killed run resumes at the chunk where it stopped, and an experiment with the same chunks reads the same parts.

    Args:
        model: the explained model.
        examples: texts or pairs.
        explainer: a registered method or any other explainer; its card's name and its parameters identify it.
        parts: where explanations are stored.
        targets: what to explain; the predicted class where not given.
        chunk: texts per part. With another number the same texts are explained again.
    """
    if chunk < 1:
        raise ParameterError(f"chunk must be at least 1, got {chunk!r}")
    given = [Example.of(example) for example in examples]
    wanted = _wanted(targets, len(given))
    marks = [_mark(example, target, explainer) for example, target in zip(given, wanted, strict=True)]
    first = {mark: number for number, mark in reversed(list(enumerate(marks)))}
    rows = sorted(first.values())
    by_mark: dict[str, Explanation] = {}
    with working(f"labels: {explainer.card.name}", len(rows)):
        for start in range(0, len(rows), chunk):
            some = rows[start : start + chunk]
            chosen = None if targets is None else [wanted[row] for row in some]
            explained = _part(model, [given[row] for row in some], explainer, parts, chosen)
            by_mark.update(zip((marks[row] for row in some), explained, strict=True))
            advance(len(some))
    return [_for_example(by_mark[mark], example) for mark, example in zip(marks, given, strict=True)]


def fresh(
    model: Model,
    examples: Sequence[ExampleLike],
    explainer: Explainer,
    parts: Parts,
    *,
    chunk: int = CHUNK,
) -> Callable[[int], list[Explanation]]:
    """Explanations drawn anew for every epoch, for cheap and noisy explainers: epoch e is explained with seed + e.

    Every epoch's explanations are stored too, so that a resumed training gets the same ones again.
    """
    reseeded(explainer, 0)
    return lambda epoch: collect(model, examples, reseeded(explainer, epoch), parts, chunk=chunk)


def reseeded(explainer: Explainer, by: int) -> Explainer:
    """The same explainer with its seed raised by ``by``."""
    seed = getattr(explainer, "seed", None)
    if not (explainer.card.seeded and isinstance(seed, int)):
        raise ParameterError(
            f"{explainer.card.name} has no seed, so it gives the same labels in every epoch; collect them once"
        )
    changed: Explainer = dataclasses.replace(explainer, seed=seed + by)  # type: ignore[type-var] # a dataclass
    return changed


def _part(
    model: Model,
    examples: list[Example],
    explainer: Explainer,
    parts: Parts,
    targets: list[TargetLike] | None,
) -> list[Explanation]:
    plain = None if targets is None else [_plain_target(target) for target in targets]
    key = keys.explanations(model, explainer, keys.readings(model, examples), plain)
    if not parts.has(key):
        explained = explainer.explain(model, examples, targets)
        if len(explained) != len(examples):
            raise FormatError(f"{explainer.card.name} gave {len(explained)} explanations of {len(examples)} texts")
        parts.write(key, store.to_table(explained))
    return store.from_table(parts.read(key))


def _wanted(targets: Sequence[TargetLike] | None, count: int) -> Sequence[TargetLike]:
    if targets is None:
        return [None] * count
    if len(targets) != count:
        raise InputError(f"{len(targets)} targets were given for {count} examples; give one for each")
    return targets


def _mark(example: Example, target: TargetLike, explainer: Explainer) -> str:
    """The same string for examples that have the same explanation."""
    marked = example.to_dict()["rationale"] if explainer.card.needs_rationale else None
    return json.dumps([example.fingerprint, marked, _plain_target(target)])


def _plain_target(target: TargetLike) -> object:
    if not isinstance(target, Target):
        return target
    return vars(target) if target.answer is None else target.to_dict()


def _for_example(explanation: Explanation, example: Example) -> Explanation:
    """The explanation of an equal text as this example's, which may have another label or id."""
    if explanation.example == example:
        return explanation
    return dataclasses.replace(explanation, units=dataclasses.replace(explanation.units, example=example))
