"""Learning how sets of first units differ in what the output loses without them, from few evaluations."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from didact.errors import ParameterError
from didact.protocols import Model
from didact.testing.learned import case_texts
from didact.trained.explainer import LearnedExplainer
from didact.trained.presets.base import PRESETS, TrainingInput
from didact.trained.samples import TrainingBatch
from didact.trained.shapes.probe import Probe
from didact.trained.signals._kept_sets import KeptSets
from didact.trained.signals.base import SignalTask
from didact.trained.signals.contrast import Contrast
from didact.trained.train import train
from didact.types import Example
from tests.trained.planted import planted_model
from tests.trained.test_erasure import WORDS, Planted, planted_batch


class Counting(Planted):
    """The planted model, which counts what it evaluates."""

    evaluated = 0

    def score(self, *given: object) -> list[np.ndarray]:
        made = super().score(*given)  # type: ignore[arg-type]
        self.evaluated += sum(map(len, made))
        return made


def batch_of(
    texts: int, orders: int, parts: int, model: Counting | None = None
) -> tuple[TrainingBatch, Counting, KeptSets]:
    """A planted text, so many times, with room for its sets."""
    model, kept = model or Counting(), KeptSets(texts, orders, len(WORDS), parts)
    batch = planted_batch(texts, torch.Generator().manual_seed(0))
    extra = [{**own, "number": number} for number, own in enumerate(batch.extra)]
    return replace(batch, extra=extra, shared={"model": model, "kept": kept}), model, kept


@pytest.mark.parametrize("alone", [0.0, 0.4])
def test_the_loss_is_the_regression_on_differences_by_hand(alone: float) -> None:
    signal = Contrast(anchor=0.0, alone=alone, orders=3, spread=2.0)
    batch, model, kept = batch_of(6, 3, 2 if alone else 1)
    scores = np.random.default_rng(0).normal(size=(6, len(WORDS)))
    found = signal.loss(torch.tensor(scores)[..., None], batch)
    wanted = []
    for v, masks in zip(scores, kept.masks.numpy(), strict=True):
        assert len(set(masks.sum(1))) == 1  # sets of a text have one size
        assert 1 <= masks[0].sum() <= 2  # up to half of five
        sums = np.array([v[own].sum() for own in masks])
        lost, alone_ = (
            np.array([sign * model.value({WORDS[i] for i in np.flatnonzero(own)}) / 2.0 for own in sets])
            for sign, sets in ((-1, ~masks), (1, masks))
        )
        each = [((d - d.mean() - sums + sums.mean()) ** 2).sum() / 2 for d in (lost, alone_)]
        wanted.append(each[0] + alone * each[1])
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)


def test_the_model_is_evaluated_once_for_each_text() -> None:
    signal = Contrast(alone=0.0, orders=4, spread=1.0)
    batch, model, kept = batch_of(3, 4, 1)
    v = torch.randn(3, len(WORDS), 1, generator=torch.Generator().manual_seed(0))
    first = signal.loss(v, batch)
    assert model.evaluated == 3 * 4
    assert kept.known.all()
    torch.testing.assert_close(signal.loss(v, batch), first)
    some = replace(batch, targets=batch.targets[1:], present=batch.present[1:], extra=batch.extra[1:])
    torch.testing.assert_close(signal.loss(v[1:], some), first[1:])  # whatever else is in the batch
    assert model.evaluated == 3 * 4
    again = KeptSets(3, 4, len(WORDS), 1)
    again.load_state_dict(kept.state_dict())  # as a checkpoint brings it back
    resumed = replace(batch, shared={"model": model, "kept": again})
    torch.testing.assert_close(signal.loss(v, resumed), first)
    assert model.evaluated == 3 * 4


class Either(Counting):
    """Either of a and b does; c adds more than the Shapley value of each, and less than both."""

    def value(self, kept: set[str]) -> float:
        return float(bool(kept & {"a", "b"})) + 0.6 * ("c" in kept) + 0.05 * ("d" in kept)


def test_it_finds_an_order_that_shapley_values_miss() -> None:
    """Without a and b the output loses 1, without c and either of them 0.6."""
    shapley = np.array([0.5, 0.5, 0.6, 0.05, 0.0])
    signal = Contrast(anchor=0.0, orders=200, spread=1.0)  # sets of a, b and c, mostly
    batch, _, kept = batch_of(8, 200, 1, Either())
    v = torch.tensor(np.tile(shapley, (8, 1))[..., None], dtype=torch.float, requires_grad=True)
    optimizer = torch.optim.Adam([v], lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        signal.loss(v, batch).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    pairs = kept.masks.sum(-1)[:, 0] == 2  # texts whose sets have two units
    assert pairs.any()
    first = v.detach()[pairs, :, 0].argsort(dim=1, descending=True)[:, :2]
    assert all({WORDS[i] for i in own} == {"a", "b"} for own in first.tolist())


@pytest.fixture(scope="module")
def model() -> Model:
    """A network in which known words decide."""
    return planted_model({"wonderful": 3.0, "good": 2.0, "dull": -2.0, "avoid": -3.0})


@pytest.fixture(scope="module")
def texts() -> list[Example]:
    return case_texts("black_box")[0]


def test_sets_are_drawn_after_the_warm_epochs_and_for_predicted_classes(model: Model, texts: list[Example]) -> None:
    signal = Contrast(pairs=2, rounds=1, classes=2, warm=2)
    shape = Probe.build(model, model.units(texts[:4]), 1, {"per_class": True, "norm": "position", "seed": 0})
    samples = signal.prepare(SignalTask(model, texts[:4], texts[4:6]), shape)
    numbers = [[sample.extra.get("number") for sample in samples.of_epoch(epoch)] for epoch in (1, 2)]
    assert numbers == [[None] * 8, [0, 1, 2, 3, None, None, None, None]]
    assert samples.carried == ("kept",)
    assert cast("KeptSets", samples.shared["kept"]).masks.shape[:2] == (4, 4)


def test_it_learns_counts_is_saved_and_resumes(
    model: Model, texts: list[Example], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"pairs": 2, "rounds": 1, "epochs": 4, "rank": 8, "width": 16, "learning_rate": 1e-2, "signal": "contrast"}
    few["fit"] = {"checkpoint_every": 1, "checkpoint_seconds": 0}
    made = train("probe", model, texts[:40], **few)  # type: ignore[arg-type]
    assert made.signal.parameters["warm"] == 2  # the first half of the epochs
    plain = train("probe", model, texts[:40], **{**few, "signal": "ablate"})  # type: ignore[arg-type]
    more, fewer = (one.about.cost["evaluations of the model"] for one in (made, plain))
    assert more > fewer  # type: ignore[operator] # numbers
    made.save_pretrained(tmp_path / "saved")
    loaded = LearnedExplainer.from_pretrained(tmp_path / "saved", model=model, device="cpu")
    assert loaded.signal == made.signal

    steps = 0
    loss = Contrast.loss

    def killed(self: Contrast, outputs: torch.Tensor, batch: TrainingBatch) -> torch.Tensor:
        nonlocal steps
        steps += batch.generator is not None and any("number" in own for own in batch.extra)
        if steps == 2:
            raise KeyboardInterrupt
        return loss(self, outputs, batch)

    given = TrainingInput(model=model, examples=texts[:40], folder=tmp_path / "killed")
    preset = PRESETS.get("probe").configured(**few)
    monkeypatch.setattr(Contrast, "loss", killed)
    with pytest.raises(KeyboardInterrupt):
        preset.train(given)
    monkeypatch.setattr(Contrast, "loss", loss)
    resumed = preset.train(given)
    assert resumed.parameters["weights"] == made.parameters["weights"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"orders": 1}, "orders of contrast must be at least 2, got 1"),
        ({"sharpness": 0.0}, r"sharpness of contrast must be above 0, got 0\.0"),
        ({"alone": -1.0}, r"alone of contrast must be at least 0, got -1\.0"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Contrast(**settings)  # type: ignore[arg-type]
