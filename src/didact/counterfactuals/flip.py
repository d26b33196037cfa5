"""The smallest change of a text that flips its prediction, as plain data, and the call that looks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from didact.counterfactuals.edits import Change, changed, changes
from didact.counterfactuals.search import FlipSearch
from didact.errors import InputError, ParameterError, TargetError
from didact.protocols import Model, TargetLike
from didact.types import Example, Prediction, Units
from didact.validation import list_value, object_value, truth_value, whole_number

BUDGET = 300
"""Plain passes that a search may take when nothing else is given."""

Propose = Callable[[Units], Mapping[int, Sequence[str]]]
"""Words that may replace the units of a text, by the unit's number."""


@dataclass(frozen=True)
class Flip:
    """The smallest change that was seen to flip a prediction, or the change that came nearest to it.

    Both predictions are plain passes of the model, of the text as it is and of the text as it reads after the change.

    Attributes:
        units: of the text before the change.
        prediction: of the text before the change.
        changes: the units that are deleted or replaced.
        after: the text with these changes.
        prediction_after: of that text.
        flipped: whether the change flips the prediction.
        smallest: whether every smaller set of these edits was tried and does not flip; False where not all were tried.
        evaluations: plain passes that the search took, without the one of the text itself.
        budget: plain passes that it was allowed.
    """

    units: Units
    prediction: Prediction
    changes: tuple[Change, ...]
    after: Example
    prediction_after: Prediction
    flipped: bool
    smallest: bool
    evaluations: int
    budget: int

    @property
    def size(self) -> int:
        """How many units are changed."""
        return len(self.changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "units": self.units.to_dict(),
            "prediction": self.prediction.to_dict(),
            "changes": [change.to_dict() for change in self.changes],
            "after": self.after.to_dict(),
            "prediction_after": self.prediction_after.to_dict(),
            **{name: getattr(self, name) for name in ("flipped", "smallest", "evaluations", "budget")},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Flip:
        """Inverse of ``to_dict``."""
        data = cast("Mapping[str, Any]", object_value(data, "a flip", tuple(cls.__dataclass_fields__)))
        return cls(
            Units.from_dict(data["units"]),
            Prediction.from_dict(data["prediction"]),
            tuple(Change.from_dict(cast("Mapping[str, Any]", each)) for each in list_value(data["changes"], "changes")),
            Example.from_dict(data["after"]),
            Prediction.from_dict(data["prediction_after"]),
            truth_value(data["flipped"], "flipped"),
            truth_value(data["smallest"], "smallest"),
            whole_number(data["evaluations"], "evaluations"),
            whole_number(data["budget"], "budget"),
        )


def find_flip(
    model: Model, example: Example, *, target: TargetLike = None, budget: int = BUDGET, propose: Propose | None = None
) -> Flip:
    """Look for the smallest change of words that flips the prediction of a text.

    Words are deleted; where ``propose`` is given and no deletion of one word flips, they are replaced too. The search
    is deterministic.

    Args:
        model: with two classes or more.
        example: a text or a pair of texts.
        target: the class that is to be predicted instead; any other class when not given.
        budget: maximum number of plain passes.
        propose: words that may replace a word.
    """
    if budget < 1:
        raise ParameterError(f"the budget of a flip search must be at least 1 evaluation, got {budget}")
    if not example.is_textual:
        raise InputError(f"a flip is searched by changing words, and {example.preview} has none; give a text")
    (prediction,) = model.predict([example])
    wanted = _wanted(model, prediction, target)
    (units,) = model.units([example], "word" if "word" in model.levels else None)
    search = FlipSearch(model, units, prediction, wanted, budget)
    search.run(None if propose is None else propose(units))
    words = dict(search.closest)
    return Flip(
        units,
        prediction,
        changes(units, words),
        changed(units, words) or example,
        search.known.get(search.closest, prediction),
        flipped=search.best is not None,
        smallest=search.smallest,
        evaluations=budget - search.left,
        budget=budget,
    )


def _wanted(model: Model, prediction: Prediction, target: TargetLike) -> int | None:
    """The number of the class that is to be predicted; None for any other than the predicted one."""
    if prediction.kind != "class" or len(prediction.labels) < 2 or prediction.extract is not None:
        raise TargetError(
            f"a flip is a change of the predicted class, and {model.name} predicts a {prediction.kind}"
            f"{'' if prediction.extract is None else ' of a word'}; give a classifier of texts"
        )
    if target is None:
        return None
    chosen = model.target(target, prediction, model.scales[0])
    if chosen.index == prediction.index:
        raise TargetError(
            f"{chosen.label!r} is predicted already; give another class to flip to, or none for any other"
        )
    return chosen.index
