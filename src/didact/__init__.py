"""didact explains the predictions of transformer models and grades explanations.

>>> import didact
>>> didact.show(didact.explain("A warm, funny and wonderful film."))  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from didact.api import (
        Explanations,
        MethodComparison,
        Prompt,
        Skipped,
        compare,
        estimate,
        explain,
        import_attributions,
        list_methods,
        load_data,
        load_explainer,
        load_model,
        save,
        show,
        to_dataframe,
    )
    from didact.errors import DidactError
    from didact.experimenting import attach, drawn, evaluate, refined, simulate, train
    from didact.reporting import DecisionRecord, Flip, WordTable, flip, record, words
    from didact.types import Box, Estimate, Example, Explanation, Image, Mask, Prediction, Span, Target

_HOME = {
    "attach": "experimenting",
    "compare": "api",
    "DecisionRecord": "reporting",
    "Flip": "reporting",
    "WordTable": "reporting",
    "flip": "reporting",
    "record": "reporting",
    "words": "reporting",
    "drawn": "experimenting",
    "estimate": "api",
    "evaluate": "experimenting",
    "explain": "api",
    "list_methods": "api",
    "load_data": "api",
    "load_explainer": "api",
    "load_model": "api",
    "import_attributions": "api",
    "refined": "experimenting",
    "save": "api",
    "show": "api",
    "simulate": "experimenting",
    "to_dataframe": "api",
    "train": "experimenting",
    "MethodComparison": "api",
    "Explanations": "api",
    "Skipped": "api",
    "Box": "types",
    "DidactError": "errors",
    "Estimate": "types",
    "Example": "types",
    "Explanation": "types",
    "Image": "types",
    "Mask": "types",
    "Prediction": "types",
    "Prompt": "api",
    "Span": "types",
    "Target": "types",
}

__all__ = [
    "Box",
    "DecisionRecord",
    "DidactError",
    "Estimate",
    "Example",
    "Explanation",
    "Explanations",
    "Flip",
    "Image",
    "Mask",
    "MethodComparison",
    "Prediction",
    "Prompt",
    "Skipped",
    "Span",
    "Target",
    "WordTable",
    "attach",
    "compare",
    "drawn",
    "estimate",
    "evaluate",
    "explain",
    "flip",
    "import_attributions",
    "list_methods",
    "load_data",
    "load_explainer",
    "load_model",
    "record",
    "refined",
    "save",
    "show",
    "simulate",
    "to_dataframe",
    "train",
    "words",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'didact' has no attribute {name!r}")
    return getattr(importlib.import_module(f"didact.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
