"""Probe: distil a slow explainer into a small network on the explained model's own hidden states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from didact.protocols import HIDDEN
from didact.trained.presets.base import ExplainerPreset, PresetCard, TrainingInput, default_reference, register

if TYPE_CHECKING:
    from didact.trained.explainer import LearnedExplainer


@register(
    PresetCard(
        name="probe",
        family="distillation",
        summary="A small network on the model's hidden states learns a slow explainer's scores, of texts or of images.",
        reference="Situ et al. 2021 (distilled explanations); Alain and Bengio 2017 (probes)",
        shape="probe",
        signals=("regression", "ranking", "labelling"),
        learns=("kernel_shap", {"evaluations": 256}),
        needs=frozenset({HIDDEN}),
        examples=(
            "didact train probe --model ./my-vit --data pictures/ --reference kernel_shap --out runs/probe",
            "didact train probe --data reviews.jsonl --signal ranking --out runs/probe",
        ),
    )
)
@dataclass(frozen=True, kw_only=True)
class ProbePreset(ExplainerPreset):
    """Distil a slow explainer of a model into a network that reads the model's hidden states.

    What is read needs no vocabulary: words, tokens and patches of images are learned in the same way. An explanation
    costs one more pass of the explained model.

    Args:
        signal: the loss, what the network learns of the reference's scores: "regression", "ranking" or "labelling".
        signal_settings: further settings of the loss.
        layers: the model's layers whose states are read; -1 is the last.
        width: of the hidden layer.
        dropout: share of numbers set to 0 in training.
        epochs: most epochs.
        learning_rate: the largest one of the schedule.
        seed: decides the split, the first weights and the training.
        fit: further settings of the training, such as batch_rows=64 or precision=bf16.
        chunk: examples of a stored part.
    """

    signal: str = "regression"
    signal_settings: Mapping[str, object] = field(default_factory=dict)
    layers: tuple[int, ...] = (0, -1)
    width: int = 128
    dropout: float = 0.0
    epochs: int = 20
    learning_rate: float = 1e-3
    seed: int = 0
    fit: Mapping[str, object] = field(default_factory=dict)
    chunk: int = 32

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))

    def train(self, given: TrainingInput) -> LearnedExplainer:
        """Collect labels, train, and measure how well the reference is followed."""
        from didact.trained.distillation import Distillation, distil
        from didact.trained.fit_types import FitConfig

        own = {"epochs": self.epochs, "learning_rate": self.learning_rate, "seed": self.seed}
        recipe = Distillation(
            method=self.card.name,
            shape=self.card.shape,
            shape_settings={name: getattr(self, name) for name in ("layers", "width", "dropout")},
            signal=self.signal,
            signal_settings=self.signal_settings,
            training=FitConfig.configured(**own | dict(self.fit)),
            default=partial(default_reference, self.card),
            chunk=self.chunk,
            seed=self.seed,
        )
        return distil(given, recipe)
