"""What holds for every test: no network, one thread per worker, and the way to real data and weights."""

import os
from pathlib import Path

# Read when the libraries are first imported, so they are set before any test module is.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest
import torch

REPO = Path(__file__).resolve().parents[1]

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of real data and weights: DIDACT_SHARED, or ``shared`` beside the repository."""
    folder = REPO / (os.environ.get("DIDACT_SHARED") or "../shared")
    if not folder.is_dir():
        pytest.skip("no shared data and weights: set DIDACT_SHARED to their folder")
    return folder.resolve()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker("shared")
