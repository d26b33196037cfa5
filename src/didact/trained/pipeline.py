"""The Transformers pipeline ``didact-explain``, registered when this module is imported.

>>> from transformers import pipeline
>>> import didact.trained.pipeline
>>> explain = pipeline("didact-explain", model="./my-model", explainer="runs/probe")  # doctest: +SKIP
>>> explain("A warm and funny film.")  # doctest: +SKIP
{'label': 'positive', 'score': 0.99, 'words': [{'word': 'A', 'start': 0, 'end': 1, 'score': 0.02}, ...]}
"""

from __future__ import annotations

from typing import Any

from transformers import AutoModelForSequenceClassification, Pipeline
from transformers.pipelines import PIPELINE_REGISTRY

from didact.errors import ParameterError
from didact.trained.attached import AttachedOutput, attach

TASK = "didact-explain"


class ExplainPipeline(Pipeline):
    """Label, its probability and a score for every word, from one pass per batch.

    Args:
        *args: as every pipeline takes them.
        explainer: what ``didact.attach`` takes for the pipeline's model.
        **kwargs: ``model``, ``tokenizer``, ``device``, ``batch_size`` and what else every pipeline takes.
    """

    _load_processor = False  # type: ignore[assignment] # the base has None
    _load_image_processor = False  # type: ignore[assignment] # the base has None
    _load_feature_extractor = False  # type: ignore[assignment] # the base has None
    _load_tokenizer = True  # type: ignore[assignment] # the base has None

    def __init__(self, *args: Any, explainer: object = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if explainer is None:
            raise ParameterError(
                f"the pipeline {TASK} needs an explainer: pipeline({TASK!r}, model=..., explainer='runs/probe')"
            )
        self.attached = attach((self.model, self.tokenizer), explainer)

    def _sanitize_parameters(self, **kwargs: object) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if kwargs:
            raise ParameterError(f"the pipeline {TASK} has no parameter {', '.join(sorted(kwargs))}")
        return {}, {}, {}

    def preprocess(self, text: object) -> dict[str, object]:  # type: ignore[override]
        """One text as it is: the model's reader encodes it together with its batch."""
        return {"text": text}

    def _forward(self, inputs: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:  # type: ignore[override]
        """One pass of a batch."""
        texts = inputs["text"]
        return {"explained": _rows(self.attached(texts if isinstance(texts, list) else [texts]))}

    def postprocess(self, outputs: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        """Label, score and words of one text."""
        explained = outputs["explained"]
        row: dict[str, Any] = explained[0] if isinstance(explained, list) else explained
        return row


def _rows(made: AttachedOutput) -> list[dict[str, Any]]:
    """Plain values, as pipelines return them."""
    return [
        {
            "label": prediction.label,
            "score": max(prediction.probabilities, default=prediction.outputs[0]),
            "words": [
                {"word": word, "start": span.start, "end": span.end, "score": score}
                for word, span, score in zip(units.texts, units.spans, scores, strict=False)
            ],
        }
        for prediction, units, scores in zip(made.predictions, made.units, made.scores.tolist(), strict=True)
    ]


PIPELINE_REGISTRY.register_pipeline(
    TASK, pipeline_class=ExplainPipeline, pt_model=AutoModelForSequenceClassification, type="text"
)
