"""The toybox, installed for a while: on the path with its entry points, and out of every registry afterwards.

Other tests are parametrised over the registries when they are imported, so nothing may stay registered. A test that
needs only a class of the toybox imports it inside of ``installed()``::

    with installed():
        from toybox.toy_channel import Mass
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from didact.attribution.base import ATTRIBUTIONS
from didact.experiments.engine.kinds import RECIPES
from didact.metrics.base import METRICS
from didact.models.heads.base import HEADS
from didact.models.readers.base import READERS
from didact.students.base import CHANNELS, STUDENTS
from didact.trained.presets.base import PRESETS
from didact.trained.shapes.base import SHAPES
from didact.trained.signals.base import SIGNALS

SITE = Path(__file__).parent
"""The folder to put on the path."""

REGISTRIES = (ATTRIBUTIONS, METRICS, READERS, HEADS, STUDENTS, CHANNELS, SHAPES, SIGNALS, PRESETS, RECIPES)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """As after ``pip install toybox``, inside of the block."""
    sys.path.insert(0, str(SITE))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(SITE))
        for registry in REGISTRIES:
            for name in [name for name, cls in registry._classes.items() if cls.__module__.startswith("toybox.")]:
                del registry._classes[name], registry._cards[name]
        for name in [name for name in sys.modules if name.split(".")[0] == "toybox"]:
            del sys.modules[name]
