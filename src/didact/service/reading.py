"""From the body of a request to examples, targets and tasks, within the limits."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from didact.api import default_method, load_explainer
from didact.attribution._classes import check_classes, is_every_class
from didact.attribution.base import ATTRIBUTIONS, check_inputs, check_needs
from didact.errors import DidactError, InputError, ParameterError
from didact.images import encoded_size
from didact.ops.masking import names_file
from didact.protocols import Explainer, Model, TargetLike
from didact.service.config import ServiceLimits
from didact.service.problems import Refusal
from didact.service.schemas import ExplainBody, ImageBody, Input, QuestionBody, SpanBody, TargetBody, TextBody
from didact.settings import file_settings
from didact.types import Example, Image, Span


def read_examples(inputs: Sequence[Input], limits: ServiceLimits) -> list[Example]:
    """Examples of inputs; the error about one of several names it by its number from 0."""
    if len(inputs) > limits.inputs:
        raise Refusal(413, f"{len(inputs)} inputs were sent; at most {limits.inputs} are allowed in one request")
    examples = []
    for number, given in enumerate(inputs):
        try:
            examples.append(_example(given, limits))
        except DidactError as problem:
            raise InputError(f"input {number}: {problem}") from None
        except Refusal as problem:
            raise Refusal(problem.status_code, f"input {number}: {problem.detail}") from None
    return examples


def read_targets(
    given: TargetBody, model: Model, examples: Sequence[Example]
) -> tuple[list[Example], list[TargetLike]]:
    """What is explained, and for which target: each example once, or once for every class of the model."""
    if isinstance(given, str) and is_every_class(given, model):
        check_classes(model)
        labels: list[TargetLike] = list(range(len(model.labels)))
        return [example for example in examples for _ in labels], labels * len(examples)
    return list(examples), [_target(given)] * len(examples)


def _target(given: TargetBody) -> TargetLike:
    """A target as methods take it."""
    if isinstance(given, SpanBody):
        return Span(given.start, given.end, given.field)
    return (given[0], given[1]) if isinstance(given, list) else given


def read_method(name: str | None, settings: dict[str, object], model: Model) -> Explainer:
    """A registered method with settings that a stranger may give: none that names a file of this machine."""
    chosen = name or default_method(model)
    marked = file_settings(ATTRIBUTIONS.get(chosen))
    closed = sorted(
        setting
        for setting, value in settings.items()
        if setting in marked or (isinstance(value, str) and names_file(value))
    )
    if closed:
        raise ParameterError(f"{closed[0]} of {chosen} names a file, which a service does not read; leave it out")
    return load_explainer(chosen, **settings)


def read_explainer(body: ExplainBody, model: Model, saved: dict[str, Explainer]) -> Explainer:
    """The method or the saved explainer that a request names."""
    if body.explainer is None:
        return read_method(body.method, dict(body.settings), model)
    if body.method is not None or body.settings:
        raise ParameterError("explainer goes without method and settings: a saved explainer has none")
    if body.explainer not in saved:
        known = ", ".join(sorted(saved)) or "none"
        raise Refusal(422, f"no saved explainer {body.explainer!r:.80} of this model; known: {known}", "unknown_name")
    return saved[body.explainer]


def check_fit(explainer: Explainer, model: Model, examples: Sequence[Example]) -> None:
    """Refuse, before anything waits, what the method cannot explain."""
    check_needs(explainer.card, model)
    check_inputs(explainer.card, examples)


def _example(given: Input, limits: ServiceLimits) -> Example:
    if isinstance(given, ImageBody):
        return Example.of(_image(given.image, limits))
    if isinstance(given, TextBody):
        texts = [given.text] if given.text_pair is None else [given.text, given.text_pair]
    else:
        texts = [given.question, given.passage] if isinstance(given, QuestionBody) else [given]
    for text in texts:
        if len(text) > limits.characters:
            raise Refusal(413, f"a text of {len(text):,} characters; at most {limits.characters:,} are allowed")
    return Example.of(tuple(texts))


def _image(encoded: str, limits: ServiceLimits) -> Image:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InputError("an image must be the bytes of a file in base64") from None
    width, height = encoded_size(data)
    if width * height > limits.pixels:
        raise Refusal(413, f"an image of {width:,} x {height:,} pixels; at most {limits.pixels:,} are allowed")
    return Image.of(data)
