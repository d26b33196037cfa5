"""Under which key explanations are kept: a hash of everything that decides them."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from didact.code_identity import foreign_code
from didact.protocols import Explainer, Metric, Model
from didact.provenance import content_hash, versions
from didact.types import Example, Span, Units, plain_regions

FORMAT = 2
"""Raised when parts written by an earlier version must not be used any more."""

RECENT = 50_000
_READ: WeakKeyDictionary[Model, dict[Example, str]] = WeakKeyDictionary()
"""Readings by model: several explainers explain the same texts, and reading a text takes milliseconds."""


def origin(model: Model) -> list[str]:
    """What decides every part besides its own settings."""
    return [versions()["didact"], model.fingerprint()]


def identity(thing: Explainer | Metric) -> list[object]:
    """What decides an explainer's scores or a metric's grades besides the model.

    Name and parameters, where the class is didact's own: its version is part of ``origin``. Of other classes also
    their code and the object's state, and the same for explainers that this one holds.
    """
    inner = [identity(held) for held in getattr(thing, "__dict__", {}).values() if isinstance(held, Explainer)]
    code = foreign_code(thing)
    return [thing.card.name, dict(thing.parameters), *inner, *([code] if code else [])]


def readings(model: Model, examples: Sequence[Example]) -> list[str]:
    """Per example a hash of its text, label and rationale, and of what the model reads of it."""
    known = _READ.setdefault(model, {})
    if len(known) + len(examples) > RECENT:
        known.clear()
    fresh = [example for example in dict.fromkeys(examples) if example not in known]
    for example, units in zip(fresh, model.units(fresh), strict=True):
        known[example] = content_hash([example.to_dict(), _places(units)])
    return [known[example] for example in examples]


def _places(units: Units) -> list[object]:
    return [vars(one) if isinstance(one, Span) else plain_regions([one])[0] for one in units.regions]


def explanations(
    model: Model, explainer: Explainer, read: Sequence[str], targets: Sequence[object] | None = None
) -> str:
    """Key of the explanations of a chunk of examples.

    Args:
        model: the explained model.
        explainer: with its seed.
        read: what ``readings`` gives for the examples.
        targets: what is explained, as plain values; nothing where it is each example's predicted class.
    """
    chosen = [] if targets is None else [list(targets)]
    return content_hash(["explain", FORMAT, origin(model), identity(explainer), list(read), *chosen])
