"""What every registered preset must pass, as plain functions that third parties can run too.

``CHECKS`` maps a name to a check; ``check`` runs one on a preset with settings that make it quick, and raises
AssertionError with what went wrong. A third party's test file::

    import pytest
    from didact.testing.presets import CHECKS, check

    @pytest.mark.parametrize("name", CHECKS)
    def test_my_preset(name): check(name, MyPreset(epochs=2))
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable

import numpy as np

from didact.attribution.base import ATTRIBUTIONS
from didact.attribution.occlusion import Occlusion
from didact.errors import ParameterError
from didact.protocols import Model
from didact.testing.learned import case_model, case_texts
from didact.trained.explainer import LearnedExplainer
from didact.trained.presets.base import ExplainerPreset, TrainingInput, settings_of
from didact.trained.shapes.base import SHAPES
from didact.trained.signals.base import REFERENCE, SIGNALS
from didact.types import Floats

TRAIN, APART = 40, 5
NOTHING = "no_such_setting"

Check = Callable[[ExplainerPreset], None]


def check(name: str, preset: ExplainerPreset) -> None:
    """Run one check."""
    CHECKS[name](preset)


def card_is_complete(preset: ExplainerPreset) -> None:
    """The card names registered parts, needs what they need, and has a sentence, a source and examples."""
    card = preset.card
    assert re.fullmatch(r"[a-z][a-z0-9_]*", card.name), card.name
    assert card.summary.endswith("."), card.summary
    assert card.reference, "say where it was published"
    assert card.signals, "a preset has at least one signal"
    assert all(f"{card.name}" in line for line in card.examples), "an example of another preset"
    parts = [SHAPES.card(card.shape).needs, *(SIGNALS.card(name).needs for name in card.signals)]
    needed = frozenset[str]().union(*parts)
    assert needed - {REFERENCE} <= card.needs, f"its parts need {sorted(needed)}, the card {sorted(card.needs)}"
    assert (REFERENCE in needed) == (card.learns is not None), "a reference is needed and not named, or the reverse"
    if card.learns is not None:
        ATTRIBUTIONS.get(card.learns[0]).configured(**card.learns[1])


def settings_are_described(preset: ExplainerPreset) -> None:
    """Every setting is described under Args, survives JSON, and an unknown one is refused with the known ones."""
    described = settings_of(type(preset))
    assert all(setting.help for setting in described)
    plain = json.loads(json.dumps(preset.parameters))
    assert type(preset).configured(**plain) == preset
    message = ""
    try:
        type(preset).configured(**{NOTHING: 1})
    except ParameterError as problem:
        message = str(problem)
    assert message, "an unknown setting was taken"
    assert all(name in message for name in (NOTHING, *(setting.name for setting in described))), message


def the_same_again_gives_the_same(preset: ExplainerPreset) -> None:
    """Training twice from the same texts and settings gives explainers with equal scores."""
    for first, second in zip(_scores(preset, _trained(preset)), _scores(preset, _train(preset)), strict=True):
        np.testing.assert_array_equal(first, second)


def explains_new_texts(preset: ExplainerPreset) -> None:
    """One finite score per unit, under the preset's name, and not all alike."""
    examples, _ = case_texts("black_box")
    explanations = _trained(preset).explain(_model(preset), examples[-APART:])
    for explanation in explanations:
        assert explanation.method == preset.card.name
        assert len(explanation.scores) == len(explanation.units) > 0
        assert np.isfinite(explanation.array).all()
    assert any(len(set(explanation.scores)) > 1 for explanation in explanations), "all units get one score"


def saved_and_loaded(preset: ExplainerPreset) -> None:
    """A loaded explainer gives the same scores."""
    with tempfile.TemporaryDirectory() as folder:
        _trained(preset).save_pretrained(folder)
        loaded = LearnedExplainer.from_pretrained(folder, model=_model(preset), device="cpu")
    for first, second in zip(_scores(preset, _trained(preset)), _scores(preset, loaded), strict=True):
        np.testing.assert_array_equal(first, second)


CHECKS: dict[str, Check] = {
    function.__name__: function
    for function in (
        card_is_complete,
        settings_are_described,
        the_same_again_gives_the_same,
        explains_new_texts,
        saved_and_loaded,
    )
}


_TRAINED: dict[str, LearnedExplainer] = {}


def _trained(preset: ExplainerPreset) -> LearnedExplainer:
    """The explainer of a preset, trained once."""
    key = f"{type(preset)} {preset}"
    if key not in _TRAINED:
        _TRAINED[key] = _train(preset)
    return _TRAINED[key]


def _train(preset: ExplainerPreset) -> LearnedExplainer:
    examples, _ = case_texts("black_box")
    reference = None if preset.card.learns is None else Occlusion()
    return preset.train(TrainingInput(model=_model(preset), examples=examples[:TRAIN], reference=reference))


def _scores(preset: ExplainerPreset, explainer: LearnedExplainer) -> list[Floats]:
    examples, _ = case_texts("black_box")
    return [explanation.array for explanation in explainer.explain(_model(preset), examples[-APART:])]


def _model(preset: ExplainerPreset) -> Model:
    """A model that offers what the preset needs."""
    return case_model("bert" if preset.card.needs else "black_box")
