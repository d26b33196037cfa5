"""The few functions most people need: load a model, explain, compare, show, save."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, overload

from didact.attribution._classes import explain_every_class, is_every_class
from didact.attribution._skipping import Explanations as Explanations
from didact.attribution._skipping import OnError, explain_all, explain_by_all
from didact.attribution._skipping import Skipped as Skipped
from didact.attribution._skipping import about_text as about_text
from didact.attribution.base import ATTRIBUTIONS, Attribution, check_needs, takes
from didact.data import attribution_imports
from didact.data.given import Unreadable, given_examples, readable
from didact.data.load import load_data as load_data
from didact.errors import InputError, ParameterError
from didact.metrics._per_text import tabulated
from didact.models import estimate as forecast
from didact.models.functions.blackbox import BlackBox
from didact.models.load import DEFAULT
from didact.models.load import load_model as load_model
from didact.models.network import NetworkModel
from didact.models.outputs import resolve_target
from didact.models.prompting.prompts import Prompt as Prompt
from didact.progress import listening
from didact.protocols import DIFFERENTIABLE, ExampleLike, Explainer, Model, TargetLike
from didact.registry import unknown
from didact.render import notebook
from didact.render.metric_table import MetricTable
from didact.render.overview import MethodList, model_fragment
from didact.render.progress import ProgressBar
from didact.render.views import save as save
from didact.render.views import show as show
from didact.render.views import to_dataframe as to_dataframe
from didact.settings import checked, shown
from didact.types import Estimate, Example, Explanation, Level, Prediction


@overload
def explain(  # type: ignore[overload-overlap] # every class is several explanations, a label is one
    given: object,
    model: object = DEFAULT,
    method: str | Explainer | None = None,
    *,
    target: Literal["all"],
    progress: bool = True,
    on_error: OnError = "raise",
    **settings: object,
) -> Explanations: ...


@overload
def explain(
    given: ExampleLike,
    model: object = DEFAULT,
    method: str | Explainer | None = None,
    *,
    target: TargetLike = None,
    progress: bool = True,
    on_error: OnError = "raise",
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
    on_error: OnError = "raise",
    **settings: object,
) -> Explanations: ...


@overload
def explain(
    given: object,
    model: object = DEFAULT,
    method: str | Explainer | None = None,
    *,
    target: TargetLike = None,
    progress: bool = True,
    on_error: OnError = "raise",
    **settings: object,
) -> Explanation | Explanations: ...


@checked
def explain(
    given: object,
    model: object = DEFAULT,
    method: str | Explainer | None = None,
    *,
    target: TargetLike = None,
    progress: bool = True,
    on_error: OnError = "raise",
    **settings: object,
) -> Explanation | Explanations:
    """Explain one text or image, or a list of them.

    Args:
        given: a text, a pair ``(text, text_pair)``, an image (a ``Path``, a PIL image, an array, bytes), an
            ``Example``, a dictionary with "text"; or a list of these, a DataFrame or one of its columns, an array of
            texts, a dictionary of columns, a data set of ``load_data`` (which names columns by ``text_column``).
        model: anything ``load_model`` takes; the embedded sentiment classifier when not given.
        method: a registered name (see ``list_methods``) or an explainer; integrated gradients when not given, or
            KernelSHAP where the model has no gradients.
        target: label or index to explain; each text's predicted class when not given. A pair of labels is a contrastive
            target, why the first rather than the second; "all" explains every class, the most probable first.
        progress: show a bar on work over two seconds.
        on_error: for a text that cannot be explained: "raise" an error that names it, or "skip" it.
        **settings: parameters of the method. A learned explainer takes ``evaluations``, with which a few evaluations of
            the model on each text correct its scores (and ``tolerance``, ``absence``, ``seed``, as kernel_shap has).

    Returns:
        One explanation for one text, a list for a list or for every class; its ``skipped`` has the texts left out, with
        the reasons.
    """
    adapter = _model(model)
    explainer = _explainer(method, adapter, settings)
    examples, several = given_examples(given)
    apart = on_error if several else "raise"
    every = is_every_class(target, adapter)
    with _progress(progress):
        chosen = readable(examples, skip=apart == "skip")
        if every:
            explanations = explain_every_class(explainer, adapter, chosen, apart)
        else:
            explanations = explain_all(explainer, adapter, chosen, target, apart)
    return _with_unreadable(explanations, examples, explainer) if several or every else explanations[0]


@checked
def compare(  # noqa: PLR0913 - one call, and every argument but the first has a default
    given: ExampleLike,
    model: object = DEFAULT,
    methods: Sequence[str | Mapping[str, object] | Explainer] | None = None,
    *,
    metrics: Sequence[str | Mapping[str, object]] | str | None = None,
    target: TargetLike = None,
    progress: bool = True,
    on_error: OnError = "raise",
) -> MethodComparison:
    """Explain one text with several methods; ``show`` puts them side by side.

    Args:
        given: a text, a pair, an image or an ``Example``.
        model: anything ``load_model`` takes.
        methods: names or aliases, tables with "method" and its settings, or explainers; every registered method that
            the model and the text allow when not given.
        metrics: names, tables with "metric" and its settings, "default" or "all"; then the result's ``metrics`` is a
            table of methods x metrics for this text.
        target: label or index to explain; the predicted class when not given.
        progress: show a bar on work over two seconds.
        on_error: for a method that cannot explain the text: "raise" its error, or "skip" it, so that it is in the
            result's ``skipped`` with the reason.

    Example:
        >>> import didact
        >>> few = {"method": "lime", "samples": 200}
        >>> result = didact.compare("A warm film.", methods=["ig", "lime", few], metrics="default")  # doctest: +SKIP
        >>> print(result.metrics)  # doctest: +SKIP
    """
    adapter = _model(model)
    chosen = [card.name for card in list_methods(adapter, given)] if methods is None else list(methods)
    if not chosen:
        raise InputError("compare needs at least one method")
    explainers = [_configured(method, adapter) for method in chosen]
    with _progress(progress):
        made = explain_by_all(explainers, adapter, given, target, on_error)
        table = None if metrics is None or not made else tabulated(made, explainers, adapter, metrics)
    return MethodComparison(made, made.skipped, None if table is None else MetricTable(*table))


class MethodComparison(Explanations):
    """Explanations of one text by several methods, and how they score on metrics.

    Attributes:
        metrics: a table of methods x metrics, where metrics were named.
    """

    def __init__(
        self,
        explanations: Iterable[Explanation] = (),
        skipped: Iterable[Skipped] = (),
        metrics: MetricTable | None = None,
    ) -> None:
        super().__init__(explanations, skipped)
        self.metrics = metrics


@checked
def estimate(
    given: object,
    model: object = DEFAULT,
    method: str | Explainer | None = None,
    **settings: object,
) -> Estimate:
    """The cost of ``explain``, without explaining: evaluations, seconds and memory.

    Evaluations are exact, or the most where a method may stop early; integrated gradients take more where they raise
    their steps. Seconds come from timing a few passes of the longest text; memory is a rough guess from the model's
    size.

    Args:
        given: whatever ``explain`` takes; several examples are estimated together.
        model: anything ``load_model`` takes.
        method: a registered name or an explainer; the default method when not given.
        **settings: parameters of the method.
    """
    adapter = _model(model)
    examples = readable(given_examples(given)[0])
    return estimates(examples, adapter, [_explainer(method, adapter, settings)])[0]


def estimates(examples: Sequence[ExampleLike], model: Model, explainers: Sequence[Explainer]) -> list[Estimate]:
    """One estimate per explainer for all examples together; the model is timed once."""
    if not examples or not explainers:
        raise InputError("an estimate needs at least one text and one method")
    given = [Example.of(example) for example in examples]
    words = model.units(given)
    pace = forecast.measure(model, max(words, key=lambda units: sum(len(p) for p in units.positions)))
    forecasts = []
    for explainer in explainers:
        check_needs(explainer.card, model)
        level: Level | None = getattr(explainer, "level", None)
        units = words if level == "word" else model.units(given, level)
        forecasts.append(forecast.estimate(model, units, explainer, pace))
    return forecasts


@checked
def list_methods(model: object | None = None, example: ExampleLike | None = None) -> MethodList:
    """Cards of all registered methods, or of those that work with a model and an example."""
    cards = ATTRIBUTIONS.cards()
    if example is not None:
        given = Example.of(example)
        marked = given.rationale is not None
        cards = [card for card in cards if takes(card, [given]) and (marked or not card.needs_rationale)]
    if model is None:
        return MethodList(cards)
    offered = _model(model).capabilities
    return MethodList(card for card in cards if card.needs <= offered)


def default_method(model: object = DEFAULT) -> str:
    """The method used when none is named: both are signed and add up to the prediction."""
    return "integrated_gradients" if DIFFERENTIABLE in _model(model).capabilities else "kernel_shap"


def load_explainer(name: str, **settings: object) -> Attribution:
    """A registered method with its settings checked."""
    return ATTRIBUTIONS.get(name).configured(**settings)


@checked
def import_attributions(
    obj: object,
    text: ExampleLike | None = None,
    model: object | None = None,
    *,
    target: str | int | None = None,
    prediction: Prediction | None = None,
) -> Explanation | list[Explanation]:
    """Read attributions that another library made.

    Args:
        obj: a result of shap, lime, captum (``VisualizationDataRecord``), inseq or ferret, or a mapping with "scores"
            (or "attributions") and "spans", "offsets" or "tokens". The library need not be installed.
        text: what was explained, where the object does not hold it.
        model: the explained model, anything ``load_model`` takes. With it the prediction is the model's own, and the
            units know their tokens, so that metrics can be computed.
        target: label or index that was explained, where the object does not say or holds several.
        prediction: the model's, where neither a model is given nor the object holds it (shap's and lime's do).

    Returns:
        One explanation, or a list where the object holds several texts. Its method is named after the library, as in
        "shap:partition".
    """
    imported = attribution_imports.read(obj, text, target)
    adapter = None if model is None else _model(model)
    several = imported if isinstance(imported, list) else [imported]
    made = [_adopted(one, adapter, target, prediction) for one in several]
    return made if isinstance(imported, list) else made[0]


def _adopted(
    imported: attribution_imports.Outside, model: Model | None, target: str | int | None, given: Prediction | None
) -> Explanation:
    """Tie outside attributions to a prediction and a target."""
    example = imported.units.example
    prediction = given or (imported.prediction if model is None else model.predict([example])[0])
    if prediction is None:
        raise InputError(
            f"{imported.method} does not say what the model predicted; give the model, or prediction=Prediction(...)"
        )
    label = imported.target if target is None else target
    if model is None:
        return imported.explanation(attribution_imports.resolve(label, prediction, imported.scale), prediction)
    scale = imported.scale if imported.scale in model.scales else None
    placed = dataclasses.replace(imported, units=attribution_imports.placed(imported.units, model))
    return placed.explanation(resolve_target(model, label, prediction, scale), prediction)


@functools.cache
def _default_model() -> Model:
    return load_model(DEFAULT)


def _model(source: object) -> Model:
    return _default_model() if isinstance(source, str) and source == DEFAULT else load_model(source)


def _configured(method: object, model: Model) -> Explainer:
    """An explainer from a name, a table with "method" and settings, or as it is."""
    if not isinstance(method, Mapping):
        return _explainer(method, model, {})  # type: ignore[arg-type] # a name or an explainer
    settings = dict(method)
    name = settings.pop("method", None)
    if not isinstance(name, str):
        raise ParameterError(f"a table of a method has its name as 'method', beside its settings; got {shown(method)}")
    return load_explainer(name, **settings)


def _explainer(method: str | Explainer | None, model: Model, settings: dict[str, object]) -> Explainer:
    if isinstance(method, str):
        return load_explainer(method, **settings)
    if method is not None:
        return _budgeted(method, settings) if settings else method
    return load_explainer(default_method(model), **settings)


def _budgeted(explainer: Explainer, settings: dict[str, object]) -> Explainer:
    """A learned explainer that may evaluate the model; what other settings a ready explainer has is set on it."""
    from didact.trained.budgeted import BudgetedExplainer
    from didact.trained.explainer import LearnedExplainer

    if not isinstance(explainer, LearnedExplainer) or "evaluations" not in settings:
        raise InputError(f"settings {sorted(settings)} were given beside a ready explainer; set them on it")
    known = ("evaluations", "tolerance", "absence", "seed")
    wrong = next((name for name in settings if name not in known), None)
    if wrong is not None:
        raise ParameterError(unknown("setting of a learned explainer with evaluations", wrong, known))
    return BudgetedExplainer(explainer, **settings)  # type: ignore[arg-type] # checked there


def _with_unreadable(
    made: Explanations, examples: Sequence[ExampleLike | Unreadable], explainer: Explainer
) -> Explanations:
    """The explanations, with the rows that could not be read among those left out."""
    bad = {number: row for number, row in enumerate(examples) if isinstance(row, Unreadable)}
    places = [number for number in range(len(examples)) if number not in bad]
    notes = [dataclasses.replace(note, index=places[note.index]) for note in made.skipped]
    notes += [Skipped(number, row.preview, explainer.card.name, str(row.problem)) for number, row in bad.items()]
    return Explanations(made, sorted(notes, key=lambda note: note.index))


@contextlib.contextmanager
def _progress(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with listening(ProgressBar()):
        yield


def _draw_model(model: Model) -> str:
    return model_fragment(model, list_methods(model))


def draw_in_notebooks() -> bool:
    """Have a running notebook draw explanations, lists of them and models; called when this module is imported."""
    models = dict.fromkeys((NetworkModel, BlackBox), _draw_model)
    return notebook.install({Explanation: notebook.draw_single, Explanations: notebook.draw_several, **models})


draw_in_notebooks()
