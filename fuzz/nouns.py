"""Explanations with hostile contents, and calls of what is done with nouns: build, store, draw, save, import, grade."""

from __future__ import annotations

import dataclasses
import json
import math
from random import Random
from typing import Any

import didact
from didact.metrics.base import METRICS
from didact.protocols import Evidence
from didact.render.formats import FORMATS, render
from didact.store import explanations as explanation_store
from didact.store import records as record_store
from didact.types import Cost, Example, Explanation, Prediction, Record, Span, Target, Units
from didact.validation import dump_json
from fuzz import models
from fuzz.calls import example, label, label_id, span, target
from fuzz.cases import Attempt, show
from fuzz.hostile import anything, chance, hostile_text, json_value, mostly, name_text, number, text, valid
from fuzz.invariants import promise
from fuzz.settings import some_setting
from fuzz.workshop import Workshop


def explanation(rng: Random, source: str | None = None) -> Explanation:
    """A well-formed explanation whose texts, labels and names are hostile."""
    given = source if source is not None else (valid(text(rng)) if chance(rng, 0.95) else text(rng)) or "a word"
    regions = tuple(_words(given)) or (Span(0, len(given)),)
    units = Units(
        Example(given, label=rng.choice(("x", 1, None)), id=label_id(rng)), "word", regions, ((0,),) * len(regions)
    )
    labels = (name_text(rng), rng.choice(("other", name_text(rng))))
    index = rng.randint(0, 1)
    return Explanation(
        method=str(mostly(rng, "occlusion", 0.5, name_text)),
        units=units,
        scores=tuple(rng.choice((0.0, 1.0, -0.5, 1e-300, 1e300, rng.gauss(0, 1))) for _ in regions),
        target=Target(index, labels[index]),
        prediction=Prediction(labels, (0.3, -0.2), (0.6, 0.4)),
        parameters={name_text(rng)[:30]: rng.choice((1, 0.5, None, True, name_text(rng)))},
        signed=chance(rng, 0.7),
        cost=Cost(rng.randint(0, 99), 0, None, rng.choice((None, 0.0, 1e9))),
        details={name_text(rng)[:30]: rng.choice((0.0, -1.5, 1e300))},
        model={"name": name_text(rng), "fingerprint": "f0"},
        versions={"didact": name_text(rng)[:30]},
        errors=tuple(abs(rng.gauss(0, 1)) for _ in regions) if chance(rng, 0.2) else (),
    )


def _words(source: str) -> list[Span]:
    spans, start = [], 0
    for word in source.split()[:40]:
        begin = source.index(word, start)
        spans.append(Span(begin, begin + len(word)))
        start = begin + len(word)
    return spans


def draw(rng: Random, workshop: Workshop) -> Attempt:
    """Every output format of explanations with hostile contents."""
    several = [explanation(rng) for _ in range(rng.randint(0, 3))]
    form = str(mostly(rng, rng.choice(list(FORMATS)), 0.95, hostile_text))

    def call() -> None:
        drawn = render(several, form)
        drawn.encode("utf-8")
        promise(
            not any(mark in drawn for mark in ("\x1b", "\x9b", "\x07", "\x00")), f"a control character in {form}: raw"
        )
        if form in ("html", "svg"):
            promise("<script>alert(1)" not in drawn, f"markup is live in {form}: script")
        if form == "svg":
            _parse_xml(drawn)

    return Attempt("render", show("render", several, form), call)


def _parse_xml(drawn: str) -> None:
    from xml.etree import ElementTree

    try:
        ElementTree.fromstring(drawn)
    except ElementTree.ParseError as problem:
        promise(False, f"the SVG is no XML: {problem}")


