"""Distillation losses against hand-worked values and slow loops over the paper's formulas."""

import dataclasses
import math
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.errors import InputError, ParameterError, UnknownNameError
from didact.models.load import load_model
from didact.ops.units import word_spans
from didact.testing.tiny import keyword_predict
from didact.trained.labels import averaged, normalised
from didact.trained.samples import TrainingBatch
from didact.trained.signals._distil import Distil
from didact.trained.signals.base import SIGNALS, Signal
from didact.trained.signals.combined import Combined, weight_classes
from didact.trained.signals.labelling import Labelling, kinds
from didact.trained.signals.ranking import Ranking
from didact.trained.signals.regression import Regression
from didact.types import Example, Explanation, Prediction, Target, Units

PREDICTION = Prediction(("no", "yes"), (0.0, 1.0), (0.27, 0.73))


def explained(weights: list[float], *, signed: bool = True, method: str = "lime", target: int = 1) -> Explanation:
    text = " ".join(f"word{i}" for i in range(len(weights)))
    units = Units(Example(text), "word", tuple(word_spans(text)))
    return Explanation(method, units, tuple(weights), Target(target, ("no", "yes")[target]), PREDICTION, signed=signed)


def loss_of(signal: Distil, weights: list[float], v: Tensor) -> Tensor:
    """Of one document: v (units,) or (units, outputs)."""
    outputs = v[None, :, None] if v.ndim == 1 else v[None]
    targets = torch.from_numpy(signal.targets(explained(weights)))[None]
    return signal.loss(outputs, TrainingBatch(targets, torch.ones(1, len(v), dtype=torch.bool)))[0]


def slow_ranking(v: list[float], w: list[float]) -> float:
    """The paper's double sum; a tie counts half for either answer."""
    total = 0.0
    for i in range(len(v)):
        for j in range(i + 1, len(v)):
            both = math.log(math.exp(v[i]) + math.exp(v[j]))
            first, second = both - v[i], both - v[j]
            total += first if abs(w[i]) > abs(w[j]) else second if abs(w[j]) > abs(w[i]) else (first + second) / 2
    return total


def test_ranking_of_three_words_by_hand() -> None:
    # |w| = 3, 1, 2 and v = 0, log 2, log 4, so e^v = 1, 2, 4. Pairs: (0,1) -> k = 0: 1/3; (0,2) -> k = 0: 1/5;
    # (1,2) -> k = 2: 4/6. The loss is log(3 * 5 * 6 / 4) = log 22.5.
    v = torch.tensor([0.0, math.log(2), math.log(4)], dtype=torch.float64)
    assert loss_of(Ranking(), [-3.0, 1.0, 2.0], v).item() == pytest.approx(math.log(22.5), abs=1e-12)
    # The sign of w decides nothing, unless asked: then the order is 2, 1, 0 and the loss log(3/2 * 5/4 * 6/4).
    by_sign = loss_of(Ranking(by="signed"), [-3.0, 1.0, 2.0], v)
    assert by_sign.item() == pytest.approx(math.log(3 / 2 * 5 / 4 * 6 / 4), abs=1e-12)
    mean = loss_of(Ranking(reduce="mean"), [-3.0, 1.0, 2.0], v)
    assert mean.item() == pytest.approx(math.log(22.5) / 3, abs=1e-12)


@pytest.mark.parametrize("pairs", [None, 64])
def test_ranking_is_the_double_sum_of_the_paper(pairs: int | None) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 13, 40):
        w = rng.integers(-3, 4, n) / 2  # many ties, and many zeros
        v = rng.normal(0, 2, n)
        found = loss_of(Ranking(pairs=pairs), w.tolist(), torch.from_numpy(v))
        assert found.item() == pytest.approx(slow_ranking(v.tolist(), w.tolist()), rel=1e-12, abs=1e-12)


def test_equal_words_are_drawn_together_and_left_alone_where_they_are() -> None:
    signal = Ranking()
    v = torch.tensor([0.7, 0.7], requires_grad=True)
    (gradient,) = torch.autograd.grad(loss_of(signal, [2.0, -2.0], v), v)
    assert gradient.tolist() == [0.0, 0.0]
    at = {d: loss_of(signal, [2.0, -2.0], torch.tensor([d, 0.0])).item() for d in (-3.0, 0.0, 3.0)}
    assert at[3.0] == pytest.approx(at[-3.0])
    assert at[0.0] == pytest.approx(math.log(2))
    assert at[3.0] > at[0.0]


