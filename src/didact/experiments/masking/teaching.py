"""Closed-form simulability: what explanations add to ridge regressions that learn to imitate the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from didact.errors import InputError
from didact.experiments.engine.toml import Options
from didact.experiments.masking.recipe import RANDOM
from didact.protocols import Model
from didact.simulation.execution import simulate
from didact.simulation.gains import SimulabilityGains, compute_gains
from didact.simulation.hints import HintFormat
from didact.simulation.simulability import Plan, SimulabilityData, WeightedChannel, teacher_answers
from didact.students.base import CHANNELS, STUDENTS
from didact.types import Example, Explanation

STUDENT, CHANNEL = "ridge", "prior"


def teach(
    model: Model, explained: Mapping[str, Sequence[Explanation]], test: Sequence[Example], options: Options
) -> SimulabilityGains:
    """Gains of students over those without hints.

    Args:
        model: the teacher.
        explained: explainer -> explanations of the same texts, which students learn from.
        test: other texts, on which students are compared with the model.
        options: ``sizes``, ``subsets``, ``share`` and ``seed`` of ``TeachingTable``.
    """
    hints = HintFormat(share=options.get("share", 0.1))
    pool = teacher_answers(model, [one.example for one in next(iter(explained.values()))])
    sizes = tuple(options.get("sizes", (100,)))
    if max(sizes) > len(pool):
        raise InputError(f"students cannot learn from {max(sizes)} of {len(pool)} test texts; give smaller sizes")
    labels = model.labels
    answers = teacher_answers(model, test)
    kind = model.predict(list(test[:1]))[0].kind
    data = SimulabilityData(
        pool,
        answers,
        {label: hints.hints(some) for label, some in explained.items()},
        frozenset({RANDOM}),
        kind,
        len(labels) if kind == "class" else 1,
    )
    plan = Plan(sizes, options.get("subsets", 10), seed=options.get("seed", 0))
    channels = {CHANNEL: WeightedChannel(CHANNELS.get(CHANNEL).configured())}
    return compute_gains(simulate(data, {STUDENT: STUDENTS.get(STUDENT).configured()}, channels, plan))
