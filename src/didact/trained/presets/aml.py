"""AML: learn which words a prediction rests on, by masking them in the frozen model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from didact.protocols import DIFFERENTIABLE
from didact.trained.presets.base import ExplainerPreset, PresetCard, TrainingInput, register
from didact.types import Level

if TYPE_CHECKING:
    from didact.trained.explainer import LearnedExplainer
    from didact.trained.judging import Judge


@register(
    PresetCard(
        name="aml",
        family="masking",
        summary="A pretrained encoder learns which words keep a prediction when shown, and change it when masked.",
        reference="Barkan et al. 2024, LLM Explainability via Attributive Masking Learning",
        shape="encoder",
        signals=("mask",),
        needs=frozenset({DIFFERENTIABLE}),
        tunable=("preserve", "sparse", "destroy"),
        examples=(
            "didact train aml --model ./my-model --data reviews.jsonl --out runs/aml",
            "didact train aml --data sst2 --limit 1000 --preserve 0.4 --sparse 0.2 --destroy 0.9",
            "didact train aml --data sst2 --limit 1000 --metric comprehensiveness --trials 30 --out runs/aml",
            'didact explain "A warm, funny and wonderful film." --explainer runs/aml',
        ),
    )
)
@dataclass(frozen=True, kw_only=True)
class AML(ExplainerPreset):
    """Train an encoder to mark the words that a model's predictions rest on.

    Nothing is imitated: the marked words are shown to the frozen model, which should predict the same, and removed
    from the text, after which it should not. The epoch that is kept has the lowest loss on the validation texts, or,
    where a metric is given, the best value of it; on the held-out texts the marked words are compared with random ones.

    Args:
        preserve: weight of keeping the prediction when only the marked words are shown.
        sparse: weight of marking few words.
        destroy: weight of losing the prediction when the marked words are removed.
        penalty: the sparsity penalty on marked words: "bce" or "l1".
        masking: how words are masked: "soft", "hard", "top", "learned", "replace" or "omit".
        shares: fractions of the words that masking "top" marks; when not given, those of the metric, or 0.2.
        backbone: the encoder: a directory or Hub id, or "explained" for a copy of the explained model's own.
        dropout: dropout rate.
        merge: how the scores of several encoder tokens are pooled into one unit: "max" or "mean".
        level: what is scored: "word", "token", "patch"; the model's first level when not given.
        epochs: maximum number of epochs.
        learning_rate: peak of the schedule.
        seed: of the split, the initial weights and the training.
        fit: further settings of the training, such as batch_rows=64 or precision=bf16.
    """

    preserve: float = 1.0
    sparse: float = 1.0
    destroy: float = 1.0
    penalty: Literal["bce", "l1"] = "bce"
    masking: Literal["soft", "hard", "top", "learned", "replace", "omit"] = "soft"
    shares: tuple[float, ...] = ()
    backbone: str = "explained"
    dropout: float = 0.1
    merge: Literal["max", "mean"] = "max"
    level: Level | None = None
    epochs: int = 10
    learning_rate: float = 4e-5
    seed: int = 0
    fit: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", tuple(self.shares))

    def train(self, given: TrainingInput) -> LearnedExplainer:
        """Train, and compare the marked words of held-out texts with random ones."""
        from didact.trained.fit_types import FitConfig
        from didact.trained.learning import DirectTraining
        from didact.trained.masking import learn_masks

        # As published: AdamW, batches of 20, a linear schedule without warm-up, all epochs, three checks in each.
        published = {
            "checks": 3,
            "batch_rows": 20,
            "batch_tokens": 20 * 512,
            "warmup": 0.0,
            "patience": None,
            "clip": None,
        }
        own = {"epochs": self.epochs, "learning_rate": self.learning_rate, "seed": self.seed}
        recipe = DirectTraining(
            method=self.card.name,
            shape=self.card.shape,
            shape_settings={name: getattr(self, name) for name in ("backbone", "dropout", "merge")},
            signal=self.card.signals[0],
            signal_settings=self._signal(given.judge),
            training=FitConfig.configured(**published | own | dict(self.fit)),
            level=self.level,
            seed=self.seed,
        )
        return learn_masks(given, recipe)

    def _signal(self, judge: Judge | None) -> dict[str, object]:
        """Settings of the signal; marks are as large as those of the metric, where they have a size."""
        names = ("preserve", "sparse", "destroy", "penalty", "masking")
        shares = self.shares or (() if judge is None else judge.shares)
        return {name: getattr(self, name) for name in names} | ({"shares": shares} if shares else {})