def test_the_gradient_at_equal_outputs_points_to_the_references_order() -> None:
    v = torch.zeros(2, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss_of(Ranking(), [1.0, 2.0], v), v)
    assert gradient.tolist() == [0.5, -0.5]  # of log(1 + e^(v_0 - v_1)) at 0


@pytest.mark.parametrize(
    "signal", [Ranking(), Ranking(pairs=2), Labelling(), Labelling(classes=3), Regression(), Combined()]
)
def test_what_is_not_present_has_no_part_in_the_loss(signal: Distil) -> None:
    # The published code let the label tags at both ends into pairs, the last one as the largest of all.
    w = [0.5, -1.0, 0.25]
    words = torch.randn(1, 3, signal.outputs, generator=torch.Generator().manual_seed(0))
    targets = torch.from_numpy(signal.targets(explained(w)))[None]
    plain = signal.loss(words, TrainingBatch(targets, torch.ones(1, 3).bool()))
    for tag, stored in ((9.0, -100.0), (-9.0, 100.0), (0.0, math.nan)):
        outputs = torch.full((1, 5, signal.outputs), tag)
        outputs[:, 1:4] = words
        outputs.requires_grad_()
        targets = torch.full((1, 5), stored, dtype=torch.float64)
        targets[0, 1:4] = torch.from_numpy(signal.targets(explained(w)))
        found = signal.loss(outputs, TrainingBatch(targets, torch.tensor([[False, True, True, True, False]])))
        assert found.item() == pytest.approx(plain.item(), rel=1e-6)
        (gradient,) = torch.autograd.grad(found.sum(), outputs)
        assert gradient[:, [0, 4]].abs().max() == 0
        assert gradient.isfinite().all()


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize(
    "signal",
    [
        *(Ranking(), Labelling(), Labelling(classes=3), Regression(), Regression(delta=0.1)),
        *(Combined(), Combined(classes=3)),
    ],
)
def test_a_padded_batch_is_its_documents_one_by_one(signal: Distil, reduce: str) -> None:
    signal = dataclasses.replace(signal, reduce=reduce)  # type: ignore[type-var]
    rng = np.random.default_rng(1)
    documents = [rng.integers(-4, 5, n).astype(float).tolist() for n in (1, 7, 4, 12)]
    outputs = torch.from_numpy(rng.normal(size=(4, 12, signal.outputs)))
    targets, present = torch.zeros(4, 12, dtype=torch.float64), torch.zeros(4, 12, dtype=torch.bool)
    for row, w in enumerate(documents):
        targets[row, : len(w)] = torch.from_numpy(signal.targets(explained(w)))
        present[row, : len(w)] = True
    together = signal.loss(outputs, TrainingBatch(targets, present))
    alone = [loss_of(signal, w, outputs[row, : len(w)]).item() for row, w in enumerate(documents)]
    assert together.tolist() == pytest.approx(alone)


def test_sampled_pairs_give_the_full_loss_on_average() -> None:
    rng = np.random.default_rng(2)
    w, v = rng.integers(0, 6, 30) / 1.0, torch.from_numpy(rng.normal(size=30))
    signal, generator = Ranking(pairs=3), torch.Generator().manual_seed(0)
    draws = 400
    outputs = v[None, :, None].expand(draws, -1, -1)
    targets = torch.from_numpy(signal.targets(explained(w.tolist()))).expand(draws, -1)
    found = signal.loss(outputs, TrainingBatch(targets, torch.ones(draws, 30, dtype=torch.bool), generator))
    full = slow_ranking(v.tolist(), w.tolist())
    error = found.std().item() / math.sqrt(draws)
    assert error > 0  # really sampled
    assert abs(found.mean().item() - full) < 4 * error
    assert error < 0.02 * full


def test_pairs_are_sampled_in_long_documents_alone_and_by_the_generator() -> None:
    rng = np.random.default_rng(3)
    signal = Ranking(pairs=4)
    outputs = torch.from_numpy(rng.normal(size=(2, 50, 1)))
    present = torch.arange(50) < torch.tensor([[5], [50]])
    targets = torch.from_numpy(np.stack([signal.targets(explained(rng.normal(size=50).tolist()))] * 2))
    first, second, again = (
        signal.loss(outputs, TrainingBatch(targets, present, torch.Generator().manual_seed(seed))).tolist()
        for seed in (0, 1, 0)
    )
    assert first == again
    assert first[1] != second[1]
    w, v = targets[0, :5].tolist(), outputs[0, :5, 0].tolist()
    assert first[0] == second[0] == pytest.approx(slow_ranking(v, w))
    unsaid = [signal.loss(outputs, TrainingBatch(targets, present)).tolist() for _ in range(2)]
    assert unsaid[0] == unsaid[1]


