"""Small studies on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from didact.study.design import StudyDesign
from didact.study.material import StudyMaterial
from didact.study.session import Study
from didact.study.simulated import made_up_explanations

Make = Callable[..., Study]


@pytest.fixture
def make_study(tmp_path: Path) -> Make:
    """Creates a study with a few items; settings of the design may be given."""

    def make(protocol: str = "rank", **settings: Any) -> Study:
        usual: dict[str, Any] = {
            "explainers": ("lime", "attention", "random"),
            "items": 6,
            "learning": 3,
            "repeats": 2,
            "check_every": 4,
            "raters": 4,
        }
        design = StudyDesign(protocol=protocol, **(usual | settings))  # type: ignore[arg-type]
        explained = made_up_explanations(("lime", "attention", "integrated_gradients"), 20)
        return Study.create(tmp_path / f"study-{protocol}", design, StudyMaterial.chosen(explained, design))

    return make


def codes_of(study: Study) -> list[str]:
    return (study.folder / "codes.txt").read_text(encoding="utf-8").split()
