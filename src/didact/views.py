"""What results offer beyond being data: to be shown, saved, and made into tables.

The room ``render`` does this. It is imported by name on first use, as registries import what is registered, so that
results stay plain data for everybody who does not look at them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def view(name: str) -> Callable[..., Any]:
    """A function of ``didact.render.views``."""
    function: Callable[..., Any] = getattr(importlib.import_module("didact.render.views"), name)
    return function