def test_five_classes_by_hand() -> None:
    # Positive weights 1, 2, 6 have mean 3; negative ones -1, -4 have mean -2.5; a weight at the mean is a low one.
    assert kinds(np.array([1.0, 2, 6, 0, -1, -4])).tolist() == [3, 3, 4, 2, 1, 0]
    assert kinds(np.array([1.0, 3, 2, 0])).tolist() == [3, 4, 3, 2]
    assert kinds(np.array([-0.5])).tolist() == [1]


def test_three_classes_by_hand() -> None:
    # Mean 3, squared deviations 4, 0, 0, 4 -> deviation sqrt 2: high from 4.41 on, low below 1.59.
    assert kinds(np.array([5.0, 3, 3, 1]), 3).tolist() == [0, 1, 1, 2]
    # Mean 2 and deviation exactly 2 -> 4 is high (w >= 4), 0 is medium (w >= 0).
    assert kinds(np.array([4.0, 0]), 3).tolist() == [0, 1]


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, -0.7])
@pytest.mark.parametrize("n", [1, 3, 7, 49])
def test_words_of_equal_weight_are_never_strong(value: float, n: int) -> None:
    assert kinds(np.full(n, value)).tolist() == [2 + int(np.sign(value))] * n
    assert kinds(np.full(n, value), 3).tolist() == [1] * n


@pytest.mark.parametrize("signal", [Ranking(), Labelling(), Labelling(classes=3), Regression()])
def test_a_document_without_any_weight_is_learned_as_flat(signal: Signal) -> None:
    explanation = explained([0.0, 0.0, 0.0])
    assert len(set(signal.targets(explanation).tolist())) == 1
    outputs = torch.zeros(1, 3, signal.outputs, requires_grad=True)
    targets = torch.from_numpy(signal.targets(explanation))[None]
    loss = signal.loss(outputs, TrainingBatch(targets, torch.ones(1, 3).bool()))
    (gradient,) = torch.autograd.grad(loss.sum(), outputs)
    assert gradient.isfinite().all()
    assert (gradient == gradient[:, :1]).all()


def test_labelling_is_the_summed_cross_entropy() -> None:
    v = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    classes = [3, 4, 2, 1]  # of 1, 5, 0, -1
    by_hand = sum(math.log(sum(math.exp(x) for x in row)) - row[c] for row, c in zip(v.tolist(), classes, strict=True))
    assert loss_of(Labelling(), [1.0, 5.0, 0.0, -1.0], v).item() == pytest.approx(by_hand)


def test_labelling_scores_are_the_expected_class() -> None:
    sure = torch.eye(5) * 50
    assert Labelling().scores(sure).tolist() == pytest.approx([-3, -1, 0, 1, 3])
    assert Labelling(classes=3).scores(torch.eye(3) * 50).tolist() == pytest.approx([2, 1, 0])
    # Probability 1/3 for "low positive" (1), 2/3 for "high positive" (3): 7/3.
    torn = torch.tensor([-50.0, -50, -50, 0, math.log(2)])
    assert Labelling().scores(torn).item() == pytest.approx(7 / 3)
    assert Labelling().high == 2  # between 1 and 3
    assert Labelling(classes=3).high is None


def test_regression_by_hand() -> None:
    # w = (2, -4) becomes (0.5, -1); v = (0, 0): (0.25 + 1) / 2, and with delta 0.5: 0.125 + 0.5 (1 - 0.25).
    v = torch.zeros(2, dtype=torch.float64)
    assert loss_of(Regression(), [2.0, -4.0], v).item() == pytest.approx(0.625)
    assert loss_of(Regression(delta=0.5), [2.0, -4.0], v).item() == pytest.approx(0.5)
    assert normalised(np.array([3.0, -4.0]), "norm").tolist() == pytest.approx([0.6, -0.8])
    assert normalised(np.array([1.0, -3.0]), "sum").tolist() == pytest.approx([0.25, -0.75])
    assert normalised(np.array([3.0, -4.0]), "none").tolist() == [3.0, -4.0]


def test_signals_suit_themselves_to_references_without_signs() -> None:
    assert (Labelling.suited(signed=False).classes, Labelling.suited(signed=True).classes) == (3, 5)
    assert Labelling.suited(signed=False, classes=5).classes == 5
    assert (Regression.suited(signed=False).signed, Regression.suited(signed=True).signed) == (False, True)
    assert Ranking.suited(signed=False, pairs=7) == Ranking(pairs=7)
    assert [s.signed for s in (Ranking(), Labelling(), Labelling(classes=3), Regression())] == [
        False,
        True,
        False,
        True,
    ]


