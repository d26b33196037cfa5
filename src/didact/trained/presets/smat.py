"""SMaT: learn which of the model's attention heads explain it best to students that imitate it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from didact.errors import ParameterError
from didact.protocols import HEADS, Model
from didact.trained.presets.base import ExplainerPreset, PresetCard, TrainingInput, register
from didact.types import Estimate, Level

if TYPE_CHECKING:
    from didact.trained.explainer import LearnedExplainer
    from didact.trained.scaffolding.learning import TeachingTraining
    from didact.trained.scaffolding.search import HeadSearchConfig
    from didact.trained.scaffolding.teaching import FreshStudents

NONE = "none"
"""The value of ``search`` and ``meta`` that leaves them out."""

STORED = 30.0
"""Seconds between checkpoints of the meta training at least."""

STUDENTS_OWN = ("student_kind", "student", "channel", "channel_settings", "inner_rate", "batch")
"""Settings that fresh students and those of the training have in common."""


@register(
    PresetCard(
        name="smat",
        family="teaching",
        summary="A mix of the model's attention heads from which students learn fastest to predict as the model does.",
        reference="Fernandes et al. 2022, Learning to Scaffold: Optimizing Model Explanations for Teaching",
        shape="head_mix",
        signals=("scaffold",),
        needs=frozenset({HEADS}),
        examples=(
            "didact train smat --model ./my-model --data reviews.jsonl --student model=./my-encoder --out runs/smat",
            "didact train smat --data imdb --limit 3000 --search none --meta linear    # as published: no search",
            "didact train smat --data imdb --limit 3000 --meta look_ahead:64 --shape head_gate    # both",
            'didact explain "A warm, funny and wonderful film." --explainer runs/smat',
        ),
    )
)
@dataclass(frozen=True, kw_only=True)
class SMaT(ExplainerPreset):
    """Learn explanations by how fast students learn from them.

    Students imitate the explained model; beside its predictions they see where explanations look, and draw their own
    attention there. Two ways lead to explanations from which they learn fast. A *search* teaches mixes of heads to
    short-lived students and keeps the best on validation texts. *Meta* training changes the explainer along with a
    population of students, by the gradient of what these lose on other texts after a step; it goes on from where a
    search left it. On the held-out texts fresh students compare the result with no explanations and with the mean of
    all heads.

    Args:
        search: how heads are searched first: "racing", "halving" or "evolution"; "none" begins at "start".
        meta: the gradient of the meta training: "linear", "exact", "unrolled:K", "look_ahead:K" or "closed_form";
            "none" keeps the result of the search, or "start".
        shape: what computes the scores: "head_mix", "head_gate" or "gradient_gate"; any shape of one output without a
            search.
        layers: indices of the layers whose heads are mixed; all when not given.
        normalise: how the weights of heads are normalised: "sparsemax", "entmax15", "softmax" or "none".
        explanation: how scores are normalised for the students: "softmax", or "sparsemax", which marks few words, fewer
            at a lower temperature; the search chooses the temperature, train_temperature=true of the shape trains it.
        start: initial weights without a search: "uniform", "layer:K", "head:K.J" or "random".
        spread: fraction of the initial weight that meta training spreads over all heads, since heads of weight 0 hardly
            ever get any.
        student_kind: kind of the students ('didact list students'); a pretrained encoder when not given.
        student: settings of the students, such as model=./my-encoder for the pretrained encoder.
        channel: how explanations enter the students' training ('didact list channels').
        channel_settings: settings of the channel.
        examples: training texts per student; at most half of the training texts.
        student_epochs: epochs of a fresh student.
        curve: epochs between two tests of a fresh student.
        beta: weight of the explanations in the students' loss.
        inner_rate: learning rate of the students.
        batch: batch size of the students.
        students: fresh students per explanation in the comparison on held-out texts; 0 for no comparison.
        epochs: maximum number of epochs of the meta training.
        learning_rate: learning rate of the meta training.
        level: what is scored: "token", "word", "patch"; the model's tokens, or its first level, when not given.
        seed: of the split, the students and the training.
        search_settings: settings of the search, such as students=4, rounds=5 or final_students=10.
        meta_settings: settings of the meta training, such as students=12, ages=equal or resets=20.
        shape_settings: further settings of the shape, such as temperature=2.
        fit: further settings of the training, such as patience=5 or device=cpu.
    """

    search: Literal["racing", "halving", "evolution", "none"] = "racing"
    meta: str = NONE
    shape: str = "head_mix"
    layers: tuple[int, ...] | None = None
    normalise: Literal["sparsemax", "entmax15", "softmax", "none"] = "sparsemax"
    explanation: Literal["softmax", "sparsemax"] = "softmax"
    start: str = "uniform"
    spread: float = 0.1
    student_kind: str | None = None
    student: Mapping[str, object] = field(default_factory=dict)
    channel: str = "head_mix"
    channel_settings: Mapping[str, object] = field(default_factory=dict)
    examples: int = 500
    student_epochs: int = 30
    curve: int = 3
    beta: float = 5.0
    inner_rate: float = 5e-3
    batch: int = 32
    students: int = 6
    epochs: int = 45
    learning_rate: float = 5e-4
    level: Level | None = None
    seed: int = 0
    search_settings: Mapping[str, object] = field(default_factory=dict)
    meta_settings: Mapping[str, object] = field(default_factory=dict)
    shape_settings: Mapping[str, object] = field(default_factory=dict)
    fit: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", None if self.layers is None else tuple(self.layers))
        for name, least in {"examples": 2, "student_epochs": 1, "curve": 1, "students": 0, "batch": 1}.items():
            if getattr(self, name) < least:
                raise ParameterError(f"{name} of smat must be at least {least}, got {getattr(self, name)!r}")
        for name in ("beta", "inner_rate"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} of smat must be above 0, got {getattr(self, name)!r}")

    def train(self, given: TrainingInput) -> LearnedExplainer:
        """Search and train, and compare what fresh students learn from the result."""
        from didact.trained.scaffolding.learning import learn_to_teach

        return learn_to_teach(given, self._recipe(given.model))

    def estimate(self, given: TrainingInput) -> list[Estimate]:
        """What search, training and comparison would take at most."""
        from didact.trained.scaffolding.cost import teaching_costs

        return teaching_costs(given, self._recipe(given.model))

    def _recipe(self, model: Model) -> TeachingTraining:
        from didact.trained.fit_types import FitConfig
        from didact.trained.scaffolding.learning import TeachingTraining

        if self.student_kind is None:
            return replace(self, student_kind=_usual_student(model))._recipe(model)
        # As published: no decay, a constant rate, clipped at 5, until ten epochs bring nothing better.
        published = {"weight_decay": 0.0, "warmup": 0.0, "schedule": "constant", "clip": 5.0, "patience": 10}
        own = {"epochs": self.epochs, "learning_rate": self.learning_rate, "seed": self.seed}
        own |= {"checkpoint_seconds": STORED}  # a population of students is large
        training = FitConfig.configured(**published | own | dict(self.fit))
        return TeachingTraining(
            method=self.card.name,
            shape=self.shape,
            shape_settings=self._shape_settings(),
            signal=self.card.signals[0],
            signal_settings=self._signal_settings(training.device),
            training=training,
            level=self.level,
            seed=self.seed,
            fresh=self._fresh(training.device),
            search=self._search(),
            meta=self.meta != NONE,
            students=self.students,
        )

    def _shape_settings(self) -> dict[str, object]:
        """Of the shape: which heads it mixes, where it has any."""
        from didact.trained.shapes.base import SHAPES

        if HEADS not in SHAPES.card(self.shape).needs:
            return dict(self.shape_settings)
        own: dict[str, object] = {"layers": self.layers, "normalise": self.normalise, "start": self.start}
        if self.meta != NONE:
            own["spread"] = self.spread
        return own | dict(self.shape_settings)

    def _signal_settings(self, device: str) -> dict[str, object]:
        """Of the signal; without meta training it turns outputs into scores and no more."""
        own: dict[str, object] = {"examples": self.examples, "seed": self.seed, "device": _device(device)}
        own["explanation"] = self.explanation
        if self.meta != NONE:
            own["meta"] = self.meta
        if self.meta != "closed_form":  # its students are of another kind
            own |= {name: getattr(self, name) for name in ("beta", *STUDENTS_OWN)}
        return own | dict(self.meta_settings)

    def _search(self) -> HeadSearchConfig | None:
        from didact.trained.scaffolding.search import HeadSearchConfig

        if self.search == NONE:
            return None
        own = {"kind": self.search, "seed": self.seed}
        return HeadSearchConfig.configured(**own | dict(self.search_settings))

    def _fresh(self, device: str) -> FreshStudents:
        """Students that candidates and results are measured by."""
        from didact.models.device import choose_device
        from didact.simulation.simulability import WeightedChannel
        from didact.students.base import CHANNELS
        from didact.trained.scaffolding.building import student_of
        from didact.trained.scaffolding.teaching import FreshStudents

        usual = {"epochs": self.student_epochs, "learning_rate": self.inner_rate, "batch_size": self.batch}
        channel = CHANNELS.get(self.channel).configured(**self.channel_settings)
        return FreshStudents(
            student=student_of(str(self.student_kind), self.student, **usual),
            channel=WeightedChannel(channel, self.beta),
            examples=self.examples,
            curve=self.curve,
            device=str(choose_device(_device(device))),
            explanation=self.explanation,
        )


def _usual_student(model: Model) -> str:
    """The pretrained encoder that reads what the model reads."""
    return "vision_transformer" if "patch" in model.levels else "transformer"


def _device(name: str) -> str | None:
    """The students' device from that of the training."""
    return None if name == "auto" else name
