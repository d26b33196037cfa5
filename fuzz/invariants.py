"""What every returned explanation promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from didact.attribution.base import ATTRIBUTIONS
from didact.models.network import NetworkModel
from didact.render import jsonio
from didact.types import Explanation
from fuzz.cases import Wrong


def promise(holds: bool, broken: str) -> None:
    """Raise ``Wrong`` where a promise does not hold; the words before a colon name it."""
    if not holds:
        raise Wrong(broken)


def check_explanations(explanations: Sequence[Explanation]) -> None:
    """Check each of them, and their file."""
    for explanation in explanations:
        check_explanation(explanation)
    if explanations:
        again = jsonio.load(jsonio.dump(explanations))
        promise(list(again) == list(explanations), "the file of explanations differs: after a round trip")


def check_explanation(explanation: Explanation) -> None:
    """Finite scores, one per unit; probabilities; equal after JSON; complete where the method promises it."""
    promise(len(explanation.scores) == len(explanation.units) > 0, "not one score per unit: or no unit at all")
    promise(all(math.isfinite(score) for score in explanation.scores), f"a score is not finite: {explanation.scores}")
    shares = explanation.prediction.probabilities
    promise(not shares or abs(sum(shares) - 1) < 1e-3, f"probabilities do not add up to 1: {shares}")
    promise(Explanation.from_json(explanation.to_json()) == explanation, "differs after JSON: " + explanation.method)
    _check_units(explanation)
    _check_completeness(explanation)


def _check_units(explanation: Explanation) -> None:
    """Units are stretches of the text, in order and apart from each other at the level of words."""
    last: dict[int, int] = {}
    for span in explanation.units.spans:
        promise(span.start < span.end, f"a unit covers nothing: {span}")
        if explanation.units.level == "word":
            promise(span.start >= last.get(span.field, 0), f"units overlap: {span}")
        last[span.field] = span.end


def _check_completeness(explanation: Explanation) -> None:
    """Scores add up, unless the explanation itself warns that they do not."""
    if explanation.method not in ATTRIBUTIONS.names() or "base_value" not in explanation.details:
        return
    card = ATTRIBUTIONS.card(explanation.method)
    if "completeness" not in card.axioms or explanation.warnings or not explanation.signed:
        return
    difference = explanation.prediction.value(explanation.target) - explanation.details["base_value"]
    missed = abs(float(explanation.array.sum()) - difference)
    allowed = max(card.tolerance, 0.05) * (1 + abs(difference))
    promise(missed <= allowed, f"not complete: {explanation.method} misses {missed:.3g} of {difference:.3g}")


def check_repeated(make: Callable[[], Sequence[Explanation]], first: Sequence[Explanation]) -> None:
    """The same call gives the same scores."""
    for one, other in zip(first, make(), strict=True):
        close = np.allclose(one.array, other.array, rtol=1e-4, atol=1e-5)
        promise(one.target == other.target and close, f"the same call differs: {one.method}")


@contextmanager
def untouched(model: object) -> Iterator[None]:
    """Whatever happens inside leaves a network as it was."""
    if not isinstance(model, NetworkModel):
        yield
        return
    before = _state(model)
    try:
        yield
    finally:
        after = _state(model)
        changed = [name for name, value in before.items() if after[name] != value]
        promise(not changed, f"the model was changed: {', '.join(changed)}")


def _state(model: NetworkModel) -> dict[str, object]:
    network = model.network
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        "hooks": [len(getattr(module, kind)) for module in network.modules() for kind in hooks],
        "modes": [module.training for module in network.modules()],
        "gradients": [weight.grad is None for weight in network.parameters()],
        "requires_grad": [weight.requires_grad for weight in network.parameters()],
        "attention": getattr(network.config, "_attn_implementation", None),
        "weights": [float(weight.detach().double().sum()) for weight in network.parameters()],
    }
