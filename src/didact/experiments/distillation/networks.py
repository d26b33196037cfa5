"""One network of a study: trained on a reference's labels, with what is known of its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from didact.experiments.distillation.recipe import SIGNALS as NAMED_SIGNALS
from didact.experiments.distillation.recipe import DistillationRecipe
from didact.experiments.engine.toml import Plain
from didact.models.network import NetworkModel
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import top_weight
from didact.trained.fit import fit
from didact.trained.fit_types import FitConfig
from didact.trained.labels import from_explanations
from didact.trained.metadata import ExplainerMetadata
from didact.trained.shapes.base import SHAPES
from didact.trained.signals.base import SIGNALS, SignalTask
from didact.types import Explanation


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
    scorer = SHAPES.get("scorer").build(model, units, signal.outputs, _shape_settings(recipe, network))
    examples, held_out = ([explanation.example for explanation in some] for some in (train, validation))
    labels = from_explanations([*train, *validation])
    samples = signal.prepare(SignalTask(model, examples, held_out, labels), scorer)
    device = {"device": "cpu"} if model.network.device.type == "cpu" else {}
    training = FitConfig(**{**own["training"], **device, "seed": network.seed})
    monitor = top_weight(signal, samples.validation, validation) if recipe.choose == "top_weight" else None
    fitted = fit(scorer, signal, samples, training, monitor=monitor)
    entry = recipe.reference(network.reference)
    about = ExplainerMetadata.of(
        model,
        reference=entry.name,
        reference_parameters=cast("Plain", dict(entry.settings)),
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


def _shape_settings(recipe: DistillationRecipe, network: Network) -> Plain:
    """Of the untrained network; one that reads tokens may have the explained model's embeddings."""
    tokens = network.reading == "tokens"
    return {
        "positions": "sinusoidal" if tokens else "none",
        "embeddings": recipe.embeddings if tokens else "own",
        **recipe.settings(network.reference, network.reading, network.signal)["network"],
        "reading": network.reading,
        "seed": network.seed,
    }
