"""The training loop: what it learns, that a kill changes nothing, and that it says what went wrong."""

import dataclasses
import os
import signal as signals
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from didact.errors import FormatError, InputError, ParameterError
from didact.progress import listening
from didact.protocols import Model
from didact.trained._batching import share
from didact.trained._collated import collated
from didact.trained.fit import fit
from didact.trained.fit_types import FitConfig, Fitted
from didact.trained.samples import Sample, TrainingBatch, TrainingSamples, batch_of
from didact.trained.shapes.base import Item, Shape, ShapeBatch, ShapeCard
from didact.trained.signals.regression import Regression
from didact.types import Prediction, Units

WORDS = 12
REPO = Path(__file__).resolve().parents[2]


class Lookup(Shape):
    """One number per word of a small vocabulary, with dropout, so that the random state matters."""

    card = ShapeCard("lookup", "test", "One number per word.", "none")

    def __init__(self, seed: int = 0, dropout: float = 0.2) -> None:
        super().__init__()
        self.seed = seed
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            self.weight = nn.Embedding(WORDS, 4)
            self.output = nn.Linear(4, 1)
        self.dropout = nn.Dropout(dropout)

    @property
    def outputs(self) -> int:
        return 1

    @property
    def settings(self) -> dict[str, object]:
        return {"seed": self.seed, "dropout": self.dropout.p}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], folder: Path) -> Self:
        return cls(**settings)

    def save_reading(self, folder: Path) -> None:
        pass

    @classmethod
    def build(cls, model: Model, units: Sequence[Units], outputs: int, settings: Mapping[str, object]) -> Self:
        raise NotImplementedError

    def read(
        self, model: Model | None, units: Sequence[Units], targets: Sequence[int], predictions: Sequence[Prediction]
    ) -> list[Item]:
        raise NotImplementedError

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        width = max(len(item["ids"]) for item in items)
        ids = np.stack([np.pad(item["ids"], (0, width - len(item["ids"])), constant_values=-1) for item in items])
        return {"ids": torch.from_numpy(ids).clamp(min=0), "present": torch.from_numpy(ids >= 0)}

    def forward(self, batch: ShapeBatch) -> Tensor:
        found: Tensor = self.output(self.dropout(self.weight(batch["ids"])))
        return found


WORTH = np.linspace(-1, 1, WORDS)


def samples(count: int, seed: int = 0) -> list[Sample]:
    """Texts of 1 to 6 words, each with the worth of its words as targets."""
    rng = np.random.default_rng(seed)
    texts = [rng.integers(WORDS, size=rng.integers(1, 7)) for _ in range(count)]
    return [Sample({"ids": text}, WORTH[text]) for text in texts]


TRAIN, VALIDATION = samples(40), samples(10, seed=1)
QUICK = FitConfig(epochs=4, batch_rows=8, learning_rate=0.02, seed=3, device="cpu")
LOSS = Regression()


def weights(fitted: Fitted) -> dict[str, Tensor]:
    return dict(fitted.shape.state_dict())


def assert_equal(one: Fitted, other: Fitted) -> None:
    for name, weight in weights(one).items():
        assert torch.equal(weight, weights(other)[name]), name
    assert [without_time(run.history) for run in one.runs] == [without_time(run.history) for run in other.runs]


def without_time(history: Sequence[Any]) -> list[Any]:
    return [dataclasses.replace(epoch, seconds=0) for epoch in history]


@pytest.fixture(scope="module")
def plain() -> Fitted:
    return fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), QUICK)


def test_it_learns_what_the_words_are_worth() -> None:
    config = dataclasses.replace(QUICK, epochs=25, patience=None, learning_rate=0.1)
    fitted = fit(Lookup(dropout=0.0), LOSS, TrainingSamples(TRAIN, VALIDATION), config)
    with torch.no_grad():
        found = fitted.shape({"ids": torch.arange(WORDS)[None]})[0, :, 0]
    np.testing.assert_allclose(found.numpy(), WORTH, atol=0.05)
    assert fitted.history[-1].train_loss < fitted.history[0].train_loss / 20


