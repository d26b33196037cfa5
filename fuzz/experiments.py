"""Calls that run something whole: evaluate, simulate, train; small enough to end within seconds."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import didact
from didact.attribution.base import ATTRIBUTIONS
from didact.data.corpus import generate
from didact.metrics.base import METRICS
from didact.students.base import CHANNELS, STUDENTS
from didact.testing.tiny import TEXTS
from fuzz import models
from fuzz.cases import Attempt, show
from fuzz.hostile import anything, chance, hostile_text, mostly, number, text
from fuzz.invariants import promise
from fuzz.workshop import Workshop

QUICK = ("occlusion", "gradient_x_input", "random", "attention", "gradient_norm", "trivial")


SETTINGS: dict[str, tuple[object, ...]] = {
    "width": (6, 0, -4),
    "epochs": (0, 2),
    "dropout": (0.1, 2.0, float("nan")),
    "signal": ("labelling", "regression", "x"),
    "learning_rate": (0, -1, 1e30, float("nan")),
    "seed": (1, -1, "a"),
    "fit": ({"batch_rows": 2}, {"x": 1}, 3),
    "chunk": (1, 0),
}
"""Of the preset l2e, right and wrong."""


def texts(rng: Random, least: int) -> Any:
    """A few texts, perhaps a strange one among them."""
    usual: list[object] = [example.text for example in generate(least + rng.randint(0, 4), seed=rng.randint(0, 9))]
    if chance(rng, 0.3):
        usual[rng.randrange(len(usual))] = rng.choice(
            (text(rng), anything(rng), {"text": text(rng), "label": number(rng)})
        )
    return mostly(rng, usual, 0.9, lambda r: r.choice((list(TEXTS), [], anything(r), "corpus_", "no-such.csv")))


def place(rng: Random) -> Any:
    """A folder for the run inside of the working directory; strange names, a file that is in the way."""
    return mostly(
        rng,
        "out",
        0.8,
        lambda r: r.choice(("in-the-way", "deep/er/out", hostile_text(r).strip("/.~") or "x", "a" * 300)),
    )


def evaluate(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.evaluate`` on a handful of texts."""
    data, out = texts(rng, 3), place(rng)
    model = models.function() if chance(rng, 0.6) else models.network(rng.choice(models.ARCHITECTURES))
    methods: Any = mostly(
        rng, rng.sample(QUICK, rng.randint(0, 2)), 0.9, lambda r: [r.choice([*ATTRIBUTIONS.names(), hostile_text(r)])]
    )
    metrics: Any = mostly(rng, rng.sample(METRICS.names(), rng.randint(0, 2)), 0.9)
    options: dict[str, Any] = {}
    for key, usual in (("limit", 3), ("seeds", (0,)), ("split", None)):
        if chance(rng, 0.3):
            options[key] = mostly(rng, usual, 0.4)

    def call() -> None:
        with workshop.folder() as folder:
            (folder / "in-the-way").write_text("a file", encoding="utf-8")
            result = didact.evaluate(data, model, methods, metrics, out=out, progress=False, **options)
            promise(bool(result.answers) and bool(str(result)), "a report without words: evaluate")
            promise((result.folder / "report.html").is_file(), "no page was written: evaluate")

    return Attempt("evaluate", show("evaluate", data, model.name, methods, metrics, out=out, **options), call)


def simulate(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.simulate`` with ridge students."""
    data, out = texts(rng, 24), place(rng)
    students: Any = mostly(
        rng,
        ["ridge"],
        0.8,
        lambda r: r.choice(([r.choice(STUDENTS.names())], [{"student": "ridge", "x": 1}], anything(r))),
    )
    students = ["ridge"] if students is None or (isinstance(students, list) and not students) else students
    options: dict[str, Any] = {"sizes": [8], "subsets": 2, "controls": chance(rng, 0.3)}
    for key, usual in (
        ("share", 0.2),
        ("seed", 1),
        ("precision", None),
        ("sizes", [6]),
        ("channels", [rng.choice(CHANNELS.names())]),
    ):
        if chance(rng, 0.25):
            options[key] = mostly(rng, usual, 0.5, number)
    if isinstance(students, list) and students and not isinstance(students[0], np.ndarray) and students[0] != "ridge":
        students = [{"student": students[0], "epochs": 1}] if isinstance(students[0], str) else students

    def call() -> None:
        with workshop.folder() as folder:
            (folder / "in-the-way").write_text("a file", encoding="utf-8")
            result = didact.simulate(
                data, models.function(), ["occlusion"], students, out=out, progress=False, **options
            )
            promise(bool(result.answers) and bool(str(result)), "a report without words: simulate")

    return Attempt("simulate", show("simulate", data, students, out=out, **options), call)


def train(rng: Random, workshop: Workshop) -> Attempt:
    """``didact.train`` of a very small network, which is saved, loaded and explains as before."""
    data, out = texts(rng, 9), place(rng)
    settings: dict[str, Any] = {"width": 8, "blocks": 1, "epochs": 1, "min_count": 1}
    for key, values in SETTINGS.items():
        if chance(rng, 0.12):
            settings[key] = mostly(rng, rng.choice(values), 0.8)
    preset: Any = mostly(rng, "l2e", 0.95)
    reference: Any = mostly(
        rng, "occlusion", 0.9, lambda r: r.choice((["occlusion", "random"], hostile_text(r), anything(r), []))
    )
    model = models.function() if chance(rng, 0.7) else models.network("bert")

    def call() -> None:
        with workshop.folder() as folder:
            (folder / "in-the-way").write_text("a file", encoding="utf-8")
            made = didact.train(preset, data, model, reference, out=out, progress=False, **settings)
            again = type(made).from_pretrained(folder / out, device="cpu")
            first, second = (each.explain(model, [TEXTS[0]])[0].scores for each in (made, again))
            promise(first == second, "a saved explainer differs: train")

    return Attempt("train", show("train", preset, data, reference, out=out, **settings), call)
