"""Keys of stored results: an edited explainer or metric of one's own gets another."""

from typing import Any

import pytest

from didact.attribution.occlusion import Occlusion
from didact.metrics.faithfulness.comprehensiveness import Comprehensiveness
from didact.store import keys

OWN = """
from dataclasses import dataclass
import numpy as np
from didact.attribution.base import Attribution, Outcome
from didact.types import Card, Cost

FACTOR = 1

def halved(value):
    return value / 2

@dataclass(frozen=True, kw_only=True)
class Mine(Attribution):
    card = Card(name="mine", family="perturbation", summary="Mine.", reference="a test", cost="1 forward")
    top: int = 3
    def attribute(self, model, units, targets):
        return [Outcome(halved(np.arange(len(own)) * FACTOR), None) for own in units]
    def cost(self, units):
        return Cost(forwards=1)

class Plain:
    card = Mine.card
    parameters = {}
    def __init__(self, weights):
        self._weights = weights
    def explain(self, model, examples, targets=None):
        return []
    def cost(self, units):
        return Cost(forwards=1)
"""


def module(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "my_methods"}
    exec(compile(text, "my_methods.py", "exec"), names)
    return names


@pytest.mark.parametrize(
    ("old", "new"), [("value / 2", "value / 3"), ("FACTOR = 1", "FACTOR = 2"), (", None) for", ", 0.0) for")]
)
def test_an_explainer_of_ones_own_with_edited_code_has_another_identity(old: str, new: str) -> None:
    first = keys.identity(module(OWN)["Mine"]())
    assert keys.identity(module(OWN)["Mine"]()) == first
    assert keys.identity(module(OWN.replace(old, new))["Mine"]()) != first
    assert keys.identity(module(OWN)["Mine"](top=4)) != first


def test_state_that_is_no_parameter_counts() -> None:
    made = module(OWN)["Plain"]
    assert keys.identity(made([1, 2])) == keys.identity(made([1, 2])) != keys.identity(made([1, 3]))


def test_didacts_own_have_name_and_parameters() -> None:
    for own in (Occlusion(), Comprehensiveness()):
        assert keys.identity(own) == [own.card.name, dict(own.parameters)]
