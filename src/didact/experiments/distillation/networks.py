"""One network of a study: trained on a reference's labels, with what is known of its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from didact.experiments.distillation.recipe import READINGS, DistillationRecipe
from didact.experiments.distillation.recipe import SIGNALS as NAMED_SIGNALS
from didact.experiments.engine.toml import Plain
from didact.experiments.masking.judges import panel
from didact.models.network import NetworkModel
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import by_metrics, top_weight
from didact.trained.fit import Monitor, fit
from didact.trained.fit_types import FitConfig
from didact.trained.held_out_panel import panel_value
from didact.trained.labels import from_explanations, joint_parameters
from didact.trained.metadata import ExplainerMetadata
from didact.trained.presets.l2e import SETTINGS
from didact.trained.samples import TrainingSamples
from didact.trained.shapes.base import SHAPES
from didact.trained.signals.base import SIGNALS, Signal, SignalTask
from didact.types import Explanation

VALIDATED = 200
"""Validation texts that the metrics of a panel are computed on after each epoch."""


@dataclass(frozen=True)
class Network:
    """Which network: what it imitates, what it reads, how it learns, and its initialisation."""

    reference: str
    reading: str
    signal: str
    seed: int


def train_network(
    recipe: DistillationRecipe,
    network: Network,
    model: NetworkModel,
    train: Sequence[Explanation],
    validation: Sequence[Explanation],
) -> tuple[LearnedExplainer, Plain]:
    """The trained explainer, and facts about its training."""
    own = recipe.settings(network.reference, network.reading, network.signal)
    train = train[: own["texts"]]
    kind, settings = NAMED_SIGNALS[network.signal]
    signal = SIGNALS.get(kind).suited(signed=train[0].signed, **settings)
    units = [explanation.units for explanation in train]
    shape = SHAPES.get(READINGS[network.reading]).build(model, units, signal.outputs, _shape_settings(recipe, network))
    examples, held_out = ([explanation.example for explanation in some] for some in (train, validation))
    labels = from_explanations([*train, *validation])
    samples = signal.prepare(SignalTask(model, examples, held_out, labels), shape)
    device = {"device": "cpu"} if model.network.device.type == "cpu" else {}
    training = FitConfig(**{**own["training"], **device, "seed": network.seed})
    fitted = fit(shape, signal, samples, training, monitor=_monitor(recipe, signal, samples, model, validation))
    entries = recipe.members(network.reference)
    about = ExplainerMetadata.of(
        model,
        reference="+".join(entry.name for entry in entries),
        reference_parameters=joint_parameters([(entry.name, cast("Plain", entry.settings)) for entry in entries]),
        data=recipe.name,
        data_hash=fitted.data_hash,
    )
    best = fitted.run.best
    facts = {
        "texts": len(train),
        "epochs": len(fitted.history),
        "best": best.number,
        "validation_loss": round(best.validation_loss or float("nan"), 4),
        "monitor": None if best.monitor is None else round(best.monitor, 4),
        "seconds": round(fitted.seconds, 2),
    }
    return LearnedExplainer(fitted.shape.finished().to(model.network.device), signal, about), facts


def _monitor(
    recipe: DistillationRecipe,
    signal: Signal,
    samples: TrainingSamples,
    model: NetworkModel,
    validation: Sequence[Explanation],
) -> Monitor | None:
    """What epochs are compared by; None for the loss."""
    if recipe.choose == "top_weight":
        return top_weight(signal, samples.validation, validation)
    if recipe.choose == "loss":
        return None
    some = [explanation for explanation in validation if len(explanation.units)][:VALIDATED]
    value = panel_value(panel(), model, some)
    return None if value is None else by_metrics(signal, samples.validation[: len(some)], some, value)


def _shape_settings(recipe: DistillationRecipe, network: Network) -> Plain:
    """Of the untrained network; one that reads tokens may have the explained model's embeddings."""
    own = recipe.settings(network.reference, network.reading, network.signal)["network"]
    if READINGS[network.reading] != "scorer":
        return {**SETTINGS[READINGS[network.reading]], **own, "seed": network.seed}
    tokens = network.reading == "tokens"
    return {
        "positions": "sinusoidal" if tokens else "none",
        "embeddings": recipe.embeddings if tokens else "own",
        **own,
        "reading": network.reading,
        "seed": network.seed,
    }
