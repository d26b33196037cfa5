"""Objectives for searches, in a module so that other processes can import them."""

import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from didact.errors import ParameterError
from didact.experiments.masking.search import SearchConfig, search

SPACE = {"preserve": (0.0, 1.0), "sparse": (0.0, 1.0)}


def bowl(settings: Mapping[str, float]) -> float:
    """Smallest, 0, at (0.7, 0.2)."""
    return (settings["preserve"] - 0.7) ** 2 + (settings["sparse"] - 0.2) ** 2


def slow_bowl(settings: Mapping[str, float]) -> float:
    time.sleep(0.15)
    return bowl(settings)


def partly_undefined(settings: Mapping[str, float]) -> float:
    if settings["preserve"] < 0.3:
        raise ParameterError("the monitor gave nan after epoch 1")
    return math.nan if settings["preserve"] < 0.5 else bowl(settings)


if __name__ == "__main__":
    config = SearchConfig(space=SPACE, lower_is_better=True, trials=12, together=int(sys.argv[2]))
    search(slow_bowl, config, Path(sys.argv[1]))
