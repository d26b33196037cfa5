"""The shapes of requests; the API's documentation is made from them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

EXAMPLE = "A warm, funny and wonderful film."


class RequestShape(BaseModel):
    """A JSON object with these entries and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TextBody(RequestShape):
    """A text, or a pair of texts."""

    text: str
    text_pair: str | None = None


class QuestionBody(RequestShape):
    """A question about a passage."""

    question: str
    passage: str


class ImageBody(RequestShape):
    """An image."""

    image: str = Field(description="The bytes of a PNG or JPEG file in base64.")


class SpanBody(RequestShape):
    """A part of a text, by its characters."""

    start: int
    end: int
    field: int = 0


Input = str | TextBody | QuestionBody | ImageBody
Pair = Annotated[list[StrictInt | StrictStr | None], Field(min_length=2, max_length=2)]
TargetBody = StrictInt | StrictStr | SpanBody | Pair | None
ABOUT_TARGET = (
    "A label, its index or a span; a pair of labels for why the first rather than the second; 'all' for every class, "
    "the most probable first; what is predicted when not given."
)
Setting = StrictStr | bool | StrictInt | StrictFloat | None | list[StrictStr | bool | StrictInt | StrictFloat]
Inputs = Annotated[list[Input], Field(min_length=1, description="Texts, pairs, questions or images.")]
Seconds = Annotated[float | None, Field(strict=False, gt=0, description="Answer within this time, or with 504.")]


class PredictBody(RequestShape):
    """Inputs for plain predictions."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"inputs": [EXAMPLE, "A dull plot."]}]})

    inputs: Inputs
    model: str | None = Field(None, description="One of /v1/models; the first when not given.")
    seconds: Seconds = None


class ExplainBody(PredictBody):
    """Inputs to explain, and how."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"inputs": [EXAMPLE]},
                {"inputs": [EXAMPLE], "method": "kernel_shap", "settings": {"evaluations": 100}, "target": "negative"},
            ]
        }
    )

    method: str | None = Field(None, description="One of /v1/methods; a good one for the model when not given.")
    explainer: str | None = Field(None, description="A saved explainer of the model, in place of a method.")
    settings: dict[str, Setting] = Field(default_factory=dict, description="Settings of the method.")
    target: TargetBody = Field(None, description=ABOUT_TARGET)


class CompareBody(RequestShape):
    """One input to explain by several methods."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"input": EXAMPLE, "methods": ["integrated_gradients", "occlusion"]}]}
    )

    input: Input
    methods: Annotated[list[str], Field(min_length=1)]
    settings: dict[str, dict[str, Setting]] = Field(default_factory=dict, description="Settings by method.")
    model: str | None = None
    target: TargetBody = Field(None, description=ABOUT_TARGET)
    seconds: Seconds = None


class ErrorDetail(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(extra="allow")

    status: int
    code: str
    message: str


class ErrorBody(BaseModel):
    """The one shape of errors."""

    error: ErrorDetail


class Answered(BaseModel):
    """Documents of results; explanations have the shape of ``Explanation.to_dict``."""

    model_config = ConfigDict(extra="allow")

    model: str
    explanations: list[dict[str, Any]] | None = None
    predictions: list[dict[str, Any]] | None = None
