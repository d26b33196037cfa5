"""A small teacher, students that train within a second, and texts, for tests of what explanations teach."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from didact.simulation.simulability import WeightedChannel
from didact.students.base import CHANNELS, STUDENTS, Hint
from didact.testing.learned import case_model, case_texts
from didact.trained.scaffolding.teaching import FreshStudents, HintsOf, TeachingTexts
from didact.types import Floats, Units

QUICK = {"embedding": 8, "hidden": 8, "epochs": 4, "batch_size": 8, "learning_rate": 0.02, "min_count": 1}
GOOD, BAD = {"wonderful", "warm", "good"}, {"dull", "worse", "avoid"}


@functools.cache
def texts(case: str = "bert") -> TeachingTexts:
    """Forty texts to learn from, twenty to be tested on."""
    examples, _ = case_texts("black_box")
    model = case_model(case)
    return TeachingTexts.of(model, model.units(examples[:40]), examples[40:60])


def fresh(**settings: object) -> FreshStudents:
    """Small LSTMs with attention that learn from twenty texts."""
    student = STUDENTS.get("bilstm_attention").configured(**QUICK)
    channel = WeightedChannel(CHANNELS.get("attention").configured(), 5.0)
    return FreshStudents(student=student, channel=channel, **{"examples": 20, **settings})  # type: ignore[arg-type]


def pointing(units: Sequence[Units], *, right: bool) -> HintsOf:
    """Hints at the words that decide, or at all others."""

    def weights(own: Units) -> Floats:
        decisive = np.array([text in GOOD | BAD for text in own.texts], dtype=float)
        marked = decisive if right else 1 - decisive
        return marked / max(marked.sum(), 1.0)

    return lambda places: [Hint(units[place].spans, weights(units[place])) for place in places]
