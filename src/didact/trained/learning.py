"""What every training of an explainer does, whatever it learns from: check, split, fit, and describe the result."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from didact.errors import CapabilityError
from didact.models.network import NetworkModel
from didact.protocols import Model
from didact.trained.explainer import LearnedExplainer
from didact.trained.fit import Monitor, fit
from didact.trained.fit_types import FitConfig, Fitted
from didact.trained.metadata import ExplainerMetadata
from didact.trained.presets.base import TrainingInput
from didact.trained.samples import TrainingSamples
from didact.trained.shapes.base import SHAPES, Shape, check_shape
from didact.trained.signals.base import REFERENCE, SIGNALS, Signal, SignalTask
from didact.trained.split import TextSplit, split_texts
from didact.types import Example, Explanation, JsonValue, Level, Units


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe:
    """What is trained, and how.

    Args:
        method: the preset, which explanations are named after.
        shape: a registered name.
        shape_settings: of the shape, without seed and number of references.
        signal: a registered name.
        signal_settings: of the signal.
        training: settings of ``fit``.
        seed: decides the split and the first weights.
    """

    method: str
    shape: str
    shape_settings: Mapping[str, object]
    signal: str
    signal_settings: Mapping[str, object]
    training: FitConfig
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class DirectTraining(TrainingRecipe):
    """What is trained from the model itself, without a reference, and how.

    Args:
        level: of the units; the model's first when not given.
    """

    level: Level | None = None


def start(given: TrainingInput, recipe: TrainingRecipe) -> TextSplit:
    """Refuse a model that offers too little for shape or signal, and texts that the shape cannot read; split them."""
    check_shape(SHAPES.card(recipe.shape), given.model)
    _check_signal(recipe.signal, given.model)
    split = split_texts(given.examples, given.validation, given.held_out, seed=recipe.seed, owner=recipe.method)
    SHAPES.get(recipe.shape).check_examples(split.train)
    return split


@dataclass(frozen=True, eq=False)
class Trainee:
    """What is about to be trained.

    Attributes:
        model: the explained model.
        shape: untrained.
        signal: with its settings.
        samples: what the signal prepared.
        about: what is known of the explainer before training.
    """

    model: Model
    shape: Shape
    signal: Signal
    samples: TrainingSamples
    about: Mapping[str, object]

    def trained(
        self, recipe: TrainingRecipe, given: TrainingInput, monitor: Monitor | None = None
    ) -> tuple[LearnedExplainer, Fitted]:
        """The explainer after training, not measured yet."""
        folder = None if given.folder is None else given.folder / "fit"
        fitted = fit(self.shape, self.signal, self.samples, recipe.training, monitor=monitor, folder=folder)
        facts = {**self.about, "method": recipe.method, "data": given.data, "data_hash": fitted.data_hash}
        about = ExplainerMetadata.of(self.model, **facts)
        device = self.model.network.device if isinstance(self.model, NetworkModel) else "cpu"
        return LearnedExplainer(fitted.shape.cpu().finished().to(device), self.signal, about), fitted


def direct_shape(model: Model, units: Sequence[Units], recipe: DirectTraining) -> tuple[Signal, Shape]:
    """The signal and an untrained shape for it."""
    signal = SIGNALS.get(recipe.signal).configured(**recipe.signal_settings)
    settings = {"seed": recipe.seed, **recipe.shape_settings}
    return signal, SHAPES.get(recipe.shape).build(model, units, signal.outputs, settings)


def direct_trainee(given: TrainingInput, recipe: DirectTraining, split: TextSplit) -> Trainee:
    """An untrained shape, and what its signal prepared from the model and the texts."""
    model = given.model
    level = recipe.level or model.levels[0]
    signal, shape = direct_shape(model, model.units(split.train, level), recipe)
    samples = signal.prepare(SignalTask(model, split.train, split.validation, level=level), shape)
    marks = {**samples.marks, "judge": "" if given.judge is None else given.judge.name}
    return Trainee(model, shape, signal.fitted(samples), dataclasses.replace(samples, marks=marks), {"level": level})


def chosen_by(fitted: Fitted, measure: str = "loss") -> dict[str, float]:
    """The value by which the epoch was chosen, by a readable name; empty where epochs were not compared."""
    value = fitted.run.best.value
    return {} if value is None else {f"{measure} on validation texts, by which the epoch was chosen": value}


def timed(
    explainer: LearnedExplainer, model: Model, texts: list[Example]
) -> tuple[list[Explanation], dict[str, float]]:
    """Explanations of texts and what one takes, by name with its unit; nothing where there are no texts."""
    if not texts:
        return [], {}
    began = time.perf_counter()
    explained = explainer.explain(model, texts)
    return explained, {"milliseconds per text": round(1000 * (time.perf_counter() - began) / len(texts), 3)}


def training_cost(split: TextSplit, fitted: Fitted | None, **further: JsonValue) -> dict[str, JsonValue]:
    """What a training took, by name with its unit; ``further`` facts, with underscores for blanks, before the last.

    Args:
        split: the texts.
        fitted: the training; None where nothing was fitted.
        **further: other facts.
    """
    taken = (
        {} if fitted is None else {"epochs": fitted.history[-1].number, "seconds to train": round(fitted.seconds, 3)}
    )
    return {
        "training texts": len(split.train),
        "validation texts": len(split.validation),
        "held-out texts": len(split.held_out),
        **{name.replace("_", " "): value for name, value in further.items()},
        **taken,
    }


def _check_signal(name: str, model: Model) -> None:
    missing = SIGNALS.card(name).needs - model.capabilities - {REFERENCE}
    if missing:
        raise CapabilityError(
            f"{name} needs a model that is {' and '.join(sorted(missing))}, which {model.name} is not"
        )
