"""Learning from coalitions alone arrives at Shapley values."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from didact.attribution.kernel_shap import KernelShap
from didact.errors import ParameterError
from didact.ops.coalitions import kernel_coalitions
from didact.protocols import Model
from didact.stats.correlation import spearman
from didact.testing.learned import case_texts
from didact.trained.explainer import LearnedExplainer
from didact.trained.samples import TrainingBatch
from didact.trained.signals.ablate import Ablate
from didact.trained.train import train
from didact.types import Example, Floats
from tests.trained.planted import planted_model

WEIGHTS = {"wonderful": 3.0, "warm": 1.5, "good": 2.0, "dull": -2.0, "worse": -1.0, "avoid": -3.0}


def exact_shapley(rows: Floats, values: Floats) -> Floats:
    """By enumeration of all coalitions: the mean of what a unit adds, over sizes and coalitions of a size."""
    n = rows.shape[1]
    of = {tuple(row): value for row, value in zip(rows.astype(int).tolist(), values, strict=True)}
    made = np.zeros(n)
    for row, value in of.items():
        for unit in np.flatnonzero(np.array(row) == 0):
            added = list(row)
            added[unit] = 1
            size = sum(row)
            made[unit] += (of[tuple(added)] - value) / (n * comb(n - 1, size))
    return made


def comb(n: int, k: int) -> int:
    return int(np.prod([(n - i) / (i + 1) for i in range(k)]).round())


def test_the_least_loss_is_at_the_shapley_values() -> None:
    n, rng = 5, np.random.default_rng(0)
    rows = np.array([[bool(number >> i & 1) for i in range(n)] for number in range(1 << n)])
    values = rng.normal(size=len(rows))  # a game with interactions of every order
    of = {tuple(row): value for row, value in zip(rows.tolist(), values, strict=True)}
    inner = [row for row in rows if 0 < row.sum() < n]
    weights = [1 / (comb(n, int(row.sum())) * row.sum() * (n - row.sum())) for row in inner]
    counts = np.round(np.array(weights) / min(weights)).astype(int)  # each coalition as often as the kernel says
    drawn = np.repeat(np.array(inner), counts, axis=0)
    differences = np.array([of[tuple(row)] - of[tuple(~row)] for row in drawn])
    total = values[-1] - values[0]
    extra = {"signs": 2.0 * drawn - 1, "differences": differences, "total": float(total)}
    present = torch.ones(1, n, dtype=torch.bool)
    batch = TrainingBatch(torch.zeros(1, n), present, extra=[extra])
    v = torch.zeros(1, n, 1, dtype=torch.double, requires_grad=True)
    optimizer = torch.optim.LBFGS([v], max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-14)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = Ablate(spread=2.0).loss(v, batch).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    found = Ablate(spread=2.0).scores(v.detach())[0].numpy()
    np.testing.assert_allclose(found, exact_shapley(rows, values), atol=1e-6)


def test_sizes_of_coalitions_follow_the_kernel() -> None:
    rng, n = np.random.default_rng(0), 6
    drawn = np.concatenate([kernel_coalitions(n, 7, rng) for _ in range(3000)])
    sizes = np.bincount(drawn.sum(1), minlength=n)[1:n] / len(drawn)
    wanted = 1 / (np.arange(1, n) * (n - np.arange(1, n)))
    np.testing.assert_allclose(sizes, wanted / wanted.sum(), atol=0.01)
    np.testing.assert_allclose(drawn.mean(0), drawn.mean(), atol=0.01)  # no unit is preferred
    assert kernel_coalitions(1, 3, rng).all()


@pytest.fixture(scope="module")
def model() -> Model:
    """A network in which known words decide."""
    return planted_model(WEIGHTS)


@pytest.fixture(scope="module")
def texts() -> list[Example]:
    return case_texts("black_box")[0]


@pytest.fixture(scope="module")
def learned(model: Model, texts: list[Example], tmp_path_factory: pytest.TempPathFactory) -> LearnedExplainer:
    few = {"pairs": 3, "rounds": 2, "epochs": 20, "rank": 16, "width": 32, "learning_rate": 1e-2}
    return train("probe", model, texts[:60], folder=tmp_path_factory.mktemp("probe"), signal="ablate", **few)


def test_it_learns_shapley_values_without_a_reference(
    learned: LearnedExplainer, model: Model, texts: list[Example]
) -> None:
    wanted = KernelShap(evaluations=300).explain(model, texts[70:])
    made = learned.explain(model, texts[70:])
    assert np.mean([spearman(a.array, b.array) for a, b in zip(made, wanted, strict=True)]) > 0.35  # chance is 0
    assert made[0].cost.forwards == 1
    assert learned.about.cost["evaluations of the model"] < 60 * (3 + 2 + 2 * 3 * 2) + 9 * 30
    assert learned.about.agreement is not None  # it was compared with its reference on held-out texts
    assert (learned.about.method, learned.about.reference) == ("probe", "kernel_shap")


def test_every_class_has_its_scores(learned: LearnedExplainer, model: Model, texts: list[Example]) -> None:
    known = texts[:30]  # seen in training: of new ones so few teach too little
    wanted = KernelShap(evaluations=300)
    for label in model.labels:
        made = learned.explain(model, known, [label] * len(known))
        slow = wanted.explain(model, known, [label] * len(known))
        assert np.mean([spearman(a.array, b.array) for a, b in zip(made, slow, strict=True)]) > 0.3  # chance is 0
        assert not any("given target" in sentence for sentence in made[0].warnings)


def test_complete_scores_add_up(learned: LearnedExplainer, model: Model, texts: list[Example]) -> None:
    complete = LearnedExplainer(learned.shape, replace(learned.signal, complete=True), learned.about)  # type: ignore[type-var]
    (made,) = complete.explain(model, texts[70:71])
    none = np.zeros((1, len(made.units)), dtype=np.bool_)
    (empty,) = model.score([made.units], [made.target], [none])
    assert made.array.sum() == pytest.approx(made.prediction.value(made.target) - empty[0], abs=1e-4)
    assert made.cost.forwards == complete.cost(made.units).forwards == 2
    plain = learned.explain(model, texts[70:71])[0].array
    np.testing.assert_allclose(np.diff(made.array - plain), 0, atol=1e-6)


def test_each_epoch_learns_from_all_that_was_evaluated(model: Model, texts: list[Example]) -> None:
    from didact.meter import metered
    from didact.trained.shapes.probe import Probe
    from didact.trained.signals.base import SignalTask

    signal = Ablate(pairs=2, rounds=2)
    shape = Probe.build(model, model.units(texts[:4]), 1, {"per_class": True, "norm": "position", "seed": 0})
    samples = signal.prepare(SignalTask(model, texts[:4], texts[4:6]), shape)
    counted = []
    for epoch in range(3):
        with metered() as meter:
            own = samples.of_epoch(epoch)
        counted.append((meter.evaluated > 0, len(own[0].extra["differences"])))  # type: ignore[arg-type]
    assert counted == [(True, 2), (True, 4), (False, 4)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": 0}, "pairs of ablate must be at least 1, got 0"),
        ({"rounds": 0}, "rounds of ablate must be at least 1, got 0"),
        ({"spread": 0.0}, "spread of ablate must be above 0, or None"),
        ({"seed": -1}, "seed of ablate must not be negative"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Ablate(**settings)  # type: ignore[arg-type]


def test_what_does_not_go_together_is_refused(model: Model, texts: list[Example], tmp_path: Path) -> None:
    explained = KernelShap(evaluations=20).explain(model, texts[:20])
    with pytest.raises(ParameterError, match="ablate learns from the model itself, and labels were given"):
        train("probe", model, explained, signal="ablate")
    with pytest.raises(ParameterError, match="pairs of probe are settings of the signals 'ablate', 'erasure' and"):
        train("probe", model, explained, pairs=3)
