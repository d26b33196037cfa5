"""Zero-shot classification: a network that compares two texts, and candidate labels put into a hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from didact.code_identity import STANDS_FOR
from didact.errors import ModelError, ParameterError
from didact.models.network import NetworkModel
from didact.types import Example, Floats

if TYPE_CHECKING:
    from transformers import Pipeline

TASK = "zero-shot-classification"
TEMPLATE = "This example is {}."
"""The hypothesis of Transformers' pipelines where none is given."""


class ZeroShot:
    """A function from texts to probabilities of candidate labels, the softmax of how much each is entailed.

    Args:
        pairs: a model of pairs, one of whose labels begins with "entail".
        labels: candidates, two at least.
        template: the hypothesis, with {} for a label.
    """

    def __init__(self, pairs: NetworkModel, labels: Sequence[str] | None, template: str = TEMPLATE) -> None:
        if labels is None or len(labels) < 2:
            given = "none" if not labels else f"only {labels[0]!r}"
            raise ParameterError(
                f"zero-shot classification chooses among candidate labels, and {given} was given; name at least two, "
                "as in load_model(pipeline, labels=['sports', 'politics']) (command line: --label-names)"
            )
        if template.count("{}") != 1:
            raise ParameterError(f"the hypothesis must have one {{}} for the label, got {template!r:.80}")
        names = [label.lower() for label in pairs.labels]
        self.entailed = next((number for number, name in enumerate(names) if name.startswith("entail")), -1)
        if self.entailed < 0:
            raise ModelError(
                f"zero-shot classification needs a network with a label that begins with 'entail'; {pairs.name} has "
                f"{', '.join(pairs.labels)}"
            )
        self.pairs = pairs
        self.labels = tuple(labels)
        self.template = template
        self.__name__ = f"{pairs.name} (zero-shot)"

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Probabilities, (texts, labels)."""
        hypotheses = [self.template.format(label) for label in self.labels]
        predictions = self.pairs.predict([Example(text, hypothesis) for text in texts for hypothesis in hypotheses])
        entailed = np.array([prediction.outputs[self.entailed] for prediction in predictions])
        shares = np.exp(entailed.reshape(len(texts), -1) - entailed.max())
        return np.asarray(shares / shares.sum(1, keepdims=True))


def pipeline_settings(pipeline: Pipeline, labels: Sequence[str] | None) -> tuple[Sequence[str] | None, str]:
    """Candidate labels and hypothesis of a zero-shot pipeline; labels that are given stand before its own."""
    if pipeline._postprocess_params.get("multi_label"):
        raise ModelError(
            "the pipeline was made with multi_label=True, so its labels hold independently of each other; make it "
            "without, to explain which label is chosen"
        )
    own = pipeline._preprocess_params
    return labels or own.get("candidate_labels"), str(own.get("hypothesis_template", TEMPLATE))


def _identity(function: ZeroShot) -> object:
    return [function.pairs.fingerprint(), list(function.labels), function.template]


STANDS_FOR[f"{ZeroShot.__module__}.ZeroShot"] = _identity
