"""didact explains the predictions of transformer models.

>>> import didact
>>> didact.show(didact.explain("A warm, funny and wonderful film."))  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from didact.api import compare, explain, list_methods, load_explainer, load_model, save, show
    from didact.errors import DidactError
    from didact.types import Example, Explanation, Span, Target

_HOME = {
    "compare": "api",
    "explain": "api",
    "list_methods": "api",
    "load_explainer": "api",
    "load_model": "api",
    "save": "api",
    "show": "api",
    "DidactError": "errors",
    "Example": "types",
    "Explanation": "types",
    "Span": "types",
    "Target": "types",
}

__all__ = [
    "DidactError",
    "Example",
    "Explanation",
    "Span",
    "Target",
    "compare",
    "explain",
    "list_methods",
    "load_explainer",
    "load_model",
    "save",
    "show",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'didact' has no attribute {name!r}")
    return getattr(importlib.import_module(f"didact.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
