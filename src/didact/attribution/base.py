"""What every static method shares: checking inputs, resolving targets, metering, and verifying the explained pass."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from didact.attribution._one_pass import Passed, in_one_pass
from didact.attribution._partial import forming
from didact.errors import CapabilityError, InputError, MismatchError, ParameterError
from didact.meter import Meter, metered
from didact.models.outputs import predicted_targets
from didact.protocols import ExampleLike, Model, TargetLike
from didact.provenance import versions
from didact.registry import Registry
from didact.settings import Configured
from didact.settings import at_least as at_least
from didact.settings import at_most as at_most
from didact.types import Card, Cost, Example, Explanation, Floats, Level, Prediction, Scale, Target, Units

CHUNK = 64
"""Examples explained together: enough to fill batches, few enough that nothing piles up in memory."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method computed for one example.

    Attributes:
        scores: one per unit.
        value: the explained number for the whole input as the method's own pass computed it, to be compared with the
            plain prediction; None when the method does not look at the model.
        details: further numbers worth keeping.
        errors: a standard error per unit where the method estimates them; empty where not.
        warnings: sentences about these scores that their reader must know.
        forwards: evaluations this took where it may not be the declared number, the prediction included.
        backwards: gradients this took where it may not be the declared number.
    """

    scores: Floats
    value: float | None
    details: Mapping[str, float] = field(default_factory=dict)
    errors: Sequence[float] | Floats = ()
    warnings: tuple[str, ...] = ()
    forwards: int | None = None
    backwards: int | None = None


@dataclass(frozen=True, kw_only=True)
class Attribution(Configured, ABC):
    """Base of static methods; a subclass's dataclass fields are its parameters, recorded on every explanation.

    Args:
        level: what gets a score, such as "word" or "token"; the model's first level when not given.
        scale: explain the "logit", "log_probability" or "probability"; the model's first scale when not given.
    """

    card: ClassVar[Card]
    one_pass: ClassVar[bool] = False
    """Whether the first pass of ``attribute`` evaluates the whole text, so that it can settle the target as well."""

    level: Level | None = None
    scale: Scale | None = None

    @abstractmethod
    def attribute(self, model: Any, units: Sequence[Units], targets: Sequence[Target]) -> list[Outcome]:
        """Score the units of each example; ``model`` has what the card needs.

        With ``one_pass`` the targets are known only after the model's pass.
        """

    @abstractmethod
    def cost(self, units: Units) -> Cost:
        """Forwards and backwards of explaining this example, its prediction included."""

    @property
    def signed(self) -> bool:
        """Whether scores carry a sign with these settings; the card describes the default ones."""
        return self.card.signed

    def explain(
        self, model: Model, examples: Sequence[ExampleLike], targets: Sequence[TargetLike] | None = None
    ) -> list[Explanation]:
        """One explanation per example, in order."""
        inputs, wanted = checked(examples, targets)
        check_needs(self.card, model)
        check_inputs(self.card, inputs)
        settled = self._settled(model)
        explanations: list[Explanation] = []
        for start in range(0, len(inputs), CHUNK):
            explanations += settled._explain(model, inputs[start : start + CHUNK], wanted[start : start + CHUNK])
        return explanations

    def _settled(self, model: Model) -> Self:
        """Fill in what was left to the model, so that explanations record the settings in use."""
        own = {item.name for item in dataclasses.fields(self)}
        defaults: dict[str, Any] = {
            "level": model.levels[0],
            "scale": model.scales[0],
            "absence": model.default_absence,
        }
        left = {name: value for name, value in defaults.items() if name in own and getattr(self, name) is None}
        return dataclasses.replace(self, **left)

    def _explain(self, model: Model, examples: list[Example], wanted: Sequence[TargetLike]) -> list[Explanation]:
        with metered() as meter:
            units = model.units(examples, self.level)
            passed = self._in_one_pass(model, examples, units, wanted)
            if passed is None:
                predictions, targets = predicted_targets(model, examples, wanted, self.scale)
            else:
                predictions, targets = passed.predictions, passed.targets

            def formed(outcomes: Sequence[Outcome]) -> list[Explanation]:
                identity = {"name": model.name, "fingerprint": model.fingerprint()}
                costs = self._costs(units, outcomes, meter, apart=self.one_pass and passed is None)
                each = zip(units, targets, predictions, outcomes, costs, strict=True)
                return [self._explanation(*parts, identity) for parts in each]

            with forming(formed):
                outcomes = self.attribute(model, units, targets) if passed is None else passed.outcomes
        plain = [one.value(target) for one, target in zip(predictions, targets, strict=True)]
        _verify(self.card.name, model, outcomes, plain)
        return formed(outcomes)

    def _in_one_pass(
        self, model: Model, examples: list[Example], units: Sequence[Units], wanted: Sequence[TargetLike]
    ) -> Passed[Outcome] | None:
        if not self.one_pass:
            return None
        attribute = functools.partial(self.attribute, model, units)
        return in_one_pass(attribute, model, examples, wanted, self.scale, self.card.name)

    def _explanation(
        self,
        units: Units,
        target: Target,
        prediction: Prediction,
        outcome: Outcome,
        cost: Cost,
        identity: Mapping[str, str],
    ) -> Explanation:
        return Explanation(
            method=self.card.name,
            units=units,
            scores=tuple(float(score) for score in outcome.scores),
            target=target,
            prediction=prediction,
            parameters=self.parameters,
            signed=self.signed,
            cost=cost,
            details=outcome.details,
            model=identity,
            versions=versions(),
            errors=tuple(float(error) for error in outcome.errors),
            warnings=outcome.warnings,
        )

    def _costs(self, units: Sequence[Units], outcomes: Sequence[Outcome], meter: Meter, apart: bool) -> list[Cost]:
        """Declared counts, and a forward for a prediction ``apart`` that is declared to come with the explanation.

        What was measured for the whole call is shared out in proportion to them, guarding passes included.
        """
        declared = [
            dataclasses.replace(
                cost,
                forwards=(cost.forwards if outcome.forwards is None else outcome.forwards) + apart,
                backwards=cost.backwards if outcome.backwards is None else outcome.backwards,
            )
            for cost, outcome in zip(map(self.cost, units), outcomes, strict=True)
        ]
        total = sum(cost.forwards for cost in declared)
        return [
            dataclasses.replace(
                cost,
                evaluated=round(meter.evaluated * cost.forwards / total),
                seconds=meter.seconds * cost.forwards / total,
            )
            for cost in declared
        ]


ATTRIBUTIONS: Registry[Attribution, Card] = Registry(
    "method", "didact.attribution", [str(Path(__file__).parent)], "didact.attributions"
)
register = ATTRIBUTIONS.register


def checked(
    examples: Sequence[ExampleLike],
    targets: Sequence[TargetLike] | None = None,
    predictions: Sequence[Prediction] | None = None,
) -> tuple[list[Example], Sequence[TargetLike]]:
    """Examples and one target for each; what does not fit together is refused."""
    if isinstance(examples, (str, Example)):
        raise InputError("explain takes a list of examples; put a single text into a list")
    wanted: Sequence[TargetLike] = [None] * len(examples) if targets is None else targets
    for what, many in (("targets", wanted), ("predictions", predictions)):
        if many is not None and len(many) != len(examples):
            raise InputError(f"{len(many)} {what} were given for {len(examples)} examples; give one for each")
    return [Example.of(example) for example in examples], wanted


def check_needs(card: Card, model: Model) -> None:
    """Refuse a model that does not offer what the method needs, naming methods that would work."""
    missing = card.needs - model.capabilities
    if missing:
        works = [other.name for other in ATTRIBUTIONS.cards() if other.needs <= model.capabilities]
        raise CapabilityError(
            f"{card.name} needs a model that is {' and '.join(sorted(missing))}, which {model.name} is not; "
            f"methods that work with it: {', '.join(works)}"
        )


def check_inputs(card: Card, examples: Sequence[Example]) -> None:
    """Refuse images where the method takes texts alone, naming methods that would work."""
    if not takes(card, examples):
        works = [other.name for other in ATTRIBUTIONS.cards() if "image" in other.inputs]
        raise InputError(
            f"{card.name} takes {' and '.join(card.inputs)} inputs, and an image was given; methods that take images: "
            f"{', '.join(works)}"
        )


def takes(card: Card, examples: Sequence[Example]) -> bool:
    """Whether the method explains examples of these kinds."""
    return "image" in card.inputs or all(example.is_textual for example in examples)


def generator(seed: int, example: Example) -> np.random.Generator:
    """Randomness that depends on the seed and the text alone, not on the batch it is explained in."""
    if seed < 0:
        raise ParameterError(f"a seed must not be negative, got {seed}")
    return np.random.default_rng([seed, int(example.fingerprint, 16)])


def _verify(method: str, model: Model, outcomes: Sequence[Outcome], plain: Sequence[float]) -> None:
    """Refuse outcomes of passes that saw something else than the plain passes did."""
    seen = [(one.value, value) for one, value in zip(outcomes, plain, strict=True) if one.value is not None]
    precision = model.precision if seen else 0.0  # computed once: it looks at every module
    for saw, value in seen:
        if not abs(saw - value) <= precision * (1 + abs(value)):
            raise MismatchError(
                f"{method} saw {saw:.6g} where a plain pass of {model.name} gives {value:.6g}: explaining would "
                "explain another prediction; is the model random, or changed while it was explained?"
            )
