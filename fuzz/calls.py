"""Calls of the functions that explain: explain, compare, estimate, load_model, load_explainer, list_methods."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import didact
from didact.errors import DidactError
from didact.models.functions.blackbox import BlackBox
from didact.protocols import Model
from didact.types import Example, Explanation, Span, Target
from fuzz import models
from fuzz.cases import LIMIT, Attempt, show
from fuzz.hostile import anything, chance, hostile_text, mostly, number, text
from fuzz.invariants import check_explanations, check_repeated, promise, untouched
from fuzz.settings import method_name, method_settings
from fuzz.workshop import Workshop


def example(rng: Random) -> object:
    """Something to explain."""
    draw = rng.random()
    if draw < 0.6:
        return text(rng)
    if draw < 0.7:
        return (text(rng), text(rng))
    if draw < 0.85:
        spans = [span(rng) for _ in range(rng.randint(0, 3))]
        marked = None if chance(rng, 0.4) else spans
        return Example(
            text(rng), text(rng) if chance(rng, 0.2) else None, label=label(rng), rationale=marked, id=label_id(rng)
        )
    return anything(rng)


def span(rng: Random) -> Span:
    """A place in a text, perhaps outside of it."""
    start = rng.choice((0, 0, 2, 5, 8, -1, 10**6))
    return Span(start, start + rng.choice((0, 1, 3, 9, -2)), rng.choice((0, 0, 0, 1, 7)))


def label(rng: Random) -> Any:
    """A gold label."""
    return rng.choice((None, "positive", "negative", 0, 1, 0.5, hostile_text(rng), number(rng)))


def label_id(rng: Random) -> Any:
    """An example's name."""
    return rng.choice((None, "one", hostile_text(rng)))


def target(rng: Random) -> object:
    """What a user may want explained."""
    if chance(rng, 0.5):
        return None
    given = rng.choice(("positive", "negative", 0, 1, -1, 2, "score", hostile_text(rng)))
    return mostly(
        rng, given, 0.8, lambda r: r.choice((number(r), anything(r), Target(r.choice((0, 1, 9)), hostile_text(r))))
    )


def explain(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.explain`` of one thing or a list."""
    model, name = models.some_model(rng), method_name(rng)
    given: Any = example(rng) if chance(rng, 0.7) else [example(rng) for _ in range(rng.randint(0, 4))]
    wanted: Any = target(rng)
    settings: Any = method_settings(rng, name)
    twice = chance(rng, 0.15)
    short: Any = given

    def made() -> list[Explanation]:
        result = didact.explain(short, model, name, target=wanted, progress=False, **settings)
        return result if isinstance(result, list) else [result]

    def call() -> None:
        nonlocal short
        short = _affordable(given, model, name, settings)
        with untouched(model):
            explanations = made()
        several = len(short) if isinstance(short, list) else 1
        promise(len(explanations) == several, "not one explanation per text: explain")
        check_explanations(explanations)
        _check_plain(model, explanations)
        if twice:
            check_repeated(made, explanations)

    return Attempt("explain", show("explain", given, model.name, name, target=wanted, **settings), call)


def _affordable(given: Any, model: Model, name: Any, settings: Any) -> Any:
    """What is to be explained; its first text's beginning alone where ``estimate`` forecasts more than a case may take.

    Work that is forecast is no hang. What cannot be forecast is explained, or refused, as it is.
    """
    texts = [one for one in (given if isinstance(given, list) else [given]) if isinstance(one, (str, Example))]
    if sum(len(one if isinstance(one, str) else one.text) for one in texts) < 500:
        return given
    try:
        seconds = didact.estimate(given, model, name, **settings).seconds
    except DidactError:
        return given
    return given if seconds < LIMIT / 4 else str(texts[0] if isinstance(texts[0], str) else texts[0].text)[:200]


def _check_plain(model: Model, explanations: Sequence[Explanation]) -> None:
    """The prediction on an explanation is the model's own for this text."""
    if not isinstance(model, BlackBox):
        return
    for explanation in explanations:
        own = model.predict([explanation.example])[0]
        promise(own.probabilities == explanation.prediction.probabilities, "another prediction: than the model's")


def compare(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.compare`` by a few quick methods."""
    model = models.some_model(rng)
    quick = ("gradient_x_input", "occlusion", "random", "attention", "gradient_norm", "trivial")
    chosen = [rng.choice((*quick, hostile_text(rng)) if chance(rng, 0.1) else quick) for _ in range(rng.randint(0, 3))]
    methods: Any = mostly(rng, chosen, 0.93)
    methods = [] if methods is None else methods
    given: Any = example(rng)
    wanted: Any = target(rng)

    def call() -> None:
        with untouched(model):
            made = didact.compare(given, model, methods, target=wanted, progress=False)
        check_explanations(made)
        promise(
            [one.method for one in made] == [str(name) for name in methods], "not the methods that were named: compare"
        )

    return Attempt("compare", show("compare", given, model.name, methods, target=wanted), call)


def estimate(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.estimate``, also with settings that would take years."""
    model, name = models.some_model(rng), method_name(rng)
    given: Any = example(rng) if chance(rng, 0.7) else [text(rng) for _ in range(rng.randint(0, 3))]
    settings: Any = method_settings(rng, name)
    for key in settings:
        if isinstance(settings[key], int) and chance(rng, 0.3):
            settings[key] = rng.choice((10**6, 10**9, 2**63))

    def call() -> None:
        forecast = didact.estimate(given, model, name, **settings)
        promise(forecast.forwards >= 0 and forecast.seconds >= 0, f"a negative forecast: {forecast}")

    return Attempt("estimate", show("estimate", given, model.name, name, **settings), call)


def load_model(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.load_model`` of things that are no model, and of functions that misbehave, then explained."""
    source: Any = mostly(
        rng, models.bad_source(rng), 0.6, lambda r: r.choice((anything(r), hostile_text(r), "default"))
    )
    options: dict[str, Any] = {}
    for key, usual in (
        ("labels", ["a", "b"]),
        ("inputs", "text"),
        ("max_length", 16),
        ("max_truncated", 0.5),
        ("device", "cpu"),
    ):
        if chance(rng, 0.25):
            options[key] = mostly(rng, usual, 0.4)
    given = text(rng)

    def call() -> None:
        model = didact.load_model(source, **options)
        made = didact.explain(given, model, "occlusion", progress=False)
        check_explanations([made])

    return Attempt("load_model", show("load_model", source, **options), call)


def load_explainer(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.load_explainer`` with settings; what it accepts is recorded as given."""
    name = method_name(rng)
    settings: Any = method_settings(rng, name)

    def call() -> None:
        made = didact.load_explainer(name, **settings)
        for key, value in settings.items():
            kept = made.parameters[key]
            same = kept == value or kept != kept or list(kept) == list(value)  # type: ignore[arg-type]
            promise(same, f"a setting was changed: {key}")

    return Attempt("load_explainer", show("load_explainer", name, **settings), call)


def list_methods(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.list_methods``."""
    model: Any = mostly(rng, models.some_model(rng), 0.6)
    given: Any = None if chance(rng, 0.3) else example(rng)

    def call() -> None:
        cards = didact.list_methods(model, given)
        promise(len({card.name for card in cards}) == len(cards), "a method twice: list_methods")

    return Attempt("list_methods", show("list_methods", getattr(model, "name", model), given), call)
