"""The few functions most people need: load a model, explain, compare, show, save."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from didact.attribution.base import ATTRIBUTIONS, Attribution
from didact.errors import InputError
from didact.models.load import DEFAULT
from didact.models.load import load_model as load_model
from didact.progress import listening
from didact.protocols import DIFFERENTIABLE, Explainer, Given, Model, TargetLike
from didact.render import notebook
from didact.render.formats import render
from didact.render.progress import Bar
from didact.types import Card, Example, Explanation


@overload
def explain(
    given: Given,
    model: object = DEFAULT,
    method: str | Explainer | None = None,
    *,
    target: TargetLike = None,
    progress: bool = True,
    **settings: object,
) -> Explanation: ...


@overload
def explain(
    given: list[str] | list[Example] | list[tuple[str, str]],
    model: object = DEFAULT,
    method: str | Explainer | None = None,
    *,
    target: TargetLike = None,
    progress: bool = True,
    **settings: object,
) -> list[Explanation]: ...


def explain(
    given: Given | Sequence[Given],
    model: object = DEFAULT,
    method: str | Explainer | None = None,
    *,
    target: TargetLike = None,
    progress: bool = True,
    **settings: object,
) -> Explanation | list[Explanation]:
    """Explain one text, or a list of them.

    Args:
        given: a text, a pair ``(text, text_pair)``, an ``Example``, or a list of these.
        model: anything ``load_model`` takes; the embedded sentiment classifier when not given.
        method: a registered name (see ``list_methods``) or an explainer; integrated gradients when not given, or
            KernelSHAP where the model has no gradients.
        target: label or index to explain; each text's predicted class when not given.
        progress: show a bar on work over two seconds.
        **settings: parameters of the method.

    Returns:
        One explanation for one text, a list for a list.
    """
    adapter = _model(model)
    explainer = _explainer(method, adapter, settings)
    several = isinstance(given, list)
    examples: list[Given] = list(given) if several else [given]  # type: ignore[arg-type,list-item]
    notebook.install()
    with _progress(progress):
        found = explainer.explain(adapter, examples, [target] * len(examples))
    return found if several else found[0]


def compare(
    given: Given,
    model: object = DEFAULT,
    methods: Sequence[str | Explainer] | None = None,
    *,
    target: TargetLike = None,
    progress: bool = True,
) -> list[Explanation]:
    """Explain one text with several methods; ``show`` puts them side by side.

    Args:
        given: a text, a pair or an ``Example``.
        model: anything ``load_model`` takes.
        methods: names or explainers; every registered method that the model allows when not given.
        target: label or index to explain; the predicted class when not given.
        progress: show a bar on work over two seconds.
    """
    adapter = _model(model)
    chosen = [card.name for card in list_methods(adapter)] if methods is None else list(methods)
    if not chosen:
        raise InputError("compare needs at least one method")
    notebook.install()
    with _progress(progress):
        return [_explainer(method, adapter, {}).explain(adapter, [given], [target])[0] for method in chosen]


def list_methods(model: object | None = None) -> list[Card]:
    """Cards of all registered methods, or of those that work with a model."""
    cards = ATTRIBUTIONS.cards()
    if model is None:
        return cards
    offered = _model(model).capabilities
    return [card for card in cards if card.needs <= offered]


def default_method(model: object = DEFAULT) -> str:
    """The method used when none is named: both are signed and add up to the prediction."""
    return "integrated_gradients" if DIFFERENTIABLE in _model(model).capabilities else "kernel_shap"


def load_explainer(name: str, **settings: object) -> Attribution:
    """A registered method with its settings checked."""
    return ATTRIBUTIONS.get(name).configured(**settings)


def show(explanations: Explanation | Sequence[Explanation]) -> None:
    """Draw explanations in the notebook or the terminal; those of one text stand side by side."""
    several = [explanations] if isinstance(explanations, Explanation) else list(explanations)
    if not notebook.display(several):
        from didact.render.terminal import show_in_terminal

        show_in_terminal(several)


def save(explanations: Explanation | Sequence[Explanation], path: str | Path) -> Path:
    """Write explanations as .json, .html, .tex, .svg or .txt, by the file's ending."""
    several = [explanations] if isinstance(explanations, Explanation) else list(explanations)
    place = Path(path)
    text = render(several, place.suffix.removeprefix(".") or "json")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return place


@functools.cache
def _default_model() -> Model:
    return load_model(DEFAULT)


def _model(source: object) -> Model:
    return _default_model() if source == DEFAULT else load_model(source)


def _explainer(method: str | Explainer | None, model: Model, settings: dict[str, object]) -> Explainer:
    if isinstance(method, str):
        return load_explainer(method, **settings)
    if method is not None:
        if settings:
            raise InputError(f"settings {sorted(settings)} were given beside a ready explainer; set them on it")
        return method
    return load_explainer(default_method(model), **settings)


@contextlib.contextmanager
def _progress(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with listening(Bar()):
        yield
