"""Every registered shape passes every check with every registered signal that fits it, and so do a third party's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from didact.errors import CapabilityError
from didact.protocols import Model
from didact.testing.learned import CASES, CHECKS, _model, check, fits
from didact.trained.samples import Sample, TrainingBatch, TrainingSamples
from didact.trained.shapes.base import SHAPES, Item, Shape, ShapeBatch, ShapeCard, check_shape
from didact.trained.signals.base import SIGNALS, Signal, SignalCard, SignalTask
from didact.trained.signals.regression import Regression
from didact.types import Prediction, Units

QUICK: Mapping[str, Mapping[str, object]] = {"scorer": {"width": 16, "blocks": 1, "min_count": 1}}
"""Settings that make a shape small; its own defaults where it has none here."""

ROWS = [
    (shape, signal, case, name)
    for shape in SHAPES.names()
    for signal in SIGNALS.names()
    for case in CASES
    if fits(SHAPES.card(shape), SIGNALS.card(signal), case)
    for name in CHECKS
]


@pytest.mark.parametrize(("shape", "signal", "case", "name"), ROWS)
def test_conforms(shape: str, signal: str, case: str, name: str) -> None:
    check(name, SHAPES.get(shape), SIGNALS.get(signal), case, settings=QUICK.get(shape))


def test_one_thing_is_one_file_of_its_name() -> None:
    shapes, signals = ({row[place] for row in ROWS} for place in (0, 1))
    assert {SHAPES.get(name).__module__ for name in shapes} == {f"didact.trained.shapes.{name}" for name in shapes}
    assert {SIGNALS.get(name).__module__ for name in signals} == {f"didact.trained.signals.{name}" for name in signals}


# A third party's shape, which reads the explained model's embeddings, and a signal that runs the model in its loss.


class EmbeddingProbe(Shape):
    """A linear layer on the explained model's word embeddings."""

    card = ShapeCard(
        "embedding_probe", "explained model", "A layer on embeddings.", "none", frozenset({"differentiable"})
    )

    def __init__(self, size: int, outputs: int, seed: int = 0) -> None:
        super().__init__()
        self.size, self.seed = size, seed
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            self.output = nn.Linear(size, outputs)

    @classmethod
    def build(cls, model: Model, units: Sequence[Units], outputs: int, settings: Mapping[str, object]) -> Self:
        return cls(model.embed(units[:1])[0].shape[-1], outputs, cast("int", settings["seed"]))  # type: ignore[attr-defined]

    @property
    def outputs(self) -> int:
        return self.output.out_features

    @property
    def settings(self) -> dict[str, object]:
        return {"size": self.size, "outputs": self.outputs, "seed": self.seed}

    @classmethod
    def from_settings(cls, settings: Mapping[str, object], folder: Path) -> Self:
        return cls(**settings)  # type: ignore[arg-type]

    def save_reading(self, folder: Path) -> None:
        """Nothing: the model reads."""

    def read(
        self, model: Model | None, units: Sequence[Units], targets: Sequence[int], predictions: Sequence[Prediction]
    ) -> list[Item]:
        vectors = model.embed(units)  # type: ignore[union-attr] # the card asks for a differentiable model
        means = [
            np.stack([own[list(positions)].mean(0).cpu().numpy() for positions in text.positions])
            if len(text)
            else np.zeros((0, self.size), np.float32)
            for text, own in zip(units, vectors, strict=True)
        ]
        return [{"states": states} for states in means]

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        counts = np.array([len(item["states"]) for item in items])
        states = torch.zeros(len(items), counts.max(), self.size)
        for row, item in zip(states, items, strict=True):
            row[: len(item["states"])] = torch.from_numpy(item["states"])
        return {"states": states, "present": torch.from_numpy(np.arange(counts.max()) < counts[:, None])}

    def forward(self, batch: ShapeBatch) -> Tensor:
        scores: Tensor = self.output(batch["states"])
        return scores


@dataclass(frozen=True, kw_only=True)
class Follow(Signal):
    """The squared distance to a reference's scores, computed from what ``prepare`` attached to texts and batch."""

    weight: float = 1.0

    card = SignalCard("follow", "test", "Follow a reference.", "none", "1", frozenset({"reference"}))

    @property
    def outputs(self) -> int:
        return 1

    @property
    def signed(self) -> bool:
        return True

    def prepare(self, task: SignalTask, shape: Shape) -> TrainingSamples:
        assert task.labels is not None
        train, validation = (self._samples(task, shape, some) for some in (task.train, task.validation))
        return TrainingSamples(train, validation, {"size": torch.tensor(self.weight)})

    def _samples(self, task: SignalTask, shape: Shape, examples: Sequence[object]) -> list[Sample]:
        explained = task.labels.of(examples)[0]  # type: ignore[union-attr, arg-type]
        items = shape.read_explained(task.model, explained)
        live = [{"scores": torch.from_numpy(one.array).float()} for one in explained]
        pairs = zip(items, explained, live, strict=True)
        return [Sample(item, np.zeros(len(one.units)), extra) for item, one, extra in pairs]

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        size = cast("Tensor", batch.shared["size"])
        rows = zip(outputs[..., 0], batch.present, batch.extra, strict=True)
        return torch.stack([size * ((row[there] - cast("Tensor", e["scores"])) ** 2).sum() for row, there, e in rows])

    def scores(self, outputs: Tensor) -> Tensor:
        return outputs[..., 0]


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    SHAPES.register(EmbeddingProbe.card)(EmbeddingProbe)
    SIGNALS.register(Follow.card)(Follow)
    yield
    for registry, name in ((SHAPES, "embedding_probe"), (SIGNALS, "follow")):
        del registry._classes[name], registry._cards[name]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CHECKS)
def test_a_third_partys_shape_conforms(name: str) -> None:
    check(name, EmbeddingProbe, Regression, "bert")


@pytest.mark.parametrize("name", CHECKS)
def test_a_third_partys_signal_conforms(name: str) -> None:
    check(name, SHAPES.get("scorer"), Follow, settings=QUICK["scorer"])


def test_they_go_together() -> None:
    check("learns", EmbeddingProbe, Follow, "bert")


def test_a_model_that_does_not_offer_what_a_shape_needs_is_refused() -> None:
    assert not fits(EmbeddingProbe.card, Follow.card, "black_box")
    with pytest.raises(CapabilityError, match=r"needs a model that is differentiable, .* work with it: scorer"):
        check_shape(EmbeddingProbe.card, _model("black_box"))


# The checks themselves, on planted faults.


class Leaky(EmbeddingProbe):
    """Looks at its neighbours in the batch."""

    def forward(self, batch: ShapeBatch) -> Tensor:
        return super().forward(batch) + batch["states"].mean()


class Forgetful(EmbeddingProbe):
    """Draws its weights without a seed."""

    def __init__(self, size: int, outputs: int, seed: int = 0) -> None:
        super().__init__(size, outputs, seed)
        nn.init.normal_(self.output.weight)


class Stuck(Follow):
    """Has a loss that does not depend on the outputs."""

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        return super().loss(outputs * 0, batch)


@pytest.mark.parametrize(
    ("name", "shape", "signal"),
    [
        ("batches_do_not_matter", Leaky, Follow),
        ("same_seed_same_weights", Forgetful, Follow),
        ("losses_are_per_document", EmbeddingProbe, Stuck),
        ("learns", EmbeddingProbe, Stuck),
    ],
)
def test_a_planted_fault_is_found(name: str, shape: type[Shape], signal: type[Signal]) -> None:
    with pytest.raises(AssertionError):
        check(name, shape, signal, "bert")
