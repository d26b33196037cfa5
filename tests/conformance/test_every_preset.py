"""Every registered preset passes every check, with settings that make it quick; planted faults do not."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from didact.testing.presets import CHECKS, check
from didact.trained.explainer import LearnedExplainer
from didact.trained.presets.base import PRESETS, ExplainerPreset, TrainingInput
from didact.trained.presets.l2e import L2E

QUICK: Mapping[str, Mapping[str, object]] = {
    "l2e": {"width": 8, "blocks": 1, "min_count": 1, "epochs": 2},
    "probe": {"width": 8, "epochs": 2},
    "smat": {
        "student_kind": "bilstm_attention",
        "student": {"embedding": 8, "hidden": 8, "min_count": 1},
        "channel": "attention",
        "student_epochs": 2,
        "students": 1,
        "layers": (1,),
        "search_settings": {"students": 1, "rounds": 1, "sets": [2], "finalists": 1, "final_students": 1},
        "fit": {"device": "cpu"},
    },
}
"""Settings that make a preset small; its own defaults where it has none here."""


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("preset", PRESETS.names())
def test_conforms(preset: str, name: str) -> None:
    check(name, PRESETS.get(preset).configured(**QUICK.get(preset, {})))


@pytest.mark.parametrize("preset", PRESETS.names())
def test_a_preset_is_a_file_of_its_name(preset: str) -> None:
    assert PRESETS.get(preset).__module__ == f"didact.trained.presets.{preset}"


# The checks themselves, on planted faults.


class Misnamed(L2E):
    """Its card leaves out what its shape learns from."""

    card = replace(L2E.card, learns=None)


class Lenient(L2E):
    __doc__ = L2E.__doc__  # where its settings are described; it takes any other too

    @classmethod
    def configured(cls, **settings: object) -> "Lenient":
        return cls(**{name: value for name, value in settings.items() if name != "no_such_setting"})  # type: ignore[arg-type]


class Moody(L2E):
    """Trains from a seed of its own."""

    def train(self, given: TrainingInput) -> LearnedExplainer:
        return replace(self, seed=int(np.random.default_rng().integers(10**6))).distilled(given)

    def distilled(self, given: TrainingInput) -> LearnedExplainer:
        return L2E.train(self, given)


class Anonymous(L2E):
    """Its explainers go by another name."""

    card = replace(L2E.card, name="other")

    def train(self, given: TrainingInput) -> LearnedExplainer:
        return L2E(**QUICK["l2e"]).train(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("preset", "name"),
    [
        (Misnamed, "card_is_complete"),
        (Lenient, "settings_are_described"),
        (Moody, "the_same_again_gives_the_same"),
        (Anonymous, "explains_new_texts"),
    ],
)
def test_planted_faults_are_found(preset: type[ExplainerPreset], name: str) -> None:
    with pytest.raises(AssertionError):
        check(name, preset(**QUICK["l2e"]))