def save(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.save`` to strange places."""
    several: Any = mostly(rng, [explanation(rng) for _ in range(rng.randint(1, 2))], 0.9)
    ending = rng.choice((".json", ".html", ".tex", ".svg", ".txt", "", ".xyz", ".JSON"))
    name = rng.choice(("out", hostile_text(rng), "folder", "file/under"))

    def call() -> None:
        with workshop.folder() as place:
            (place / "folder.json").mkdir()
            (place / "file").write_text("in the way", encoding="utf-8")
            path: Any = f"{place}/{name.strip('/').replace('..', 'up')}{ending}"
            written = didact.save(several, path)
            promise(written.is_file() and written.stat().st_size > 0, "nothing was written: save")

    return Attempt("save", show("save", several, name + ending), call)


def display(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.show`` in a terminal that is none."""
    several: Any = mostly(rng, [explanation(rng, "one text") for _ in range(rng.randint(0, 3))], 0.9)
    return Attempt("show", show("show", several), lambda: didact.show(several))


def from_json(rng: Random, workshop: Workshop) -> Attempt:
    """``Explanation.from_json`` of documents with changed fields; what it accepts is what the document says."""
    plain = json.loads(explanation(rng).to_json())
    for _ in range(rng.randint(0, 2)):
        _change(rng, plain)
    document = json.dumps(plain)
    if chance(rng, 0.15):
        document = rng.choice(
            (document[: rng.randint(0, len(document))], "[" * 5000, "9" * 6000, hostile_text(rng), "null", "[]")
        )

    def call() -> None:
        made = Explanation.from_json(document)
        promise(all(map(math.isfinite, made.scores)), "scores that are not finite: accepted")
        promise(Explanation.from_json(made.to_json()) == made, "differs after JSON: from_json")
        shares = made.prediction.probabilities
        promise(all(0 <= share <= 1 for share in shares), f"impossible probabilities: {shares}")
        promise(
            all(type(end) is int for each in made.units.spans for end in (each.start, each.end)),
            "a span is no integer: accepted",
        )

    return Attempt("from_json", show("Explanation.from_json", document), call)


def _change(rng: Random, plain: dict[str, Any]) -> None:
    """Replace, add or remove something somewhere in a document."""
    place: Any = plain
    while isinstance(place, dict) and place:
        key = rng.choice(list(place))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or chance(rng, 0.4):
            if chance(rng, 0.2):
                del place[key]
            else:
                place[key] = json_value(rng)
            return
        place = inner
    if isinstance(place, list) and place:
        place[rng.randrange(len(place))] = json_value(rng)


def construct(rng: Random, workshop: Workshop) -> Attempt:
    """The constructors of the nouns with values of the right kind that do not fit together, or of no kind at all."""
    whole = explanation(rng)
    name = rng.choice([item.name for item in dataclasses.fields(Explanation)])
    options: dict[str, Any] = {
        "scores": rng.choice(((), (math.nan,), (math.inf,) * len(whole.scores), (0.5,) * 7)),
        "errors": rng.choice(((-1.0,) * len(whole.scores), (math.nan,), (0.1,))),
        "target": Target(rng.choice((-1, 2, 99)), "x"),
        "prediction": whole.prediction,
    }
    changed: Any = mostly(rng, options.get(name, getattr(whole, name)), 0.6)

    def call() -> None:
        made = dataclasses.replace(whole, **{name: changed})
        promise(Explanation.from_json(made.to_json()) == made, "differs after JSON: constructed")

    return Attempt("construct", show("Explanation", **{name: changed}), call)


def examples(rng: Random, workshop: Workshop) -> Attempt:
    """``Example`` and ``Example.of``, and back from plain values."""
    given: Any = example(rng)
    extra: dict[str, Any] = {
        "label": label(rng),
        "id": label_id(rng),
        "rationale": [span(rng)] if chance(rng, 0.5) else None,
    }

    def call() -> None:
        made = Example.of(given)
        named = Example(*made.fields, **extra)
        for each in (made, named):
            dump_json(each.to_dict())
            promise(Example.from_dict(each.to_dict()) == each, "differs after to_dict: Example")
            promise(len(each.fingerprint) == 16, "no fingerprint: Example")

    return Attempt("Example", show("Example.of", given, **extra), call)


def prediction(rng: Random, workshop: Workshop) -> Attempt:
    """``Prediction``, ``Target`` and ``Units`` from parts that do not fit."""
    labels = tuple(hostile_text(rng)[:20] for _ in range(rng.randint(0, 3)))
    numbers = tuple(rng.choice((0.5, -1.0, math.nan, math.inf, 7.0)) for _ in range(rng.randint(0, 3)))
    spans = tuple(span(rng) for _ in range(rng.randint(0, 3)))
    source = text(rng)

    def call() -> None:
        units = Units(Example(source), "word", spans)
        promise(Units.from_dict(units.to_dict()) == units, "differs after to_dict: Units")
        made = Prediction(labels, numbers)
        promise(made.label in labels, "the label is none of them: Prediction")

    return Attempt("Prediction", show("Prediction", labels, numbers, spans), call)


def import_attributions(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.import_attributions`` of mappings and of objects of no known library."""
    source = text(rng)
    words = source.split()
    spans = [[each.start, each.end] for each in _words(source)]
    obj: Any = {"scores": mostly(rng, [0.5] * len(words), 0.6, lambda r: [number(r) for _ in words])}
    obj |= rng.choice(
        ({"tokens": words}, {"spans": spans}, {"offsets": [span(rng) for _ in words]}, {"tokens": anything(rng)})
    )
    obj = mostly(rng, obj, 0.9)
    model: Any = models.some_model(rng) if chance(rng, 0.6) else None
    given: Any = Prediction(("a", "b"), (0.1, 0.2), (0.5, 0.5)) if chance(rng, 0.5) else None
    wanted: Any = target(rng)

    def call() -> None:
        made = didact.import_attributions(obj, source, model, target=wanted, prediction=given)
        for each in made if isinstance(made, list) else [made]:
            promise(Explanation.from_json(each.to_json()) == each, "differs after JSON: imported")

    return Attempt("import_attributions", show("import_attributions", obj, source, target=wanted), call)


def measure(rng: Random, workshop: Workshop) -> Attempt:
    """A metric with some settings on explanations of a small model."""
    name = str(mostly(rng, rng.choice(METRICS.names()), 0.95, hostile_text))
    cls = METRICS.get(name) if name in METRICS.names() else None
    settings: Any = some_setting(rng, cls) if cls is not None and chance(rng, 0.4) else {}
    model = models.function() if chance(rng, 0.5) else models.network("bert")
    given = [text(rng) for _ in range(rng.randint(0, 3))]

    def call() -> None:
        metric = METRICS.get(name).configured(**settings)
        made = didact.explain(given, model, "occlusion", progress=False) if given else []
        evidence = Evidence(made, model=model, explainer=didact.load_explainer("occlusion"))
        grades = metric.measure(evidence)
        promise(len(grades) == len(made), f"not one grade per explanation: {name}")
        card = metric.card
        bounded = all(
            card.low - 1e-9 <= grade.value <= card.high + 1e-9 for grade in grades if grade.value == grade.value
        )
        promise(bounded, f"a grade outside of its range: {name}")

    return Attempt("metric", show(name, given, model.name, **settings), call)


def tables(rng: Random, workshop: Workshop) -> Attempt:
    """Explanations and records through a table and a file, with hostile contents."""
    several = [explanation(rng) for _ in range(rng.randint(0, 4))]
    rows = [_record(rng) for _ in range(rng.randint(0, 4))]

    def call() -> None:
        with workshop.folder() as place:
            explanation_store.write(place / "e.parquet", explanation_store.to_table(several))
            again = explanation_store.from_table(explanation_store.read(place / "e.parquet"))
            promise(again == several, "explanations differ after Parquet: tables")
            record_store.write(place / "r.parquet", record_store.to_table(rows))
            kept = record_store.from_table(record_store.read(place / "r.parquet"))
            promise(kept == rows, "records differ after Parquet: tables")

    return Attempt("tables", show("to_table", several, rows), call)


def _record(rng: Random) -> Record:
    seed, value = rng.choice((0, -1, 2**62)), rng.choice((0.5, -1e300, 0.0))
    plain = Record("explainer", "method", seed, "", "metric", "", "example", value, "m", "d", "s")
    names = ("explainer", "method", "null", "metric", "part", "example", "failure")
    hostile: dict[str, Any] = {name: hostile_text(rng)[:40] for name in names}
    return dataclasses.replace(plain, **hostile)
