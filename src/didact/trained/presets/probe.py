"""Probe: a light head on the explained model's own hidden states, so that the explanation comes with the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from didact.errors import ParameterError
from didact.protocols import HIDDEN, Model
from didact.trained.presets.base import ExplainerPreset, PresetCard, TrainingInput, default_references, register

if TYPE_CHECKING:
    from didact.trained.explainer import LearnedExplainer

READ = 4
"""Layers that are read when none are named."""

OWN = ("pairs", "rounds", "classes", "complete", "absence")
"""Settings of the signals that learn from coalitions, which are those of the family "ablation"."""


@register(
    PresetCard(
        name="probe",
        family="ablation",
        summary="A light head on the model's hidden states gives Shapley values of all classes with the prediction.",
        reference="Jethani et al. 2022 (FastSHAP); Covert et al. 2024 (noisy labels); Alain and Bengio 2017 (probes)",
        shape="probe",
        signals=("ablate", "erasure", "contrast", "regression", "ranking", "labelling", "combined"),
        learns=("kernel_shap", {"evaluations": 256}),
        needs=frozenset({HIDDEN}),
        examples=(
            "didact train probe --data reviews.jsonl --out runs/probe",
            "didact train probe --data sst2 --limit 5000 --pairs 4 --rounds 5 --out runs/probe",
            "didact train probe --data sst2 --signal erasure --rank 128 --width 512 --out runs/probe",
            "didact train probe --model ./my-vit --data pictures/ --reference kernel_shap --out runs/probe",
        ),
    )
)
@dataclass(frozen=True, kw_only=True)
class ProbePreset(ExplainerPreset):
    """Train a light head on the hidden states of a model, which are computed for the prediction anyway.

    It learns Shapley values from few random coalitions of the units of each text, without another explainer, and is
    compared with KernelSHAP on some held-out texts; or it learns the scores of a reference, where one is given. What is
    read needs no vocabulary: words, tokens and patches of images are learned in the same way.

    Args:
        signal: the loss: "ablate", which learns Shapley values from coalitions that the model is evaluated on;
            "erasure", which in the second half of the epochs improves the order of the units by what the model does
            without the first ones and on these alone; "contrast", which evaluates the model without a few sets of
            first units once, for few evaluations in all; or, of a reference's scores, "regression", "ranking",
            "labelling" or "combined". If not given, "ablate", or "regression" where a reference or labels are given. A
            reference beside the first three is what the result is compared with.
        signal_settings: further settings of the loss.
        pairs: pairs of complementary coalitions per text and round (8).
        rounds: epochs in which coalitions are drawn (4).
        classes: how many classes of a text are learned from coalitions (2): the predicted one and others in turn.
        complete: whether scores learned from coalitions add up to f(text) - f(text without its units); costs one more
            evaluation.
        absence: the perturbation, how a unit that a coalition lacks is replaced; the model's default when not given.
        layers: the model's layers whose hidden states are read, -1 the last; four evenly spread ones when not given.
        rank: dimension to which hidden states are first projected.
        width: size of the hidden layer.
        blocks: number of attention blocks over the units; width must then be a multiple of 4.
        dropout: dropout rate.
        epochs: maximum number of epochs.
        learning_rate: peak of the schedule.
        seed: of the split, the initial weights, the coalitions and the training.
        fit: further settings of the training, such as batch_rows=64 or precision=bf16.
        chunk: examples per stored part.
    """

    signal: str | None = None
    signal_settings: Mapping[str, object] = field(default_factory=dict)
    pairs: int | None = None
    rounds: int | None = None
    classes: int | None = None
    complete: bool | None = None
    absence: str | None = None
    layers: tuple[int, ...] | None = None
    rank: int = 64
    width: int = 256
    blocks: int = 0
    dropout: float = 0.1
    epochs: int = 20
    learning_rate: float = 1e-3
    seed: int = 0
    fit: Mapping[str, object] = field(default_factory=dict)
    chunk: int = 32

    def __post_init__(self) -> None:
        if self.layers is not None:
            object.__setattr__(self, "layers", tuple(self.layers))

    def train(self, given: TrainingInput) -> LearnedExplainer:
        """Train, and measure how well the reference is followed on texts that had no part in it."""
        from didact.trained.distillation import Distillation, distil
        from didact.trained.fit_types import FitConfig

        signal = self.signal or ("ablate" if given.reference is None and not given.explained else "regression")
        own = {"epochs": self.epochs, "learning_rate": self.learning_rate, "seed": self.seed, "patience": None}
        sizes = {name: getattr(self, name) for name in ("rank", "width", "blocks", "dropout")}
        training = FitConfig.configured(**own | dict(self.fit))
        recipe = Distillation(
            method=self.card.name,
            shape=self.card.shape,
            shape_settings={"layers": self.layers or spread_layers(given.model), "per_class": True, "norm": "position"}
            | sizes,
            signal=signal,
            signal_settings=self._signal_settings(signal, given.model, training.epochs),
            training=training,
            default=partial(default_references, self.card, given.model),
            chunk=self.chunk,
            seed=self.seed,
        )
        return distil(given, recipe)

    def _signal_settings(self, signal: str, model: Model, epochs: int) -> dict[str, object]:
        """Settings of the signal; those of coalitions are refused where there are none."""
        from didact.trained.signals.base import SIGNALS

        given = {name: getattr(self, name) for name in OWN if getattr(self, name) is not None}
        if signal in SIGNALS.names() and SIGNALS.card(signal).family == "ablation":
            several = {"classes": min(2, len(model.labels)), "seed": self.seed}
            ordered = hasattr(SIGNALS.get(signal), "warm")
            warm = {"warm": epochs // 2} if ordered else {}
            made: dict[str, object] = {**several, **warm, **given, **self.signal_settings}
            if ordered and isinstance(last := made["warm"], int) and last >= epochs:
                raise ParameterError(
                    f"warm of {signal} is {last} and there are {epochs} epochs, so that no order would be learned; "
                    "give a smaller warm, more epochs, or signal='ablate'"
                )
            return made
        if given:
            raise ParameterError(
                f"{', '.join(given)} of probe are settings of the signals 'ablate', 'erasure' and 'contrast', and the "
                f"signal is {signal!r}; leave them out, or give signal='ablate'"
            )
        return dict(self.signal_settings)


def spread_layers(model: Model) -> tuple[int, ...]:
    """Numbers of ``READ`` layers of a network, evenly spread, the last one among them; the last alone if unknown."""
    from didact.models.hidden import hidden_layers
    from didact.models.network import NetworkModel

    stack = hidden_layers(model.network) if isinstance(model, NetworkModel) else None
    depth = 1 if stack is None else len(stack)
    inner = sorted({round(depth * part / READ) - 1 for part in range(1, READ)} - {depth - 1, -1})
    return (*inner, -1)