def test_one_published_step_is_plain_gradient_descent() -> None:
    """One text "0 1", SGD: w <- w - lr * dL/dw, with L = sum of (v - t)^2 / 2 and so dL/db = sum of (v - t)."""
    shape = Lookup(dropout=0.0)
    paper = FitConfig(epochs=1, optimizer="sgd", learning_rate=1e-2, weight_decay=0, warmup=0, schedule="constant")
    paper = dataclasses.replace(paper, clip=25, patience=None, device="cpu")
    targets = np.array([0.5, -0.25])
    with torch.no_grad():
        v = shape({"ids": torch.tensor([[0, 1]])})[0, :, 0].numpy()
    fitted = fit(shape, LOSS, TrainingSamples([Sample({"ids": np.array([0, 1])}, targets)], ()), paper)
    expected = shape.output.bias.item() - 1e-2 * (v - targets).sum()
    assert weights(fitted)["output.bias"].item() == pytest.approx(expected, abs=1e-7)


def test_clipping_limits_the_step() -> None:
    """SGD with rate 1 moves the weights by the gradient, whose norm is then exactly the limit."""
    config = FitConfig(epochs=1, optimizer="sgd", learning_rate=1.0, weight_decay=0, warmup=0, schedule="constant")
    config = dataclasses.replace(config, clip=1e-3, patience=None, device="cpu")
    shape = Lookup(dropout=0.0)
    fitted = fit(shape, LOSS, TrainingSamples(TRAIN[:1], ()), config)
    moved = [(weight - shape.state_dict()[name]).double().norm() for name, weight in weights(fitted).items()]
    assert float(torch.stack(moved).norm()) == pytest.approx(1e-3, rel=1e-3)


def test_the_rate_rises_then_falls_to_zero_or_stays() -> None:
    linear = FitConfig(learning_rate=1.0, warmup=0.2)
    assert [linear.rate(p) for p in (0, 0.1, 0.2, 0.6, 1)] == pytest.approx([0, 0.5, 1, 0.5, 0])
    constant = FitConfig(learning_rate=1.0, warmup=0, schedule="constant")
    assert [constant.rate(p) for p in (0, 0.5, 1)] == [1, 1, 1]


def test_the_given_shape_and_the_random_state_stay_as_they_were(plain: Fitted) -> None:
    shape = Lookup()
    before = torch.get_rng_state()
    fitted = fit(shape, LOSS, TrainingSamples(TRAIN, VALIDATION), QUICK)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(shape.weight.weight, Lookup().weight.weight)
    assert all(weight.grad is None for weight in shape.parameters())
    assert_equal(fitted, plain)  # and so the same seed gives the same weights


def test_another_seed_gives_other_weights(plain: Fitted) -> None:
    other = fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), dataclasses.replace(QUICK, seed=4))
    assert not torch.equal(weights(other)["weight.weight"], weights(plain)["weight.weight"])


@pytest.mark.parametrize("average", [0.25, 1.0])
def test_an_average_of_weights_is_kept_and_seen_by_the_monitor(average: float) -> None:
    """By hand from the weights after each of five steps."""
    config = FitConfig(epochs=1, batch_rows=8, optimizer="sgd", learning_rate=0.1, schedule="constant", device="cpu")
    passed: list[Tensor] = []

    class Watched(Lookup):
        def forward(self, batch: ShapeBatch) -> Tensor:
            passed.append(self.weight.weight.detach().clone())
            return super().forward(batch)

    last = fit(Watched(), LOSS, TrainingSamples(TRAIN, ()), config).shape.state_dict()["weight.weight"]
    steps = [*passed[1:], last]
    expected = steps[0]
    for number, one in enumerate(steps, 1):
        expected = expected + (one - expected) / max(1.0, average * number)
    seen: list[Tensor] = []

    def monitor(shape: Shape) -> float:
        seen.append(shape.state_dict()["weight.weight"].clone())
        return 0.0

    averaging = dataclasses.replace(config, average=average)
    kept = fit(Lookup(), LOSS, TrainingSamples(TRAIN, ()), averaging, monitor=monitor).shape.state_dict()[
        "weight.weight"
    ]
    assert len(steps) == 5
    torch.testing.assert_close(kept, expected)
    assert torch.equal(kept, seen[0])
    if average == 1.0:
        torch.testing.assert_close(kept, torch.stack(steps).mean(0))
    assert not torch.allclose(kept, last)


