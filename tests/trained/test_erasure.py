"""Learning the order of the units in which the output falls fastest without them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations
from math import exp, log
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from didact.errors import ParameterError
from didact.protocols import Model
from didact.testing.learned import case_texts
from didact.trained.explainer import LearnedExplainer
from didact.trained.samples import TrainingBatch
from didact.trained.shapes.probe import Probe
from didact.trained.signals._orders import drawn_orders, own_orders
from didact.trained.signals.base import SignalTask
from didact.trained.signals.erasure import LARGEST, ErasureSignal
from didact.trained.train import train
from didact.types import Example, Floats, Keep, Target, Units
from tests.trained.planted import planted_model

WORDS = ("a", "b", "c", "d", "e")
ALONE = 0.3


class Planted:
    """A model of five words: of a and b, and of c and d, either does; each adds a little by itself."""

    scales = ("logit",)

    def value(self, kept: set[str]) -> float:
        added = {"a": 0.10, "c": 0.08, "b": 0.04, "d": 0.02, "e": 0.0}
        return float(bool(kept & {"a", "b"})) + float(bool(kept & {"c", "d"})) + sum(added[word] for word in kept)

    def score(
        self, units: Sequence[Units], targets: Sequence[Target], keep: Sequence[Keep], absence: str | None = None
    ) -> list[Floats]:
        return [np.array([self.value({WORDS[i] for i in np.flatnonzero(row)}) for row in own]) for own in keep]


def planted_batch(rows: int, generator: torch.Generator | None) -> TrainingBatch:
    """The planted text, so many times."""
    rng = np.random.default_rng(0)
    signs = np.where(rng.random((2, len(WORDS))) < 0.5, 1.0, -1.0)
    extra = {"signs": signs, "differences": np.zeros(2), "total": 0.0, "units": WORDS, "target": Target(0, "value")}
    present = torch.ones(rows, len(WORDS), dtype=torch.bool)
    return TrainingBatch(torch.zeros(present.shape), present, generator, {}, [extra] * rows, {"model": Planted()})


def gain(first: Sequence[int]) -> float:
    """What the reward of the planted text is where these units come first."""
    alone = {WORDS[i] for i in first}
    return ALONE * Planted().value(alone) - Planted().value(set(WORDS) - alone)


def gain_of_order(order: Sequence[int]) -> float:
    """Its mean over all places where an order can be cut."""
    return float(np.mean([gain(order[:cut]) for cut in range(1, len(order))]))


def shapley_of_planted() -> Floats:
    """By enumeration: the mean over all orders of what a unit adds to those before it."""
    made = np.zeros(len(WORDS))
    orders = list(permutations(range(len(WORDS))))
    for order in orders:
        for place, unit in enumerate(order):
            before = {WORDS[i] for i in order[:place]}
            made[unit] += (Planted().value(before | {WORDS[unit]}) - Planted().value(before)) / len(orders)
    return made


def log_probability(logits: Sequence[float], order: Sequence[int]) -> float:
    """Plackett-Luce: each unit is drawn from those that are left, in proportion to the exponential of its logit."""
    left, total = list(range(len(logits))), 0.0
    for unit in order:
        total += log(exp(logits[unit]) / sum(exp(logits[other]) for other in left))
        left.remove(unit)
    return total


def test_orders_are_drawn_as_often_as_their_log_probability_says() -> None:
    logits, many = [1.0, -0.5, 0.3, 0.0], 6000
    assert sum(exp(log_probability(logits, order)) for order in permutations(range(4))) == pytest.approx(1)
    rows = torch.tensor([logits] * 12)
    made = drawn_orders(rows, torch.ones(12, 4, dtype=torch.bool), many, torch.Generator().manual_seed(0))
    cuts = set()
    for first, log_p in zip(made.first, made.log_p.double().numpy(), strict=True):
        (cut,) = set(first.sum(1).tolist())  # orders of a text are cut at the same place
        cuts.add(cut)
        for chosen in combinations(range(4), cut):
            these = log_p[(first == np.isin(range(4), chosen)).all(1)]
            wanted = np.array([log_probability(logits, order) for order in permutations(chosen)])
            nearest = np.abs(these[:, None] - wanted).argmin(1)
            np.testing.assert_allclose(these, wanted[nearest], atol=1e-5)
            assert len(these) / many == pytest.approx(np.exp(wanted).sum(), abs=0.025)  # four standard errors
            shares = np.bincount(nearest, minlength=len(wanted)) / many
            np.testing.assert_allclose(shares, np.exp(wanted), atol=0.025)
    assert cuts == {1, 2, 3}  # one unit at least comes first, and one at least does not


def test_padding_changes_nothing() -> None:
    logits = torch.tensor([[0.4, -0.2, 0.9, 7.0, 7.0], [0.1, 0.2, 0.3, 0.4, 0.5], [2.0, -2.0, 7.0, 7.0, 7.0]])
    present = torch.arange(5) < torch.tensor([3, 5, 2])[:, None]
    logits.requires_grad_()
    made = drawn_orders(logits, present, 500, torch.Generator().manual_seed(1))
    for first, log_p, own, size in zip(made.first, made.log_p, logits, (3, 5, 2), strict=True):
        assert first.shape == (500, size)
        (cut,) = set(first.sum(1).tolist())
        assert 1 <= cut < size
        known = own[:size].tolist()
        for row, found in list(zip(first, log_p.tolist(), strict=True))[:50]:
            wanted = [log_probability(known, order) for order in permutations(np.flatnonzero(row).tolist())]
            assert np.abs(np.array(wanted) - found).min() < 1e-5
    made.log_p.sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert (logits.grad[~present] == 0).all()
    whole = own_orders(logits, present)
    assert [masks.tolist() for masks in whole] == [
        own_orders(own[:n][None], one[:n][None])[0].tolist()
        for own, one, n in zip(logits, present, (3, 5, 2), strict=True)
    ]
    assert whole[2].tolist() == [[True, False]]


def test_the_gradient_is_that_of_the_expected_gain() -> None:
    scores, sharpness, rows = [0.5, 0.1, 0.45, 0.2, -0.3], 1.5, 4000
    wanted = torch.tensor(scores, dtype=torch.double, requires_grad=True)
    logits = sharpness * (wanted - np.mean(scores)) / np.std(scores)
    expected = torch.zeros((), dtype=torch.double)
    for cut in range(1, len(WORDS)):
        for order in permutations(range(len(WORDS)), cut):
            left, log_p = list(range(len(WORDS))), torch.zeros((), dtype=torch.double)
            for unit in order:
                log_p = log_p + logits[unit] - logits[left].logsumexp(0)
                left.remove(unit)
            expected = expected + log_p.exp() * gain(order) / (len(WORDS) - 1)
    expected.backward()  # type: ignore[no-untyped-call]
    v = torch.tensor([scores] * rows)[..., None].requires_grad_()
    signal = ErasureSignal(anchor=0.0, sharpness=sharpness, alone=ALONE, spread=1.0)
    loss = signal.loss(v, planted_batch(rows, torch.Generator().manual_seed(0)))
    loss.sum().backward()  # type: ignore[no-untyped-call]
    assert loss.shape == (rows,)
    assert v.grad is not None
    assert wanted.grad is not None
    each = v.grad[..., 0].double()
    errors = each.std(0) / rows**0.5
    assert errors.max() < 0.1 * wanted.grad.abs().max()
    assert ((each.mean(0) + wanted.grad).abs() < 4 * errors).all()


def test_it_finds_an_order_that_shapley_values_miss() -> None:
    shapley = shapley_of_planted()
    signal = ErasureSignal(anchor=0.0, alone=ALONE, spread=1.0)
    v = torch.tensor(shapley[None, :, None], dtype=torch.float, requires_grad=True)
    optimizer = torch.optim.Adam([v], lr=0.02)
    generator = torch.Generator().manual_seed(0)
    gains = [-float(signal.loss(v, planted_batch(1, None))[0])]
    for _ in range(300):
        optimizer.zero_grad()
        signal.loss(v, planted_batch(1, generator)).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    gains.append(-float(signal.loss(v, planted_batch(1, None))[0]))
    best = max(gain_of_order(order) for order in permutations(range(len(WORDS))))
    assert gains[0] == pytest.approx(gain_of_order(np.argsort(-shapley).tolist()), abs=1e-6)
    assert gains[1] > gains[0] + 0.9 * (best - gains[0])
    order = np.argsort(-v.detach().numpy()[0, :, 0]).tolist()
    assert {WORDS[i] for i in order[:2]} in ({"a", "b"}, {"c", "d"})  # either of a pair alone changes next to nothing


def test_epochs_are_compared_by_the_gain_of_the_own_order() -> None:
    v = torch.tensor([[0.1, 0.5, 0.4, 0.2, -0.3], [0.5, 0.4, 0.3, 0.2, 0.1]])[..., None]
    signal = ErasureSignal(alone=ALONE, spread=2.0)
    losses = signal.loss(v, planted_batch(2, None))
    wanted = [-gain_of_order(order) / 2.0 for order in ([1, 2, 3, 0, 4], [0, 1, 2, 3, 4])]
    np.testing.assert_allclose(losses.numpy(), wanted, atol=1e-6)
    assert torch.equal(losses, signal.loss(v, planted_batch(2, None)))
    # by hand, for a, b, c, d, e and without what the first units do alone: 2.14, 1.10, 1.02 and 0 are left
    plain = ErasureSignal(alone=0.0, spread=1.0).loss(v, planted_batch(2, None))
    assert float(plain[1]) == pytest.approx((2.14 + 1.10 + 1.02 + 0.0) / 4, abs=1e-6)


class Shown(Planted):
    """As ``Planted``; where units are deleted, what is left counts differently."""

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, int]] = []

    def score(
        self, units: Sequence[Units], targets: Sequence[Target], keep: Sequence[Keep], absence: str | None = None
    ) -> list[Floats]:
        self.asked += [(absence, int((~row).sum())) for own in keep for row in own]
        plain = super().score(units, targets, keep, absence)
        return [own**2 for own in plain] if absence == "delete" else plain


def test_ways_of_showing_absence_take_turns_and_count_alike() -> None:
    v = torch.tensor([[0.1, 0.5, 0.4, 0.2, -0.3]])[..., None]
    given = {name: replace(planted_batch(1, None), shared={"model": Shown()}) for name in ("mask", "delete", "both")}
    made = {
        name: float(ErasureSignal(alone=0.0, spread=1.0, absences=ways).loss(v, given[name])[0])
        for name, ways in {"mask": ("mask",), "delete": ("delete",), "both": ("mask", "delete")}.items()
    }
    assert made["mask"] != pytest.approx(made["delete"], abs=1e-2)
    assert made["both"] == pytest.approx((made["mask"] + made["delete"]) / 2, abs=1e-6)
    model, generator = Shown(), torch.Generator().manual_seed(0)
    signal = ErasureSignal(alone=0.0, spread=1.0, absences=("mask", "delete"))
    for _ in range(60):
        before = len(model.asked)
        signal.loss(v.expand(3, -1, -1), replace(planted_batch(3, generator), shared={"model": model}))
        assert len({way for way, _ in model.asked[before:]}) == 1  # orders of a text are compared with each other
    absent = {way: [n for own, n in model.asked if own == way] for way in ("mask", "delete")}
    assert len(absent["mask"]) + len(absent["delete"]) == len(model.asked)
    assert min(map(len, absent.values())) > 0.3 * len(model.asked)
    assert set(absent["mask"]) == {1, 2, 3, 4}
    assert set(absent["delete"]) == {1, 2}  # up to half of five
    plain = Shown()
    ErasureSignal(spread=1.0).loss(v, replace(planted_batch(1, generator), shared={"model": plain}))
    assert {way for way, _ in plain.asked} == {None}


def test_gains_stay_finite_where_a_probability_is_rounded() -> None:
    signal = ErasureSignal(odds=0.05, spread=4.0)
    target = Target(0, "positive", "log_probability")
    values = np.array([0.0, 1e-9, -1e-20, log(0.5), log(0.9), -800.0, -np.inf])
    made = signal._good(values, target)
    assert np.isfinite(made).all()
    np.testing.assert_allclose(made[:3], 1 + 0.05 * LARGEST)
    np.testing.assert_allclose(made[3:5], [0.5, 0.9 + 0.05 * log(9)])
    np.testing.assert_allclose(made[5:], -0.05 * LARGEST)
    np.testing.assert_allclose(signal._good(np.array([2.0, -6.0]), Target(0, "value", "logit")), [0.5, -1.5])


@pytest.fixture(scope="module")
def model() -> Model:
    """A network in which known words decide."""
    return planted_model({"wonderful": 3.0, "good": 2.0, "dull": -2.0, "avoid": -3.0})


@pytest.fixture(scope="module")
def texts() -> list[Example]:
    return case_texts("black_box")[0]


def test_it_learns_explains_and_is_saved(model: Model, texts: list[Example], tmp_path: Path) -> None:
    few = {"pairs": 2, "rounds": 1, "epochs": 4, "rank": 8, "width": 16, "learning_rate": 1e-2}
    made, plain = (train("probe", model, texts[:40], signal=name, **few) for name in ("erasure", "ablate"))  # type: ignore[arg-type]
    assert made.signal.parameters["warm"] == 2  # the first half of the epochs
    explained = made.explain(model, texts[70:75])
    assert explained[0].cost.forwards == 1
    counted, fewer = (one.about.cost["evaluations of the model"] for one in (made, plain))
    assert counted > fewer
    made.save_pretrained(tmp_path)
    loaded = LearnedExplainer.from_pretrained(tmp_path, model=model, device="cpu")
    assert loaded.signal.card.name == "erasure"
    assert loaded.signal == made.signal
    for first, second in zip(explained, loaded.explain(model, texts[70:75]), strict=True):
        np.testing.assert_array_equal(first.array, second.array)


def test_both_ways_of_showing_absence_are_learned_from_and_saved(
    model: Model, texts: list[Example], tmp_path: Path
) -> None:
    few = {"pairs": 2, "rounds": 1, "epochs": 4, "rank": 8, "width": 16, "learning_rate": 1e-2}
    ways = {"absences": ["mask", "delete"]}
    made = train("probe", model, texts[:40], signal="erasure", signal_settings=ways, **few)  # type: ignore[arg-type]
    plain = train("probe", model, texts[:40], signal="erasure", **few)  # type: ignore[arg-type]
    first, second = (own.explain(model, texts[70:75]) for own in (made, plain))
    assert any((one.array != other.array).any() for one, other in zip(first, second, strict=True))
    made.save_pretrained(tmp_path)
    loaded = LearnedExplainer.from_pretrained(tmp_path, model=model, device="cpu")
    assert loaded.signal == made.signal
    assert loaded.signal.parameters["absences"] == ("mask", "delete")


def test_ways_that_the_model_does_not_have_are_refused_before_training(model: Model, texts: list[Example]) -> None:
    signal = ErasureSignal(absences=("mask", "blur"))
    shape = Probe.build(model, model.units(texts[:4]), 1, {"per_class": True, "norm": "position", "seed": 0})
    with pytest.raises(ParameterError, match="unknown perturbation 'blur'; allowed: "):
        signal.prepare(SignalTask(model, texts[:4], texts[4:6]), shape)


def test_half_of_the_epochs_that_are_trained_are_warm(model: Model, texts: list[Example]) -> None:
    few = {"pairs": 1, "rounds": 1, "rank": 4, "width": 8, "fit": {"epochs": 2}}
    made = train("probe", model, texts[:30], signal="erasure", epochs=10, **few)  # type: ignore[arg-type]
    assert made.signal.parameters["warm"] == 1
    own = train("probe", model, texts[:30], signal="erasure", signal_settings={"warm": 0}, **few)  # type: ignore[arg-type]
    assert own.signal.parameters["warm"] == 0


def test_epochs_that_are_all_warm_are_refused(model: Model, texts: list[Example]) -> None:
    with pytest.raises(ParameterError, match="warm of erasure is 3 and there are 3 epochs, so that no order"):
        train("probe", model, texts[:30], signal="erasure", epochs=3, signal_settings={"warm": 3})


def test_orders_are_drawn_after_the_warm_epochs_and_for_predicted_classes(model: Model, texts: list[Example]) -> None:
    signal = ErasureSignal(pairs=2, rounds=1, classes=2, warm=2)
    shape = Probe.build(model, model.units(texts[:4]), 1, {"per_class": True, "norm": "position", "seed": 0})
    samples = signal.prepare(SignalTask(model, texts[:4], texts[4:6]), shape)
    with_units = [["units" in sample.extra for sample in samples.of_epoch(epoch)] for epoch in range(4)]
    assert with_units == [[False] * 8] * 2 + [[True] * 4 + [False] * 4] * 2
    assert [len(cast("Units", sample.extra["units"])) for sample in samples.validation] == [
        len(own) for own in model.units(texts[4:6])
    ]
    assert {cast("Target", sample.extra["target"]).label for sample in samples.validation} <= set(model.labels)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"orders": 1}, "orders of erasure must be at least 2, got 1"),
        ({"warm": -1}, "warm of erasure must be at least 0, got -1"),
        ({"sharpness": 0.0}, r"sharpness of erasure must be above 0, got 0\.0"),
        ({"anchor": -0.1}, r"anchor of erasure must be at least 0, got -0\.1"),
        ({"alone": -1.0}, r"alone of erasure must be at least 0, got -1\.0"),
        ({"odds": float("nan")}, "odds of erasure must be at least 0, got nan"),
        ({"pairs": 0}, "pairs of erasure must be at least 1, got 0"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ErasureSignal(**settings)  # type: ignore[arg-type]
