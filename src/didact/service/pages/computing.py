"""From a query of the playground to what its page shows: explanations, what changed, what would flip it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from didact.api import default_method
from didact.attribution._classes import is_every_class
from didact.counterfactuals.flip import Flip
from didact.decisions.record import DecisionRecord
from didact.errors import DidactError, InputError
from didact.protocols import Model
from didact.service.answering import computed, computed_single, service_of
from didact.service.core import Service
from didact.service.pages.query import SAVED, Query
from didact.service.problems import Refusal, refusal_of
from didact.service.reading import read_examples
from didact.service.schemas import ExplainBody, PredictBody
from didact.service.searches import Flipping, Recording
from didact.service.work import Work
from didact.service.workers import ModelWorker
from didact.types import Explanation, Prediction

CLASSES = 12
"""Classes at most of which each is explained."""


@dataclass(frozen=True)
class Seen:
    """What a page shows.

    Attributes:
        explanations: of the input, by each method and, where every class is explained, of each class.
        earlier: of the text before it was edited, by the same methods.
        skipped: methods that cannot explain the input, with the reasons.
        flip: the smallest change that was found, where one was searched for.
    """

    explanations: list[Explanation]
    earlier: list[Explanation] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    flip: Flip | None = None


async def computed_view(request: Request, query: Query) -> Seen:
    """All that a query wants, computed through the model's queue.

    Raises:
        Refusal: no method can explain the input; with the first method's reason.
        DidactError: the input cannot be read.
    """
    service = service_of(request)
    worker = service.worker(query.model or None)
    target = await _target(request, service, query)
    works = await run_in_threadpool(_works, service, worker, query, target)
    accepted = [work for work in works.values() if isinstance(work, Work)]
    done = iter(await computed(request, worker, accepted, None) if accepted else [])
    made = {name: next(done) if isinstance(work, Work) else work for name, work in works.items()}
    return _seen(made, edited=len(query.inputs) > 1)


async def computed_record(request: Request, query: Query) -> DecisionRecord:
    """The decision record of a query's text, by its first method."""
    service = service_of(request)
    worker = service.worker(query.model or None)

    def prepared() -> Work:
        methods = query.methods or (default_method(worker.model),)
        body = _body(query, methods[0], None)
        examples = read_examples(body.inputs[-1:], service.config.limits)
        recording = Recording(service.task(worker, body, examples).explainer)
        return service.work(worker, recording, examples, [None], None)

    (record,) = await computed_single(request, worker, await run_in_threadpool(prepared), None)
    if not isinstance(record, DecisionRecord):
        raise TypeError(f"a record was computed as {type(record).__name__}")
    return record


def takes_images(model: Model) -> bool:
    """Whether a model's units are parts of images."""
    return not {"word", "token"} & set(model.levels)


def takes_questions(model: Model) -> bool:
    """Whether a model answers a question about a passage."""
    return {"question", "passage"} <= set(model.levels)


async def _target(request: Request, service: Service, query: Query) -> str | None:
    """The class to explain. Texts before and after an edit are explained for one class: what was predicted before."""
    if query.target or len(query.inputs) < 2:
        return query.target or None
    body = PredictBody(inputs=query.inputs[:1], model=query.model or None)
    worker, (work,) = await run_in_threadpool(service.predicting, body)
    (made,) = await computed_single(request, worker, work, None)
    return made.label if isinstance(made, Prediction) and made.kind == "class" and len(made.labels) > 1 else None


def _works(service: Service, worker: ModelWorker, query: Query, target: str | None) -> dict[str, Work | Refusal]:
    """A work, or why there is none, by the name of each method; the search for a flip by its own name."""
    model = worker.model
    if target is not None and is_every_class(target, model) and len(model.labels) > CLASSES:
        raise InputError(f"{model.name} has {len(model.labels)} classes, and at most {CLASSES} are shown; choose one")
    methods = query.methods or (default_method(model),)
    if len(methods) > service.config.limits.methods:
        raise InputError(f"{len(methods)} methods were chosen; at most {service.config.limits.methods} are allowed")
    made: dict[str, Work | Refusal] = {}
    for method in methods:
        try:
            _, (made[method],) = service.explaining(_body(query, method, target))
        except (DidactError, Refusal) as problem:
            made[method] = refusal_of(problem)
    if query.flip:
        examples = read_examples(query.inputs[-1:], service.config.limits)
        made[Flipping.method] = service.work(worker, Flipping(), examples, [None], None)
    return made


def _body(query: Query, method: str, target: str | None) -> ExplainBody:
    saved = method.removeprefix(SAVED) if method.startswith(SAVED) else None
    return ExplainBody(
        inputs=query.inputs,
        model=query.model or None,
        method=None if saved else method,
        explainer=saved,
        target=[target, query.rather] if query.rather else target,
    )


def _seen(made: Mapping[str, object], *, edited: bool) -> Seen:
    """The results in the order of the methods; the most probable class first."""
    explanations: list[Explanation] = []
    earlier: list[Explanation] = []
    flip: Flip | None = None
    problems: dict[str, Refusal] = {}
    for method, outcome in made.items():
        if isinstance(outcome, list):
            own = [each for each in outcome if isinstance(each, Explanation)]
            now = len(own) // 2 if edited else 0
            earlier += own[:now]
            explanations += own[now:]
            flip = next((each for each in outcome if isinstance(each, Flip)), flip)
        else:
            problem = outcome if isinstance(outcome, Exception) else Refusal(503, "the service stopped")
            problems[method] = refusal_of(problem)
    if not explanations:
        raise next(iter(problems.values()))
    skipped = {method: str(problem.detail) for method, problem in problems.items()}
    return Seen(sorted(explanations, key=_improbable), earlier, skipped, flip)


def _improbable(explanation: Explanation) -> float:
    shares = explanation.prediction.probabilities
    return -shares[explanation.target.index] if shares and explanation.prediction.kind == "class" else 0.0