def test_the_best_weights_are_returned_and_patience_ends_the_training() -> None:
    """The monitor is best after epoch 2; with patience 2 epoch 4 is the last."""
    seen: list[Tensor] = []

    def monitor(shape: Shape) -> float:
        assert not shape.training
        seen.append(shape.state_dict()["weight.weight"].clone())
        return [1.0, 5.0, 2.0, 3.0, 9.0][len(seen) - 1]

    config = dataclasses.replace(QUICK, epochs=5, patience=2)
    fitted = fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), config, monitor=monitor)
    assert [epoch.monitor for epoch in fitted.history] == [1.0, 5.0, 2.0, 3.0]
    assert fitted.run.best.number == 2
    assert torch.equal(weights(fitted)["weight.weight"], seen[1])


def test_a_monitor_may_be_better_when_lower() -> None:
    values = iter([3.0, 1.0, 2.0])
    config = dataclasses.replace(QUICK, epochs=3, higher_is_better=False)
    fitted = fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), config, monitor=lambda _: next(values))
    assert fitted.run.best.number == 2


def test_without_validation_the_last_weights_are_kept() -> None:
    fitted = fit(Lookup(), LOSS, TrainingSamples(TRAIN, ()), QUICK)
    assert len(fitted.history) == QUICK.epochs == fitted.run.best.number
    assert fitted.run.best.value is None


def test_the_best_of_several_initialisations_is_kept_and_all_are_told(plain: Fitted) -> None:
    config = dataclasses.replace(QUICK, initialisations=3)
    fitted = fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), config)
    assert [run.seed for run in fitted.runs] == [3, 4, 5]
    values = [run.best.validation_loss for run in fitted.runs]
    assert len(set(values)) == 3
    assert fitted.run.best.validation_loss == min(value for value in values if value is not None)
    assert without_time(fitted.runs[0].history) == without_time(plain.runs[0].history)


def test_two_trainings_from_one_seed_have_equal_weights(plain: Fitted) -> None:
    torch.rand(5)  # what was drawn before does not matter
    assert_equal(plain, fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), QUICK))


def test_weights_that_are_not_trained_are_the_same_in_every_initialisation() -> None:
    shape = Lookup()
    with torch.no_grad():
        shape.weight.weight[:, 0] = torch.from_numpy(WORTH)
    shape.weight.requires_grad_(False)
    seen: list[Tensor] = []

    def monitor(now: Shape) -> float:
        seen.append(now.get_parameter("weight.weight").clone())
        return 0.0

    config = dataclasses.replace(QUICK, epochs=1, initialisations=3)
    fit(shape, LOSS, TrainingSamples(TRAIN, VALIDATION), config, monitor=monitor)
    assert len(seen) == 3
    assert all(torch.equal(table, shape.weight.weight) for table in seen)


def test_fresh_labels_come_each_epoch() -> None:
    asked: list[int] = []

    def noisy(epoch: int) -> list[Sample]:
        asked.append(epoch)
        rng = np.random.default_rng(epoch)
        return [Sample(one.item, one.targets + rng.normal(size=len(one.targets))) for one in TRAIN]

    fresh = fit(Lookup(), LOSS, TrainingSamples(noisy, ()), QUICK)
    assert asked == [0, 0, 1, 2, 3]  # the first time to know the data
    once = fit(Lookup(), LOSS, TrainingSamples(noisy(0), ()), QUICK)
    assert fresh.history[0].train_loss == once.history[0].train_loss
    assert fresh.history[1].train_loss != once.history[1].train_loss


