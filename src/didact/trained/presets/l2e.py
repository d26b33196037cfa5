"""L2E: distil a slow explainer into a small network that explains in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from didact.errors import ParameterError
from didact.trained.presets.base import ExplainerPreset, PresetCard, TrainingInput, default_reference, register
from didact.trained.shapes._scorer_config import Positions, Reading

if TYPE_CHECKING:
    from didact.trained.explainer import LearnedExplainer


@register(
    PresetCard(
        name="l2e",
        family="distillation",
        summary="A small network learns a slow explainer's scores and gives them in one pass.",
        reference="Situ et al. 2021, Learning to Explain: Generating Stable Explanations Fast",
        shape="scorer",
        signals=("ranking", "labelling", "regression"),
        learns=("lime", {"samples": 100}),  # labels of few samples are noisy, but the noise averages out over texts
        examples=(
            "didact train l2e",
            "didact train l2e --model ./my-model --data reviews.jsonl --reference lime --out runs/my-explainer",
            "didact train l2e --data sst2 --limit 2000 --reference kernel_shap --set evaluations=200 "
            "--signal labelling",
            "didact train l2e --labels labels.jsonl --out runs/from-labels",
            'didact explain "A warm, funny and wonderful film." --explainer runs/l2e --fallback lime',
        ),
    )
)
@dataclass(frozen=True, kw_only=True)
class L2E(ExplainerPreset):
    """Distil a slow explainer of a model into a network that explains in one pass.

    The texts are split by the seed; the reference explains all of them; the network learns from the training texts, the
    best epoch is chosen by the validation texts, and how well it follows its reference is measured on the held-out
    ones.

    Args:
        signal: what the network learns of the reference's scores: "ranking", "labelling" or "regression".
        signal_settings: further settings of the signal.
        width: width of the network; a multiple of 4.
        blocks: number of transformer blocks.
        dropout: share of numbers set to 0 in training.
        positions: "none" as published, "sinusoidal" or "learned".
        reading: what the network reads: "words" of a vocabulary, or "tokens" of the explained model.
        embeddings: of what is read: "own", random at first and trained, or, of tokens, "kept": the explained model's,
            which represent rare words too; a matrix that turns them to the width is learned.
        window: how many words each word attends to on either side; all when not given.
        min_count: rarer words count as unknown.
        epochs: most epochs.
        choose: the epoch that is kept has the lowest "loss" on the validation texts, or the highest "top_weight", the
            reference's weight on the units that the network ranks highest.
        learning_rate: the largest one of the schedule.
        initialisations: train so many times and keep the best.
        seed: decides the split, the first weights and the training.
        fit: further settings of the training, such as batch_rows=64 or precision=bf16.
        combine: several references count as their "average", or are kept "apart": the network learns which one it
            follows, and explains as the first.
        fresh: draw new labels in every epoch, with the reference's seed + epoch; for noisy references.
        chunk: texts of a stored part.
    """

    signal: str = "ranking"
    signal_settings: Mapping[str, object] = field(default_factory=dict)
    width: int = 128
    blocks: int = 4
    dropout: float = 0.0
    positions: Positions = "none"
    reading: Reading = "words"
    embeddings: Literal["own", "kept"] = "own"
    window: int | None = None
    min_count: int = 2
    epochs: int = 10
    choose: Literal["loss", "top_weight"] = "loss"
    learning_rate: float = 5e-4
    initialisations: int = 1
    seed: int = 0
    fit: Mapping[str, object] = field(default_factory=dict)
    combine: Literal["average", "apart"] = "average"
    fresh: bool = False
    chunk: int = 32

    def __post_init__(self) -> None:
        for name, allowed in (
            ("combine", ("average", "apart")),
            ("choose", ("loss", "top_weight")),
            ("embeddings", ("own", "kept")),
        ):
            if getattr(self, name) not in allowed:
                raise ParameterError(
                    f"{name} of l2e must be {allowed[0]!r} or {allowed[1]!r}, got {getattr(self, name)!r}"
                )
        if self.chunk < 1:
            raise ParameterError(f"chunk of l2e must be at least 1, got {self.chunk!r}")
        if self.embeddings == "kept" and self.reading != "tokens":
            raise ParameterError("embeddings='kept' are those of the explained model's tokens; use reading='tokens'")

    def train(self, given: TrainingInput) -> LearnedExplainer:
        """Collect labels, train, and measure how well the reference is followed."""
        from didact.trained.distillation import Distillation, distil
        from didact.trained.fit_types import FitConfig

        own = {"epochs": self.epochs, "learning_rate": self.learning_rate, "initialisations": self.initialisations}
        recipe = Distillation(
            method=self.card.name,
            shape=self.card.shape,
            shape_settings={
                name: getattr(self, name)
                for name in ("width", "blocks", "dropout", "positions", "reading", "window", "embeddings", "min_count")
            },
            signal=self.signal,
            signal_settings=self.signal_settings,
            training=FitConfig.configured(**own | {"seed": self.seed} | dict(self.fit)),
            default=partial(default_reference, self.card),
            choose=self.choose,
            apart=self.combine == "apart",
            fresh=self.fresh,
            chunk=self.chunk,
            seed=self.seed,
        )
        return distil(given, recipe)