def test_several_references_are_averaged_after_being_brought_to_one_size() -> None:
    large, small = explained([10.0, -5.0, 0.0], method="a"), explained([0.0, 0.1, 0.2], method="b")
    both = averaged([large, small])
    assert both.scores == pytest.approx((0.5, 0.0, 0.5))  # (1, -.5, 0) and (0, .5, 1)
    assert (both.method, both.signed) == ("a+b", True)
    unsigned = averaged([large, dataclasses.replace(small, signed=False)])
    assert unsigned.scores == pytest.approx((0.5, 0.5, 0.5))
    assert not unsigned.signed


def test_references_of_other_texts_or_outputs_are_not_averaged() -> None:
    with pytest.raises(InputError, match="different units"):
        averaged([explained([1.0, 2.0]), explained([1.0, 2.0, 3.0])])
    with pytest.raises(InputError, match="'yes' and lime 'no'"):
        averaged([explained([1.0]), explained([1.0], target=0)])


def test_repeated_words_have_targets_of_their_own() -> None:
    model = load_model(keyword_predict, labels=("negative", "positive"))
    (units,) = model.units([Example("good good film")])
    explanation = Explanation("lime", units, (1.0, 3.0, 0.5), Target(1, "positive"), model.predict([units.example])[0])
    assert Ranking().targets(explanation).tolist() == [1, 2, 0]


def test_settings_make_the_same_signal_again() -> None:
    assert set(SIGNALS.names()) >= {"ranking", "labelling", "regression"}
    for signal in (Ranking(by="signed", pairs=None), Labelling(classes=3), Regression(delta=0.3, normalise="norm")):
        assert SIGNALS.get(signal.card.name)(**signal.parameters) == signal
    with pytest.raises(UnknownNameError, match="did you mean ranking"):
        SIGNALS.get("rankin")


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (Ranking, {"pairs": 0}, "pairs of ranking must be at least 1"),
        (Ranking, {"by": "size"}, "by of ranking must be one of"),
        (Labelling, {"classes": 4}, "classes of labelling must be one of"),
        (Regression, {"delta": 0.0}, "delta of regression must be above 0"),
        (Regression, {"normalise": "tanh"}, "normalise of regression must be one of"),
        (Regression, {"reduce": "max"}, "reduce of regression must be one of"),
    ],
)
def test_settings_out_of_range_are_refused(cls: type[Signal], settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        cls(**settings)


@pytest.mark.parametrize("classes", [3, 5])
def test_classes_of_a_batch_are_those_of_labelling(classes: Literal[3, 5]) -> None:
    rng = np.random.default_rng(4)
    documents = [rng.integers(-3, 4, n) / 4 for n in (1, 2, 9, 30)] + [np.zeros(3), np.full(4, 0.3), np.full(3, -0.1)]
    w, present = torch.zeros(len(documents), 30), torch.zeros(len(documents), 30, dtype=torch.bool)
    for row, weights in enumerate(documents):
        w[row, : len(weights)] = torch.from_numpy(weights)
        present[row, : len(weights)] = True
    found = weight_classes(w, present, classes)
    for row, weights in enumerate(documents):
        assert found[row, : len(weights)].tolist() == kinds(weights, classes).tolist()


def test_combined_adds_the_squared_error_of_the_weights_to_the_classes() -> None:
    # w = 4, -2, 0 becomes 1, -.5, 0 by the largest; alone of its sign each is low: classes 3, 1, 2.
    v = torch.zeros(3, 6, dtype=torch.float64)
    v[:, -1] = torch.tensor([0.0, 0.5, 0.0])
    expected = 3 * math.log(5) + 7.0 * (1 + 1 + 0) / 2
    assert loss_of(Combined(weight=7.0), [4.0, -2.0, 0.0], v).item() == pytest.approx(expected, abs=1e-12)


def test_scores_of_combined_are_the_mean_of_class_and_weight() -> None:
    outputs = torch.tensor([[-40.0, -40.0, -40.0, -40.0, 40.0, 0.5], [40.0, -40.0, -40.0, -40.0, -40.0, -1.0]])
    assert Combined().scores(outputs).tolist() == pytest.approx([(1 + 0.5) / 2, (-1 - 1) / 2])
    assert Combined().signed
    assert Combined.suited(signed=False).outputs == 4
    assert not Combined.suited(signed=False).signed
    with pytest.raises(ParameterError, match=r"weight of combined must be above 0, got 0\.0; 0 is labelling"):
        Combined(weight=0.0)