def test_an_epoch_is_validated_as_often_as_wanted_and_the_best_check_is_kept() -> None:
    """The steps are those of a training that is validated once per epoch, and none is left out."""
    seen: list[Tensor] = []

    def monitor(shape: Shape) -> float:
        seen.append(next(shape.parameters()).detach().clone())
        return float(len(seen) == 4)  # the first check of the second epoch

    config = dataclasses.replace(QUICK, epochs=2, checks=3, patience=None, batch_rows=len(TRAIN) // 5)
    fitted = fit(Lookup(), Regression(), TrainingSamples(TRAIN, VALIDATION), config, monitor=monitor)
    assert [epoch.number for epoch in fitted.history] == [1, 1, 1, 2, 2, 2]
    assert torch.equal(next(fitted.shape.parameters()), seen[3])
    once = dataclasses.replace(config, checks=1)
    last = fit(Lookup(), Regression(), TrainingSamples(TRAIN), once, monitor=lambda shape: 0.0)
    assert len(last.history) == 2
    whole = fit(Lookup(), Regression(), TrainingSamples(TRAIN), once)  # nothing to compare: the last weights are kept
    assert torch.equal(next(whole.shape.parameters()), seen[-1])


class Killed(BaseException):
    """What a test throws in the middle of a step."""


class Fragile(Regression):
    """Dies in its n-th loss."""

    left = 10**9

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        Fragile.left -= 1
        if Fragile.left < 0:
            raise Killed
        return super().loss(outputs, batch)


@pytest.mark.parametrize(("seed", "average", "checks"), [(0, 0.0, 1), (1, 0.0, 3), (2, 0.3, 1)])
def test_killed_at_random_steps_it_ends_with_equal_weights(
    seed: int, average: float, checks: int, tmp_path: Path
) -> None:
    config = dataclasses.replace(
        QUICK, initialisations=2, checkpoint_every=2, patience=2, average=average, checks=checks
    )
    whole = fit(Lookup(), Fragile(), TrainingSamples(TRAIN, VALIDATION), config)
    rng = np.random.default_rng(seed)
    kills = 0
    while True:
        Fragile.left = int(rng.integers(3, 25))
        try:
            resumed = fit(Lookup(), Fragile(), TrainingSamples(TRAIN, VALIDATION), config, folder=tmp_path)
            break
        except Killed:
            kills += 1
        finally:
            Fragile.left = 10**9
    assert kills > 1
    assert_equal(resumed, whole)
    assert not list(tmp_path.glob(".*"))
    Fragile.left = 0  # what ended is not run again
    try:
        assert_equal(fit(Lookup(), Fragile(), TrainingSamples(TRAIN, VALIDATION), config, folder=tmp_path), whole)
    finally:
        Fragile.left = 10**9


class Slow(Regression):
    """The same loss, slow enough to be killed in the middle."""

    def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
        time.sleep(0.02)
        return super().loss(outputs, batch)


STEPWISE = dataclasses.replace(QUICK, checkpoint_every=1, patience=None)
KILLED = """
from pathlib import Path
import sys
from tests.trained.test_fit import STEPWISE, TRAIN, VALIDATION, Lookup, Slow, TrainingSamples, fit

fit(Lookup(), Slow(), TrainingSamples(TRAIN, VALIDATION), STEPWISE, folder=Path(sys.argv[1]))
"""
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(REPO), str(REPO / "src")]), "OMP_NUM_THREADS": "1"}


def test_after_a_real_kill_it_ends_with_equal_weights(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], env=ENVIRONMENT)
    path = tmp_path / "run-0.safetensors"
    while not path.is_file() and process.poll() is None:
        time.sleep(0.005)
    time.sleep(np.random.default_rng().uniform(0, 0.2))
    process.send_signal(signals.SIGKILL)
    assert process.wait() == -signals.SIGKILL
    with safe_open(path, "pt") as file:
        assert '"finished": false' in file.metadata()["didact"]
    resumed = fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), STEPWISE, folder=tmp_path)
    assert_equal(resumed, fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), STEPWISE))


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("configuration", {"config": dataclasses.replace(QUICK, learning_rate=0.01)}),
        ("shape", {"shape": Lookup(seed=1)}),
        ("signal", {"signal": Regression(normalise="none")}),
        ("training data", {"samples": TrainingSamples(TRAIN[1:], VALIDATION)}),
        ("validation data", {"samples": TrainingSamples(TRAIN, VALIDATION[1:])}),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(what: str, change: dict[str, Any], tmp_path: Path) -> None:
    given: dict[str, Any] = {"shape": Lookup(), "signal": LOSS, "samples": TrainingSamples(TRAIN, VALIDATION)}
    given["config"] = dataclasses.replace(QUICK, epochs=1)
    if "config" in change:
        change = {"config": dataclasses.replace(change["config"], epochs=1)}
    fit(**given, folder=tmp_path)
    with pytest.raises(FormatError, match=f"another training: its {what} differ"):
        fit(**given | change, folder=tmp_path)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    config = dataclasses.replace(QUICK, epochs=1)
    fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), config, folder=tmp_path)
    path = tmp_path / "run-0.safetensors"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FormatError, match=r"run-0.safetensors cannot be read .* delete it"):
        fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), config, folder=tmp_path)


