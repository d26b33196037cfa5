"""One door to all presets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from didact import disk
from didact.data.dataset import Dataset
from didact.errors import CapabilityError, ParameterError
from didact.locks import locked
from didact.protocols import ExampleLike, Model
from didact.provenance import display_name
from didact.store.parts import Parts
from didact.trained.held_out import warn
from didact.trained.presets.base import PRESETS, Reference, Texts, TrainingInput

if TYPE_CHECKING:
    from didact.trained.explainer import LearnedExplainer
    from didact.trained.judging import Judge


def train(  # noqa: PLR0913 - one call, and every argument but the first three has a default
    preset: str,
    model: Model,
    examples: Texts,
    /,
    reference: Reference = None,
    *,
    validation: Sequence[ExampleLike] | float = 0.15,
    held_out: Sequence[ExampleLike] | float = 0.15,
    folder: Path | str | None = None,
    parts: Parts | None = None,
    data: str = "",
    judge: Judge | None = None,
    panel: Sequence[Judge] = (),
    **settings: object,
) -> LearnedExplainer:
    """Train an explainer of a model.

    ``verdict`` of the result says whether it follows its reference on held-out texts; where it is no better than
    chance, a warning says so now, when it is loaded, and on each of its explanations.

    Args:
        preset: a registered name, such as "l2e".
        model: the explained model.
        examples: texts or pairs, or explanations of them that exist already (see ``didact.scale.label_files``): then no
            reference is run.
        reference: for presets that learn another explainer's scores: a registered method, an explainer, or several of
            these; the preset's own choice when not given.
        validation: texts that epochs are compared by, or the share of the examples that is taken for it.
        held_out: texts that the result is measured on, or the share of the examples.
        folder: where labels and checkpoints are stored: a killed call resumes there when it is made again.
        parts: where labels are stored, if trainings are to share them; inside ``folder`` when not given.
        data: what the texts are, for the explainer's card.
        judge: for presets that are trained for a metric: the epoch that it rates best on the validation texts is kept.
        panel: for presets that learn another explainer's scores: metrics by which epochs are compared, and by which the
            result is held against the reference and against random scores on held-out texts.
        **settings: of the preset.

    Example:
        >>> explainer = train("l2e", model, texts, "lime", epochs=20)  # doctest: +SKIP
        >>> explainer.save_pretrained("my-explainer")  # doctest: +SKIP
    """
    card = PRESETS.card(preset)
    chosen = PRESETS.get(preset).configured(**settings)
    if reference is not None and card.learns is None:
        raise ParameterError(f"{preset} learns from no other explainer; leave out the reference")
    if judge is not None and not card.tunable:
        others = [other.name for other in PRESETS.cards() if other.tunable]
        raise ParameterError(f"{preset} is not trained for a metric, only {', '.join(others)}; leave out the metric")
    missing = card.needs - model.capabilities
    if missing:
        raise CapabilityError(
            f"{preset} needs a model that is {' and '.join(sorted(missing))}, which {model.name} is not"
        )
    place = None if folder is None else Path(folder)
    given = TrainingInput(
        model=model,
        examples=examples,
        reference=reference,
        validation=validation,
        held_out=held_out,
        folder=place,
        parts=parts,
        data=data,
        judge=judge,
        panel=panel,
    )
    with _held(place):
        explainer = chosen.train(given)
    warn(explainer.about, f"the explainer that {preset} trained")
    return explainer


def _held(folder: Path | None) -> AbstractContextManager[None]:
    """The folder for this training alone; of the processes of one training the first holds it."""
    if folder is None or os.environ.get("RANK", "0") != "0":
        return nullcontext()
    disk.check_writable(folder / "config.json")
    return locked(folder, "choose another folder")


def described(data: Dataset) -> str:
    """What the texts are, for the explainer's card."""
    return f"{display_name(data.name)} ({data.split}), {len(data)} texts, hash {data.fingerprint}"
