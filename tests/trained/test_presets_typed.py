"""Settings of a training are refused by name where they have another type."""

import pytest

from didact.errors import ParameterError
from didact.trained.fit_types import FitConfig
from didact.trained.presets.base import PRESETS


@pytest.mark.parametrize(("name", "value"), [("seed", "a"), ("width", 8.5), ("fit", 3), ("signal", 7), ("fresh", "no")])
def test_a_preset_refuses_a_setting_of_another_type(name: str, value: object) -> None:
    with pytest.raises(ParameterError, match=f"{name} of l2e must be"):
        PRESETS.get("l2e").configured(**{name: value})


@pytest.mark.parametrize(("name", "value"), [("seed", "a"), ("epochs", "3"), ("clip", [1]), ("batch_rows", None)])
def test_a_training_refuses_a_setting_of_another_type(name: str, value: object) -> None:
    with pytest.raises(ParameterError, match=f"{name} of fit must be"):
        FitConfig(**{name: value})  # type: ignore[arg-type]