def test_every_flipped_bit_of_a_checkpoint_is_refused(tmp_path: Path) -> None:
    """Head and tensors, of a run that is half way: a resumed training must never go on from other numbers."""
    config = dataclasses.replace(QUICK, epochs=1)
    fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), config, folder=tmp_path)
    path = tmp_path / "run-0.safetensors"
    whole, rng = path.read_bytes(), np.random.default_rng(17)
    for bit in rng.integers(8 * len(whole), size=60).tolist():
        harmed = bytearray(whole)
        harmed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(harmed)
        with pytest.raises(FormatError, match=r"run-0\.safetensors .* delete it to train from the beginning"):
            fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), config, folder=tmp_path)
    path.write_bytes(whole)
    fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), config, folder=tmp_path)


def test_targets_that_are_no_numbers_are_named() -> None:
    bad = [*TRAIN[:7], Sample(TRAIN[7].item, TRAIN[7].targets * np.nan), *TRAIN[8:]]
    with pytest.raises(InputError, match=r"epoch 1, step \d+, training sample 7 .* targets hold NaN"):
        fit(Lookup(), LOSS, TrainingSamples(bad, VALIDATION), QUICK)
    with pytest.raises(InputError, match=r"validation sample 2 .* targets hold NaN"):
        fit(Lookup(), LOSS, TrainingSamples(TRAIN, [*VALIDATION[:2], bad[7]]), QUICK)


def test_a_training_that_diverges_is_reported() -> None:
    wild = FitConfig(optimizer="sgd", learning_rate=1e20, clip=None, warmup=0, device="cpu", batch_rows=8)
    with pytest.raises(
        ParameterError, match=r"not finite \(epoch 1, step \d, training sample \d+ .* lower learning_rate"
    ):
        fit(Lookup(), LOSS, TrainingSamples(TRAIN, ()), wild)
    with pytest.raises(ParameterError, match="monitor gave nan after epoch 1"):
        fit(Lookup(), LOSS, TrainingSamples(TRAIN, ()), QUICK, monitor=lambda _: float("nan"))


def test_wrong_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="no training samples"):
        fit(Lookup(), LOSS, TrainingSamples([], VALIDATION), QUICK)
    with pytest.raises(InputError, match=r"sample 0 .* has 2 units but 1 targets"):
        fit(Lookup(), LOSS, TrainingSamples([Sample({"ids": np.array([0, 1])}, np.zeros(1))], ()), QUICK)
    with pytest.raises(ParameterError, match="precision='fp16' needs a GPU"):
        fit(Lookup(), LOSS, TrainingSamples(TRAIN, ()), dataclasses.replace(QUICK, precision="fp16"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"optimizer": "adam"},
        {"warmup": 1.0},
        {"learning_rate": 0.0},
        {"clip": -1.0},
        {"patience": 0},
        {"average": 1.5},
    ],
)
def test_unfitting_settings_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        FitConfig(**wrong)


def test_mixed_precision_trains_and_a_plain_training_after_it_is_plain(plain: Fitted) -> None:
    mixed = fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), dataclasses.replace(QUICK, precision="bf16"))
    assert {weight.dtype for weight in weights(mixed).values()} == {torch.float32}
    assert 0 < abs(mixed.history[0].train_loss / plain.history[0].train_loss - 1) < 0.1
    assert_equal(fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), QUICK), plain)


def test_progress_tells_epochs_and_losses() -> None:
    told: list[str] = []
    done = 0

    class Listener:
        def start(self, what: str, total: int) -> None:
            told.append(what)

        def advance(self, steps: int) -> None:
            nonlocal done
            done += steps

        def stop(self) -> None: ...

    with listening(Listener()):
        fitted = fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), QUICK)
    first = fitted.history[0]
    assert told[1] == f"training: epoch 2 of 4 (loss {first.train_loss:.4g}, {first.validation_loss:.4g})"
    assert done == 4 * len(TRAIN)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_shares_of_processes_add_up_to_the_whole_batch(count: int) -> None:
    """The mean over 4 processes of weight * mean(own rows) is the mean over all rows."""
    rows = np.arange(count)
    parts = [share(rows, process, 4) for process in range(4)]
    assert all(len(mine) for mine, _ in parts)
    assert np.mean([weight * (mine**2).mean() for mine, weight in parts]) == pytest.approx((rows**2).mean())
    counted = np.concatenate([mine for mine, weight in parts if weight])
    assert sorted(counted) == list(rows)


