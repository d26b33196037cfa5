"""Cheap methods predict in the pass that they differentiate; a plain pass guards the first batch and some others."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from didact.attribution.attention_x_gradient import AttentionXGradient
from didact.attribution.base import Attribution
from didact.attribution.deep_shap import DeepShap
from didact.attribution.deeplift import DeepLift
from didact.attribution.gim import Gim
from didact.attribution.gradient_norm import GradientNorm
from didact.attribution.gradient_shap import GradientShap
from didact.attribution.gradient_x_input import GradientXInput
from didact.attribution.lrp import Lrp
from didact.attribution.smoothgrad import SmoothGrad
from didact.errors import MismatchError, ModelError, TargetError
from didact.meter import metered
from didact.models import pending
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.protocols import TargetLike
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example, Explanation, Span

METHODS: dict[str, tuple[Attribution, int, int]] = {
    "gradient_x_input": (GradientXInput(), 1, 1),
    "gradient_norm": (GradientNorm(), 1, 1),
    "attention_x_gradient": (AttentionXGradient(), 1, 1),
    "lrp": (Lrp(), 1, 1),
    "gim": (Gim(), 1, 1),
    "deeplift": (DeepLift(), 2, 2),
    "deep_shap": (DeepShap(samples=3), 4, 4),
    "smoothgrad": (SmoothGrad(samples=3), 4, 3),
    "gradient_shap": (GradientShap(samples=3), 4, 3),
}
"""Each method with its forwards and backwards per text."""

each_method = pytest.mark.parametrize("name", list(METHODS))


def tiny(architecture: str = "bert") -> NetworkModel:
    model = load_model(tiny_model(architecture))
    assert isinstance(model, NetworkModel)
    _ = model.capabilities
    return model


def in_two_passes(
    model: NetworkModel, method: Attribution, texts: Sequence[str], targets: Sequence[TargetLike] | None = None
) -> list[Explanation]:
    """What the same method computes when the label is predicted first."""
    predictions = model.predict([Example(text) for text in texts])
    wanted = [own.index for own in predictions] if targets is None else targets
    labels = [model.target(given, own, "logit") for given, own in zip(wanted, predictions, strict=True)]
    units = model.units([Example(text) for text in texts])
    outcomes = method.attribute(model, units, labels)
    return [
        Explanation(method.card.name, unit, tuple(outcome.scores.tolist()), label, prediction)
        for unit, outcome, label, prediction in zip(units, outcomes, labels, predictions, strict=True)
    ]


@each_method
def test_the_model_runs_once_and_scores_are_those_of_two_passes(name: str) -> None:
    method, forwards, backwards = METHODS[name]
    model = tiny()
    first = method.explain(model, TEXTS)
    with metered() as meter:
        made = method.explain(model, TEXTS)
    assert (meter.forwards, meter.backwards) == (forwards * len(TEXTS), backwards * len(TEXTS))
    assert {(own.cost.forwards, own.cost.backwards) for own in (*first, *made)} == {(forwards, backwards)}
    for own, guarded, plain in zip(made, first, in_two_passes(model, method, TEXTS), strict=True):
        assert own.target == plain.target
        np.testing.assert_array_equal(own.scores, plain.scores)
        np.testing.assert_array_equal(own.scores, guarded.scores)
        np.testing.assert_allclose(own.prediction.outputs, plain.prediction.outputs, atol=1e-5)


def test_the_first_batch_and_a_stated_share_after_it_are_guarded() -> None:
    model = tiny()
    counts = []
    for number in range(pending.GUARD_EVERY + 2):
        with metered() as meter:
            GradientXInput().explain(model, TEXTS[number % 4 : number % 4 + 1])
        counts.append(meter.forwards)
    assert counts == [2, *[1] * (pending.GUARD_EVERY - 1), 2, 1]


def test_another_adapter_of_the_network_needs_no_further_guard_and_another_method_does() -> None:
    network, tokenizer = tiny_model()
    GradientXInput().explain(load_model((network, tokenizer)), TEXTS[:1])
    again = load_model((network, tokenizer))
    _ = again.capabilities
    for method, forwards in ((GradientXInput(), 1), (Lrp(), 2), (Lrp(epsilon=0.1), 1)):
        with metered() as meter:
            method.explain(again, TEXTS[:1])
        assert meter.forwards == forwards, method


@each_method
def test_a_given_label_costs_no_prediction(name: str) -> None:
    method, forwards, _ = METHODS[name]
    model = tiny()
    method.explain(model, TEXTS[:1])
    for target in ("negative", 1, ("positive", "negative")):
        with metered() as meter:
            (made,) = method.explain(model, TEXTS[:1], [target])
        assert meter.forwards == forwards
        assert made.target.label == ("negative" if target == "negative" else "positive")
        assert made.prediction.index == model.predict([Example(TEXTS[0])])[0].index


class Biased(torch.nn.Module):
    """Adds to the first logit in a pass of embeddings, by so much."""

    def __init__(self, model: NetworkModel, by: float) -> None:
        super().__init__()
        self.by = by
        model.network.register_forward_hook(self, with_kwargs=True)

    def __call__(self, module: object, args: object, kwargs: dict[str, object], output: object) -> object:
        if kwargs.get("inputs_embeds") is not None:
            output.logits = output.logits + torch.tensor([self.by, 0.0])  # type: ignore[attr-defined]
        return output


def test_a_pass_that_predicts_something_slightly_different_falls_back_to_two() -> None:
    model = tiny()
    Biased(model, 5e-4)  # more than the guard allows, less than the verification of every explanation does
    plain = [own.outputs for own in model.predict([Example(text) for text in TEXTS])]
    for _ in range(2):
        with metered() as meter:
            made = GradientXInput().explain(model, TEXTS)
        assert [own.prediction.outputs for own in made] == plain
        assert {own.cost.forwards for own in made} == {2}
    assert meter.forwards == 2 * len(TEXTS)


def test_a_pass_that_predicts_something_else_is_refused() -> None:
    model = tiny()
    Biased(model, 3.0)
    for _ in range(2):
        with pytest.raises(MismatchError, match="is the model random"):
            GradientXInput().explain(model, TEXTS, [0] * len(TEXTS))


def test_a_network_that_returns_nan_and_an_unknown_label_are_refused_as_before() -> None:
    model = tiny()
    with pytest.raises(TargetError, match="unknown label 'happy'"):
        GradientXInput().explain(model, TEXTS[:1], ["happy"])
    Biased(model, float("nan"))
    with pytest.raises(ModelError, match="returns NaN"):
        GradientXInput().explain(model, TEXTS[:1])


def test_a_given_span_is_explained_with_a_prediction_about_it() -> None:
    model = load_model(tiny_model("bert", ("start", "end"), auto_class="AutoModelForQuestionAnswering"))
    example = Example("what is dull?", TEXTS[1])
    method = GradientXInput()
    (answered,) = method.explain(model, [example])
    (made,) = method.explain(model, [example], [Span(4, 8, 1)])
    assert (answered.cost.forwards, made.cost.forwards) == (1, 2)
    assert made.target.answer == Span(4, 8, 1)
    pending_target = pending.PendingTargets.of(model, [example], [None], None, pending.PassGuard())
    assert pending_target is not None
    with pytest.raises(LookupError, match="after the pass"):
        _ = pending_target[0]
