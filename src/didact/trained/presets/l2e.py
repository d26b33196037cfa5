"""L2E: distil a slow explainer into a small network that explains in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from didact.errors import ParameterError
from didact.protocols import Model
from didact.trained.presets.base import ExplainerPreset, PresetCard, TrainingInput, default_references, register
from didact.trained.shapes._scorer_config import Positions, Reading

if TYPE_CHECKING:
    from didact.trained.explainer import LearnedExplainer

ShapeChoice = Literal["auto", "encoder", "scorer", "probe"]


@register(
    PresetCard(
        name="l2e",
        family="distillation",
        summary="A small network learns a slow explainer's scores and gives them in one pass.",
        reference="Situ et al. 2021, Learning to Explain: Generating Stable Explanations Fast",
        shape="scorer",
        signals=("combined", "labelling", "regression", "ranking"),
        learns=("lime", {"samples": 100}),  # labels of few samples are noisy, but the noise averages out over texts
        learns_if_short=("kernel_shap", {"evaluations": 64}),
        examples=(
            "didact train l2e",
            "didact train l2e --model ./my-model --data reviews.jsonl --reference lime --out runs/my-explainer",
            "didact train l2e --data sst2 --limit 2000 --reference kernel_shap --set evaluations=200 "
            "--signal labelling --shape scorer --width 64",
            "didact train l2e --data sst2 --reference lime,kernel_shap --set lime.samples=200 "
            "--set kernel_shap.evaluations=128",
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
    ones. When no reference is given, it learns LIME with 100 samples, and for short texts, of 32 units on average at
    most, the average of LIME and of KernelSHAP with 64 evaluations.

    Settings of a shape that are not given have the values that were best on validation texts; one that the shape does
    not have is refused.

    Args:
        signal: the loss: "combined" (class and size of each of the reference's scores), "labelling" (classes),
            "regression" (sizes) or "ranking" (order).
        signal_settings: further settings of the loss.
        shape: the network: "encoder", a copy of the explained model's own network; "scorer", a small transformer, which
            is faster and reads no more than a text; "probe", a small network on the explained model's hidden states;
            or "auto": an encoder where the explained model is a network that can be copied and no setting of a scorer
            is given, else a scorer.
        width: of a scorer or probe: size of a hidden state (128); a multiple of 4.
        blocks: of a scorer: number of transformer blocks (4).
        dropout: dropout rate (0.1; scorer 0.2).
        positions: of a scorer: position embeddings: "none" (as published; default for words), "sinusoidal" (default for
            tokens) or "learned".
        reading: of a scorer: its input: "tokens" of the explained model (default where it has a tokenizer), or "words"
            of its own vocabulary, as published.
        embeddings: of a scorer: "own", trained from random initialisation (default for words), or "kept", the explained
            model's frozen embeddings with a learned projection (default for tokens).
        window: of a scorer: attention window, in words on either side; all words when not given.
        min_count: of a scorer that reads words: minimum frequency in the vocabulary; rarer words are unknown (2).
        backbone: of an encoder: a directory or Hub id, or "explained" for a copy of the explained model's own.
        layers: of a probe: the model's layers whose hidden states are read; -1 is the last.
        epochs: maximum number of epochs.
        choose: which epoch is kept, by the validation texts: the best by the "panel" of five faithfulness metrics, the
            lowest "loss", or the highest "top_weight" (the reference's weight on the units ranked highest).
        learning_rate: peak of the schedule (encoder 2e-4, scorer and probe 1e-3).
        initialisations: number of restarts, of which the best is kept.
        seed: of the split, the initial weights and the training.
        fit: further settings of the training, such as batch_rows=64 or precision=bf16; an encoder's weights are a
            running mean by default (average=0.25).
        combine: with several references: learn their "average", or keep them "apart": a scorer is then conditioned on
            the reference, and explains as the first.
        fresh: draw new labels in every epoch, with the reference's seed + epoch; for noisy references.
        checks: evaluations of the model on a text for the checked estimate of disagreement (`didact explain --check`);
            more are more certain.
        check_beside: name of a quick method with whose scores this estimate compares those of the explainer as well,
            such as "deeplift"; none when not given. It helps where the reference is like that method.
        chunk: texts per stored part.
    """

    signal: str = "combined"
    signal_settings: Mapping[str, object] = field(default_factory=dict)
    shape: ShapeChoice = "auto"
    width: int | None = None
    blocks: int | None = None
    dropout: float | None = None
    positions: Positions | None = None
    reading: Reading | None = None
    embeddings: Literal["own", "kept"] | None = None
    window: int | None = None
    min_count: int | None = None
    backbone: str | None = None
    layers: tuple[int, ...] | None = None
    epochs: int = 10
    choose: Literal["panel", "loss", "top_weight"] = "panel"
    learning_rate: float | None = None
    initialisations: int = 1
    seed: int = 0
    fit: Mapping[str, object] = field(default_factory=dict)
    combine: Literal["average", "apart"] = "average"
    fresh: bool = False
    checks: int = 16
    check_beside: str | None = None
    chunk: int = 32

    def __post_init__(self) -> None:
        for name in ("shape", "combine", "choose", "embeddings"):
            self._check_choice(name)
        if self.layers is not None:
            object.__setattr__(self, "layers", tuple(self.layers))
        for name, least in (("chunk", 1), ("checks", 2)):
            if getattr(self, name) < least:
                raise ParameterError(f"{name} of l2e must be at least {least}, got {getattr(self, name)!r}")
        if self.embeddings == "kept" and self.reading == "words":
            raise ParameterError("embeddings='kept' are those of the explained model's tokens; use reading='tokens'")
        if self.shape != "auto":
            self._check_settings(self.shape)

    def train(self, given: TrainingInput) -> LearnedExplainer:
        """Collect labels, train, and measure how well the reference is followed."""
        from didact.trained.distillation import Distillation, distil
        from didact.trained.fit_types import FitConfig

        shape = self._shape_for(given.model)
        self._check_settings(shape)
        rate = RATES[shape] if self.learning_rate is None else self.learning_rate
        own = {"epochs": self.epochs, "learning_rate": rate, "initialisations": self.initialisations}
        own["average"] = AVERAGES[shape]
        recipe = Distillation(
            method=self.card.name,
            shape=shape,
            shape_settings=self._settings_for(shape, given.model),
            signal=self.signal,
            signal_settings=self.signal_settings,
            training=FitConfig.configured(**own | {"seed": self.seed} | dict(self.fit)),
            default=partial(default_references, self.card, given.model),
            choose=self.choose,
            apart=self.combine == "apart",
            fresh=self.fresh,
            checks=self.checks,
            beside=self.check_beside,
            chunk=self.chunk,
            seed=self.seed,
        )
        return distil(given, recipe)

    def _shape_for(self, model: Model) -> str:
        """The shape that is trained for a model."""
        if self.shape != "auto":
            return self.shape
        for shape in ("scorer", "probe"):  # a setting that no other shape has decides
            if any(getattr(self, name) is not None for name in SETTINGS[shape] if name not in SETTINGS["encoder"]):
                return shape
        from didact.trained.shapes._encoder_backbone import can_copy

        return "encoder" if self.combine == "average" and can_copy(model) else "scorer"

    def _settings_for(self, shape: str, model: Model) -> dict[str, object]:
        """Settings of the shape, given ones in place of its defaults."""
        given = {name: value for name in SETTINGS[shape] if (value := getattr(self, name)) is not None}
        if shape != "scorer":
            return {**SETTINGS[shape], **given}
        from didact.models.network import NetworkModel

        reading = given.get("reading", "tokens" if isinstance(model, NetworkModel) else "words")
        of_tokens = {"embeddings": "kept", "positions": "sinusoidal"} if reading == "tokens" else {"embeddings": "own"}
        return {**SETTINGS[shape], "reading": reading, **of_tokens, **given}

    def _check_choice(self, name: str) -> None:
        value, allowed = getattr(self, name), _CHOICES[name]
        if value is not None and value not in allowed:
            raise ParameterError(f"{name} of l2e must be {' or '.join(map(repr, allowed))}, got {value!r}")

    def _check_settings(self, shape: str) -> None:
        """Refuse settings that the shape does not have, which would change nothing without a word."""
        names = dict.fromkeys(name for own in SETTINGS.values() for name in own)
        wrong = next((name for name in names if name not in SETTINGS[shape] and getattr(self, name) is not None), None)
        if wrong is not None:
            owners = " or ".join(repr(other) for other, own in SETTINGS.items() if wrong in own)
            raise ParameterError(
                f"{wrong} of l2e is a setting of shape {owners}, and the shape is {shape!r}, which has "
                f"{', '.join(SETTINGS[shape])}; leave it out or choose another shape"
            )


SETTINGS: Mapping[str, Mapping[str, object]] = {
    "encoder": {"backbone": "explained", "dropout": 0.1},
    "scorer": {
        "width": 128,
        "blocks": 4,
        "dropout": 0.2,
        "positions": "none",
        "reading": None,
        "embeddings": None,
        "window": None,
        "min_count": 2,
    },
    "probe": {"width": 128, "layers": (0, -1), "dropout": 0.1},
}
"""Settings of each shape with their values where none are given; what is read depends on the explained model."""

RATES: Mapping[str, float] = {"encoder": 2e-4, "scorer": 1e-3, "probe": 1e-3}
"""Learning rate of each shape."""

AVERAGES: Mapping[str, float] = {"encoder": 0.25, "scorer": 0.0, "probe": 0.0}
"""Share of the training over which each shape's weights are averaged."""

_CHOICES = {
    "shape": get_args(ShapeChoice),
    "combine": ("average", "apart"),
    "choose": ("panel", "loss", "top_weight"),
    "embeddings": ("own", "kept"),
}
