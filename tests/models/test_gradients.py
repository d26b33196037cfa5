"""Gradients at many points: what is differentiated, how points are weighted, and what happens to the model."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from didact.meter import metered
from didact.models.eval_mode import frozen
from didact.models.gradients import PointRows, graph_budget
from didact.models.hidden import hidden_layers, tapped
from didact.models.load import load_model
from didact.models.network import NetworkModel
from didact.models.planner import Budget
from didact.ops.paths import Line
from didact.testing.tiny import ARCHITECTURES, TEXTS, tiny_model
from didact.types import Example, Target


def text_model(architecture: str = "bert", **options: int) -> NetworkModel:
    model = load_model(tiny_model(architecture), **options)  # type: ignore[arg-type]
    assert isinstance(model, NetworkModel)
    return model


def lines(model: NetworkModel, alphas: list[float]) -> tuple[list, list[Target], list[Line]]:  # type: ignore[type-arg]
    units = model.units([Example(text) for text in TEXTS])
    starts, ends = model.embed(units, absent="zero"), model.embed(units)
    made = [Line(start, end, np.array(alphas)) for start, end in zip(starts, ends, strict=True)]
    return units, [Target(1, "positive")] * len(units), made


def test_points_without_a_weight_are_evaluated_and_not_differentiated() -> None:
    model = text_model()
    units, targets, points = lines(model, [0.2, 0.6, 0.0, 1.0])
    weights = np.array([0.3, 0.7])
    with metered() as meter:
        short = model.gradients(units, targets, points, [weights] * 4)
    assert (meter.forwards, meter.backwards) == (16, 8)
    full = model.gradients(units, targets, points, [np.array([0.3, 0.7, 0.0, 0.0])] * 4)
    for (values, gradient), (all_values, all_gradient) in zip(short, full, strict=True):
        np.testing.assert_allclose(values, all_values, atol=1e-5)
        torch.testing.assert_close(gradient, all_gradient, atol=1e-5, rtol=1e-4)


def test_weights_may_be_tensors_made_when_needed() -> None:
    model = text_model(batch_tokens=60)
    units, targets, points = lines(model, [0.2, 0.6, 1.0])
    drawn = [torch.randn(3, *line.end.shape, generator=torch.Generator().manual_seed(0)) for line in points]
    found = model.gradients(units, targets, points, drawn)
    for i, (line, weights) in enumerate(zip(points, drawn, strict=True)):
        total = torch.zeros_like(line.end)
        for k in range(3):
            one = Line(line.start, line.end, line.alphas[k : k + 1])
            ((_, gradient),) = model.gradients(units[i : i + 1], targets[:1], [one], [np.ones(1)])
            total += weights[k] * gradient
        torch.testing.assert_close(found[i][1], total, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 100])
def test_rows_know_their_example_and_their_points(rows: int) -> None:
    points = [Line(torch.zeros(n, 1), torch.ones(n, 1), np.arange(1.0, k + 1)) for n, k in ((3, 2), (5, 4), (3, 1))]
    table = PointRows(points, [3, 5, 3])
    order = np.argsort(-table.lengths, kind="stable")
    seen: list[tuple[int, int]] = []
    for start in range(0, len(order), rows):
        batch = order[start : start + rows]
        vectors = table.vectors(batch)
        assert vectors.shape == (len(batch), table.lengths[batch[0]], 1)
        for i, own, steps in table.parts(batch):
            seen += [(i, step) for step in range(steps.start, steps.stop)]
            size = [3, 5, 3][i]
            torch.testing.assert_close(vectors[own, :size], points[i][steps])
            assert not vectors[own, size:].any()
    assert seen == [(1, 0), (1, 1), (1, 2), (1, 3), (0, 0), (0, 1), (2, 0)]


def test_frozen_weights_come_back_as_they_were_also_after_a_failure() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    network[1].requires_grad_(False)
    with frozen(network):
        assert not any(parameter.requires_grad for parameter in network.parameters())
    assert [parameter.requires_grad for parameter in network.parameters()] == [True, True, False, False]
    with pytest.raises(KeyError), frozen(network):
        raise KeyError
    assert [parameter.requires_grad for parameter in network.parameters()] == [True, True, False, False]


def test_a_graph_gets_fewer_tokens_than_a_plain_pass() -> None:
    whole = Budget(65536, fixed=8192)
    assert graph_budget(whole, torch.device("cpu")).tokens == 32768
    small, large, gpu = 8 << 30, 64 << 30, torch.device("cuda")
    assert graph_budget(whole, gpu, small).tokens == 4096
    assert graph_budget(whole, gpu, large).tokens == 16384
    assert graph_budget(Budget(1), gpu, small).tokens == 1


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name not in ("albert", "longformer")])
def test_the_stack_of_layers_is_found_and_their_states_reach_the_output(architecture: str) -> None:
    model = text_model(architecture)
    layers = hidden_layers(model.network)
    assert layers is not None
    assert len(layers) == 2
    with tapped(layers[0]) as seen:
        encoded = model.tokenizer(TEXTS[0], return_tensors="pt")
        logits = model.network(**encoded).logits
    (states,) = seen
    (gradient,) = torch.autograd.grad(logits[0, 0], states)
    assert states.shape == (1, encoded["input_ids"].shape[1], 32)
    assert gradient.abs().max() > 0
    assert not layers[0]._forward_hooks


def test_a_tap_is_gone_after_a_failure() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(KeyError), tapped(layer):
        raise KeyError
    assert not layer._forward_hooks


def test_a_visitor_sees_each_examples_points_in_order() -> None:
    model = text_model(batch_tokens=70)
    units, targets, points = lines(model, [0.0, 0.1, 0.5, 0.7, 1.0])
    seen: dict[int, list[int]] = {}

    def visit(i: int, first: int, states: Tensor, gradients: Tensor) -> None:
        assert states.shape == gradients.shape == (len(states), len(points[i].end), 32)
        seen.setdefault(i, []).extend(range(first, first + len(states)))

    values = model.hidden_gradients(units, targets, points, 0, visit)
    assert seen == {i: [0, 1, 2, 3, 4] for i in range(4)}
    plain = model.gradients(units, targets, points, [np.ones(1)] * 4)
    for own, (wanted, _) in zip(values, plain, strict=True):
        np.testing.assert_allclose(own, wanted, atol=1e-5)


def test_no_point_is_visited_twice_when_memory_runs_out_during_a_visit() -> None:
    model = text_model()
    units, targets, points = lines(model, [0.0, 0.1, 0.5, 0.7, 1.0])
    seen: list[tuple[int, int]] = []
    calls = 0

    def visit(i: int, first: int, states: Tensor, gradients: Tensor) -> None:
        nonlocal calls
        calls += 1
        if calls in (3, 5):  # others in the same batch were visited before
            raise torch.OutOfMemoryError("CUDA out of memory")
        seen.extend((i, step) for step in range(first, first + len(states)))

    model.hidden_gradients(units, targets, points, 0, visit)
    assert sorted(seen) == [(i, step) for i in range(4) for step in range(5)]
    assert all(seen.index((i, step)) < seen.index((i, step + 1)) for i in range(4) for step in range(4))
