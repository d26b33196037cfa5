"""Soft masks as live tensors: the same values as blending, and exact gradients."""

import numpy as np
import pytest
import torch

from didact.errors import CapabilityError, ParameterError
from didact.meter import metered
from didact.models.compose import compose
from didact.models.network import NetworkModel
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example, Target, Units

TARGET = Target(1, "positive", "log_probability")


def case(architecture: str = "bert", *, double: bool = False) -> tuple[NetworkModel, list[Units], list[torch.Tensor]]:
    network, tokenizer = tiny_model(architecture)
    model = compose(network.double() if double else network, tokenizer)
    units = model.units([Example(text) for text in TEXTS])
    rng = torch.Generator().manual_seed(0)
    kind = torch.float64 if double else torch.float32
    masks = [torch.rand(2 + i, len(unit), generator=rng, dtype=kind) for i, unit in enumerate(units)]
    return model, units, [mask.requires_grad_(True) for mask in masks]


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2"])
def test_values_are_those_of_blending(architecture: str) -> None:
    model, units, masks = case(architecture)
    if architecture == "gpt2":  # has no mask token to blend with
        with pytest.raises(ParameterError, match="no mask token"):
            model.score(units, [TARGET] * 4, [mask.detach().numpy() for mask in masks], "blend")
        return
    values = model.soft_score(units, [TARGET] * 4, masks)
    blended = model.score(units, [TARGET] * 4, [mask.detach().numpy() for mask in masks], "blend")
    for own, other in zip(values, blended, strict=True):
        np.testing.assert_allclose(own.detach().numpy(), other, rtol=1e-5, atol=1e-6)


def test_whole_and_empty_masks_are_the_text_and_its_absence() -> None:
    model, units, _ = case()
    ends = [torch.stack([torch.ones(len(unit)), torch.zeros(len(unit))]) for unit in units]
    values = model.soft_score(units, [TARGET] * 4, ends)
    keep = [np.stack([np.ones(len(unit)), np.zeros(len(unit))]).astype(np.bool_) for unit in units]
    for own, other in zip(values, model.score(units, [TARGET] * 4, keep, "mask"), strict=True):
        np.testing.assert_allclose(own.numpy(), other, rtol=1e-5, atol=1e-6)


def test_the_gradient_equals_finite_differences() -> None:
    model, units, masks = case(double=True)
    targets = [TARGET] * 4
    total = torch.cat(model.soft_score(units, targets, masks)).sum()
    gradients = torch.autograd.grad(total, masks)
    step = 1e-5
    for number, (mask, gradient) in enumerate(zip(masks, gradients, strict=True)):
        for place in ((0, 0), (1, len(units[number]) - 1)):
            ends = []
            for sign in (1, -1):
                moved = mask.detach().clone()
                moved[place] += sign * step
                ends.append(float(model.soft_score([units[number]], [TARGET], [moved])[0].sum()))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert float(gradient[place]) == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_batches_change_nothing_and_weights_get_no_gradient() -> None:
    model, units, masks = case()
    together = model.soft_score(units, [TARGET] * 4, masks)
    model.budget.tokens = 1
    with metered() as meter:
        alone = model.soft_score(units, [TARGET] * 4, masks)
    assert meter.forwards == sum(len(mask) for mask in masks)
    for own, other in zip(together, alone, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)
    torch.cat(together).sum().backward()
    assert all(weight.grad is None and weight.requires_grad for weight in model.network.parameters())
    assert all(mask.grad is not None and mask.grad.abs().min() > 0 for mask in masks)


def test_what_does_not_fit_is_refused() -> None:
    model, units, _ = case()
    with pytest.raises(ParameterError, match=r"soft masks must have shape \(rows, 8\)"):
        model.soft_score(units[:1], [TARGET], [torch.ones(2, 3)])
    model._capabilities = frozenset()
    with pytest.raises(CapabilityError, match="does not take input embeddings"):
        model.soft_score(units[:1], [TARGET], [torch.ones(2, 8)])


@pytest.mark.parametrize("labels", [("no", "yes"), ("no", "perhaps", "yes")])
def test_outputs_are_the_log_probabilities_of_all_labels(labels: tuple[str, ...]) -> None:
    network, tokenizer = tiny_model("bert", labels)
    model = compose(network, tokenizer)
    units = model.units([Example(text) for text in TEXTS])
    masks = [torch.rand(2, len(own), generator=torch.Generator().manual_seed(1)) for own in units]
    outputs = model.soft_outputs(units, masks)
    for index, label in enumerate(model.labels):
        targets = [Target(index, label, "log_probability")] * len(units)
        for own, values in zip(outputs, model.soft_score(units, targets, masks), strict=True):
            torch.testing.assert_close(own[:, index], values)
    assert not outputs[0].requires_grad  # nothing to differentiate: no graph is kept


def test_a_given_absent_vector_is_used_in_place_of_the_named_one() -> None:
    model, units, masks = case()
    mask = model.reader.absent_vector("mask", model.embed(units)[0])
    named = model.soft_outputs(units, masks)
    each = [mask.expand(len(own), -1) for own in model.embed(units)]
    for given in (mask, each):
        for own, other in zip(named, model.soft_outputs(units, masks, given), strict=True):
            torch.testing.assert_close(own, other)
    learned = mask.clone().requires_grad_()
    (slope,) = torch.autograd.grad(torch.cat(model.soft_outputs(units, masks, learned))[:, 0].sum(), learned)
    assert slope.abs().min() > 0
    with pytest.raises(ParameterError, match=r"vector of 32 numbers.* got a tensor of shape \(3,\)"):
        model.soft_outputs(units, masks, torch.ones(3))
    with pytest.raises(ParameterError, match="2 tensors for 4 examples"):
        model.soft_outputs(units, masks, each[:2])


def test_outputs_of_kept_units_are_those_of_whatever_operator_is_named() -> None:
    model, units, _ = case()
    keep = [np.stack([np.ones(len(own)), np.arange(len(own)) % 2 == 0]).astype(np.bool_) for own in units]
    for absence in ("mask", "delete", "drop"):
        values = model.score(units, [TARGET] * 4, keep, absence)
        for own, other in zip(model.keep_outputs(units, keep, absence), values, strict=True):
            np.testing.assert_allclose(own[:, 1], other, rtol=1e-5, atol=1e-6)
    with pytest.raises(ParameterError, match="use soft_outputs"):
        model.keep_outputs(units, keep, "blend")


def test_half_precision_gives_single_precision_log_probabilities() -> None:
    network, tokenizer = tiny_model("bert")
    model = compose(network.to(torch.bfloat16), tokenizer)
    units = model.units([Example(TEXTS[0])])
    (outputs,) = model.soft_outputs(units, [torch.ones(1, len(units[0])).requires_grad_()])
    assert outputs.dtype == torch.float32
    assert float(outputs.detach().exp().sum()) == pytest.approx(1, abs=1e-5)


def test_labels_that_do_not_exclude_one_another_are_refused() -> None:
    network, tokenizer = tiny_model("bert")
    network.config.problem_type = "multi_label_classification"
    model = compose(network, tokenizer)
    units = model.units([Example(TEXTS[0])])
    with pytest.raises(CapabilityError, match="hold independently of each other"):
        model.soft_outputs(units, [torch.ones(1, len(units[0]))])