LAUNCHED = """
from pathlib import Path
import sys
from tests.trained.test_fit import LOSS, QUICK, TRAIN, VALIDATION, Lookup, TrainingSamples, fit

samples = TrainingSamples(TRAIN, VALIDATION)
fit(Lookup(dropout=0.0), LOSS, samples, QUICK, folder=Path(sys.argv[1]), monitor=lambda shape: 1.0)
"""


def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    """As under ``accelerate launch``; only rounding may differ, as gradients are summed in another order."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    world = ENVIRONMENT | {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", LAUNCHED, str(tmp_path)], env=world | {"RANK": rank, "LOCAL_RANK": rank}
        )
        for rank in "01"
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    config = dataclasses.replace(QUICK, checkpoint_every=None)
    both = fit(
        Lookup(dropout=0.0),
        LOSS,
        TrainingSamples(TRAIN, VALIDATION),
        config,
        folder=tmp_path,
        monitor=lambda shape: 2.0,
    )
    alone = fit(Lookup(dropout=0.0), LOSS, TrainingSamples(TRAIN, VALIDATION), config, monitor=lambda shape: 1.0)
    assert {epoch.monitor for epoch in both.history} == {1.0}  # read from the checkpoint, not trained here
    losses = [[epoch.train_loss for epoch in fitted.history] for fitted in (both, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, weight in weights(alone).items():
        torch.testing.assert_close(weights(both)[name], weight, rtol=1e-4, atol=1e-5)


def test_a_signals_own_batches_are_what_is_trained_on() -> None:
    """Its rows, in its order, padded once; the loss of an epoch is the mean over them."""
    seen: list[list[int]] = []

    class Watching(Regression):
        def loss(self, outputs: Tensor, batch: TrainingBatch) -> Tensor:
            seen.append([int(extra["row"]) for extra in batch.extra])  # type: ignore[call-overload]
            return super().loss(outputs, batch)

    samples = [dataclasses.replace(sample, extra={"row": row}) for row, sample in enumerate(TRAIN[:6])]
    batches = [np.array([5, 5, 0]), np.array([1, 2])]
    own = TrainingSamples(samples, (), batches=lambda epoch: batches[: epoch + 1])
    fit(Lookup(dropout=0.0), Watching(), own, FitConfig(epochs=2, device="cpu", patience=None))
    assert seen == [[5, 5, 0], [5, 5, 0], [1, 2]]


def test_padding_all_samples_once_changes_nothing() -> None:
    samples = TrainingSamples(TRAIN, batches=lambda _: [np.arange(len(TRAIN))])
    kept = collated(Lookup(), samples, torch.device("cpu"))
    assert kept is not None
    rows = np.array([3, 1, 3])
    together, alone = kept.batch(rows, {}), batch_of(Lookup(), TRAIN, rows, torch.device("cpu"), {})
    width = alone.present.shape[1]
    assert torch.equal(together.present[:, :width], alone.present)
    assert not together.present[:, width:].any()
    assert torch.equal(together.targets[:, :width], alone.targets)
    assert collated(Lookup(), TrainingSamples(TRAIN), torch.device("cpu")) is None


def test_checkpoints_can_wait(tmp_path: Path) -> None:
    config = FitConfig(epochs=3, device="cpu", patience=None, checkpoint_every=1, checkpoint_seconds=3600)
    written: list[Path] = []

    def monitor(_: Shape) -> float:
        written.extend(tmp_path.iterdir())
        return 0.0

    fitted = fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), config, monitor=monitor, folder=tmp_path)
    assert not written, "none before the end"
    assert [path.name for path in tmp_path.iterdir()] == ["run-0.safetensors"]
    again = fit(Lookup(), LOSS, TrainingSamples(TRAIN, VALIDATION), config, monitor=monitor, folder=tmp_path)
    assert_equal(again, fitted)
    with pytest.raises(ParameterError, match="checkpoint_seconds of fit must not be negative"):
        FitConfig(checkpoint_seconds=-1.0)
