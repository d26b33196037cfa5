"""The page of kinds of model and data is what happens when each is loaded, explained and graded."""

from pathlib import Path

import pytest

from tests.docs.test_docs import script

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.filterwarnings("ignore")  # of peft, torch.compile and scikit-learn, each once
def test_every_kind_does_what_the_page_says() -> None:
    for library in ("datasets", "pandas", "peft", "polars", "sklearn"):
        pytest.importorskip(library)
    tools = script("kinds_tools")
    written = (REPO / "docs" / "kinds" / "tools.md").read_text(encoding="utf-8")
    assert len(tools.MODELS) >= 20
    assert len(tools.DATA) >= 12
    assert written == tools.page(), "run: python scripts/kinds_tools.py"
