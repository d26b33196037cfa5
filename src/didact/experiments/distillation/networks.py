"""One network of a study: trained on a reference's labels, with what is known of its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch

from didact.experiments.distillation.recipe import SIGNALS, DistillationRecipe
from didact.experiments.engine.toml import Plain
from didact.models.text import TextModel
from didact.trained import signals
from didact.trained.explainer import LearnedExplainer
from didact.trained.fidelity import top_weight
from didact.trained.fit import fit
from didact.trained.fit_types import FitConfig
from didact.trained.metadata import ExplainerMetadata
from didact.trained.shapes.scorer import Scorer, ScorerConfig
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
    model: TextModel,
    train: Sequence[Explanation],
    validation: Sequence[Explanation],
) -> tuple[LearnedExplainer, Plain]:
    """The trained explainer, and facts about its training."""
    own = recipe.settings(network.reference, network.reading, network.signal)
    train = train[: own["texts"]]
    kind, settings = SIGNALS[network.signal]
    task = signals.get(kind).suited(signed=train[0].signed, **settings)
    scorer = _scorer(recipe, network, model, train, task.outputs)
    samples, held_out = (
        list(zip(scorer.read_explained(some), map(task.targets, some), strict=True)) for some in (train, validation)
    )
    device = {"device": "cpu"} if model.hf.device.type == "cpu" else {}
    training = FitConfig(**{**own["training"], **device, "seed": network.seed})
    monitor = top_weight(task, held_out, validation) if recipe.choose == "top_weight" else None
    fitted = fit(scorer, task, samples, held_out, training, monitor=monitor)
    entry = recipe.reference(network.reference)
    about = ExplainerMetadata.of(
        model,
        teacher=entry.name,
        teacher_parameters=cast("Plain", dict(entry.settings)),
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
    learned = cast("Scorer", fitted.shape).folded()
    return LearnedExplainer(learned.to(model.hf.device), task, about), facts


def _scorer(
    recipe: DistillationRecipe, network: Network, model: TextModel, train: Sequence[Explanation], outputs: int
) -> Scorer:
    """The untrained network; one that reads tokens may have the explained model's embeddings."""
    inherited = network.reading == "tokens" and recipe.embeddings != "own"
    known = cast("torch.nn.Embedding", model.hf.get_input_embeddings()).weight.detach()
    config = ScorerConfig(
        **{
            "positions": "sinusoidal" if network.reading == "tokens" else "none",
            "table": known.shape[1] if inherited else None,
            **recipe.settings(network.reference, network.reading, network.signal)["network"],
            "labels": model.labels,
            "outputs": outputs,
            "reading": network.reading,
            "seed": network.seed,
        }
    )
    scorer = Scorer.for_texts([one.units for one in train], config, tokenizer=model.tokenizer)
    if inherited:
        scorer.inherit(known, keep=recipe.embeddings == "kept")
    return scorer
