"""What the explanations of a learned explainer say about themselves where a score may not mean what it seems to."""

from __future__ import annotations

from collections.abc import Sequence

from didact.errors import TargetError
from didact.trained.shapes.base import Item, Shape
from didact.trained.signals.base import Signal
from didact.types import Prediction, Target, Units

NAMED = 3
"""Units that a warning names."""


def unread_note(shape: Shape, units: Units, item: Item) -> tuple[str, ...]:
    """Names units which the shape does not read, blanks aside; empty where it reads all."""
    texts = units.texts
    missed = [texts[number] for number in shape.unread(item) if texts[number].strip()]
    if not missed:
        return ()
    named = ", ".join(map(repr, missed[:NAMED])) + (", ..." if len(missed) > NAMED else "")
    return (
        f"the {shape.card.name} of this explainer does not read {len(missed)} of {len(units)} units ({named}); "
        "they have the mean score of the others",
    )


def check_single_label(explainer: str, targets: Sequence[Target]) -> None:
    """Refuse contrastive targets: a learned explainer reads the number of one label."""
    for target in targets:
        if target.contrast is not None:
            raise TargetError(
                f"the {explainer} explainer learned to explain one label, and was given the contrastive target "
                f"{target.name!r}; give one label, or a method in its place (see 'didact list methods')"
            )


def target_note(signal: Signal, target: Target, prediction: Prediction) -> tuple[str, ...]:
    """Says that an explainer which learned from the model itself explains predictions; empty where it is given one."""
    if signal.follows_target or target.index == prediction.index:
        return ()
    return (
        f"this explainer learned what predictions rest on: its scores are for {prediction.label!r}, which is "
        f"predicted, and not for the given target {target.label!r}",
    )
