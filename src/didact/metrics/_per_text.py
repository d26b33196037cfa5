"""Metrics of several explanations of one text, without a dataset."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from didact.attribution.base import ATTRIBUTIONS
from didact.errors import InputError, ParameterError
from didact.metrics.base import METRICS, BaseMetric
from didact.protocols import Evidence, Explainer, Model
from didact.types import Explanation, MetricCard

DRAWS = 10
"""Random explanations whose mean is chance."""

OFFERED = frozenset({"model", "explainer", "others", "classes", "text", "rationale"})
"""What a single text has for metrics; the rest takes a dataset, other seeds or a surrogate."""

FAMILIES = ("faithfulness", "plausibility", "stability", "agreement", "efficiency")
"""The order of columns where metrics are not named."""

BY_CHANCE = ("faithfulness", "plausibility")
"""Families in which random explanations say what chance gets."""


Tabulated = tuple[dict[str, MetricCard], dict[str, tuple[float, ...]], tuple[float, ...], int]
"""Cards of the columns by label, values of the rows by name, values by chance, and of how many draws."""


def tabulated(
    explanations: Sequence[Explanation],
    explainers: Sequence[Explainer],
    model: Model,
    metrics: Sequence[str | Mapping[str, object]] | str,
) -> Tabulated:
    """How explanations of one text score on metrics, beside what random ones get; arguments as for ``rows``."""
    chosen = choose(metrics, explanations[0])
    values = rows(explanations, explainers, model, chosen)
    chance = by_chance(explanations[0], model, chosen)
    return {name: one.card for name, one in chosen.items()}, values, chance, DRAWS


def choose(metrics: Sequence[str | Mapping[str, object]] | str, explanation: Explanation) -> dict[str, BaseMetric]:
    """Metrics by label, as far as one text allows them.

    Args:
        metrics: names or aliases, tables with "metric" and settings, "default" or "all".
        explanation: of the text.
    """
    if isinstance(metrics, str) and metrics in ("default", "all"):
        cards = sorted(METRICS.cards(), key=lambda card: FAMILIES.index(card.family) if card.family in FAMILIES else 9)
        cards = [card for card in cards if not _missing(card, explanation)]
        return {card.name: METRICS.get(card.name)() for card in cards if card.default or metrics == "all"}
    chosen: dict[str, BaseMetric] = {}
    for given in [metrics] if isinstance(metrics, str) else metrics:
        settings = {"metric": given} if isinstance(given, str) else dict(given)
        name = settings.pop("metric", None)
        if not isinstance(name, str):
            raise ParameterError(f"a metric is a name, or a table with 'metric' and settings; got {given!r:.80}")
        metric = METRICS.get(name).configured(**settings)
        missing = _missing(metric.card, explanation)
        if missing:
            raise InputError(f"{metric.card.name} cannot be computed for one text: {missing}; see `didact evaluate`")
        chosen[metric.card.name] = metric
    if not chosen:
        raise ParameterError("no metric is named; name at least one, or 'default'")
    return chosen


def rows(
    explanations: Sequence[Explanation],
    explainers: Sequence[Explainer],
    model: Model,
    metrics: Mapping[str, BaseMetric],
) -> dict[str, tuple[float, ...]]:
    """A row per explanation with a value per metric, by the method's name and what sets it apart from its namesakes.

    Args:
        explanations: of one text.
        explainers: that made them, in their order; others, which could not explain the text, may stand between.
        model: the explained model.
        metrics: by label.
    """
    makers = _makers(explanations, explainers)
    columns = [_measured(metric, explanations, makers, model) for metric in metrics.values()]
    return dict(zip(_row_names(makers), zip(*columns, strict=True), strict=True))


def by_chance(explanation: Explanation, model: Model, metrics: Mapping[str, BaseMetric]) -> tuple[float, ...]:
    """What random explanations of the same text and target get on average, per metric."""
    random = ATTRIBUTIONS.get("random")
    level = {"level": explanation.units.level}
    drawn = [
        each
        for seed in range(DRAWS)
        for each in random.configured(seed=seed, **level).explain(model, [explanation.example], [explanation.target])
    ]
    means = []
    for metric in metrics.values():
        compared = metric.card.family in BY_CHANCE
        values = [grade.value for grade in metric.measure(Evidence(drawn, model))] if compared else []
        known = [value for value in values if math.isfinite(value)]
        means.append(sum(known) / len(known) if known else math.nan)
    return tuple(means)


def _makers(explanations: Sequence[Explanation], explainers: Sequence[Explainer]) -> list[Explainer]:
    """The explainer of each explanation: the next of its name whose settings it has."""
    waiting, makers = list(explainers), []
    for explanation in explanations:
        while not _made_by(waiting[0], explanation):
            waiting.pop(0)
        makers.append(waiting.pop(0))
    return makers


def _made_by(explainer: Explainer, explanation: Explanation) -> bool:
    """Whether name and settings agree; what was left to the model is None on the explainer."""
    known = explanation.parameters
    same = (value is None or known.get(name) == value for name, value in explainer.parameters.items())
    return explainer.card.name == explanation.method and all(same)


def _row_names(explainers: Sequence[Explainer]) -> list[str]:
    """The methods' names; where one occurs several times, with the settings that differ, or else a number."""
    names = [one.card.name for one in explainers]
    named: list[str] = []
    for one in explainers:
        twins = [other.parameters for other in explainers if other.card.name == one.card.name]
        own = {key: value for key, value in one.parameters.items() if any(twin[key] != value for twin in twins)}
        row = " ".join([one.card.name, *(f"{key}={value}" for key, value in own.items())])
        named.append(row if row not in named else f"{row} ({names[: len(named)].count(one.card.name) + 1})")
    return named


def _measured(
    metric: BaseMetric, explanations: Sequence[Explanation], explainers: Sequence[Explainer], model: Model
) -> list[float]:
    if not metric.card.needs & {"explainer", "others"}:
        return [grade.value for grade in metric.measure(Evidence(explanations, model))]
    values = []
    for place, (explanation, explainer) in enumerate(zip(explanations, explainers, strict=True)):
        others = {str(number): [other] for number, other in enumerate(explanations) if number != place}
        if "others" in metric.card.needs and not others:
            values.append(math.nan)
            continue
        values += [grade.value for grade in metric.measure(Evidence([explanation], model, explainer, (), others))]
    return values


def _missing(card: MetricCard, explanation: Explanation) -> str:
    """Why a metric cannot be computed for a text; empty where it can."""
    if card.needs - OFFERED:
        return f"it needs {' and '.join(sorted(card.needs - OFFERED))}"
    if "rationale" in card.needs and explanation.example.rationale is None:
        return "it has no human rationale"
    if "text" in card.needs and not explanation.example.is_textual:
        return "it is an image"
    if "classes" in card.needs and explanation.prediction.kind != "class":
        return "its prediction is no class"
    return ""
