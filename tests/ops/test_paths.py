"""Quadrature on [0, 1] and points on a line."""

import numpy as np
import pytest
import torch

from didact.errors import ParameterError
from didact.ops.paths import (
    RULES,
    Followed,
    Line,
    Noisy,
    OneByOne,
    OwnPosition,
    Towards,
    Ways,
    covered,
    quadrature,
    single,
)
from didact.types import Example, Span, Units


@pytest.mark.parametrize("steps", [1, 2, 7, 50])
@pytest.mark.parametrize("rule", RULES)
def test_nodes_lie_between_the_ends_and_weights_add_up_to_one(rule: str, steps: int) -> None:
    nodes, weights = quadrature(rule, steps)
    assert nodes.shape == weights.shape == (steps,)
    assert (np.diff(nodes) > 0).all()
    assert nodes[0] > 0
    assert nodes[-1] <= 1
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 3, 10])
def test_gauss_legendre_integrates_polynomials_exactly(steps: int) -> None:
    nodes, weights = quadrature("gauss_legendre", steps)
    for degree in range(2 * steps):
        assert weights @ nodes**degree == pytest.approx(1 / (degree + 1), abs=1e-12)
    assert abs(weights @ nodes ** (2 * steps) - 1 / (2 * steps + 1)) > 1e-13


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_the_midpoint_rule_is_exact_on_lines_and_the_right_rule_on_constants(steps: int) -> None:
    nodes, weights = quadrature("midpoint", steps)
    assert weights @ (3 * nodes + 1) == pytest.approx(2.5, abs=1e-12)
    nodes, weights = quadrature("right", steps)
    assert weights @ nodes == pytest.approx(0.5 + 0.5 / steps, abs=1e-12)
    assert nodes[-1] == 1


@pytest.mark.parametrize(("rule", "order"), [("midpoint", 2), ("right", 1)])
def test_the_error_falls_with_the_rules_order(rule: str, order: int) -> None:
    errors = []
    for steps in (20, 40):
        nodes, weights = quadrature(rule, steps)
        errors.append(abs(weights @ np.exp(nodes) - (np.e - 1)))
    assert errors[0] / errors[1] == pytest.approx(2**order, rel=0.05)


def test_an_unknown_rule_is_named_with_those_allowed() -> None:
    with pytest.raises(ParameterError, match="unknown rule 'simpson'; allowed: gauss_legendre, midpoint, right"):
        quadrature("simpson", 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_lie_on_the_line_and_are_made_when_asked_for(dtype: torch.dtype) -> None:
    start, end = torch.zeros(3, 2, dtype=dtype), torch.ones(3, 2, dtype=dtype) * 4
    line = Line(start, end, np.array([0.0, 0.25, 1.0]))
    assert len(line) == 3
    part = line[1:3]
    assert part.shape == (2, 3, 2)
    assert part.dtype == dtype
    torch.testing.assert_close(part[0], torch.ones(3, 2, dtype=dtype))
    torch.testing.assert_close(part[1], end)
    torch.testing.assert_close(line[0:1][0], start)


def test_a_single_point_is_itself() -> None:
    point = torch.randn(3, 2, generator=torch.Generator().manual_seed(0))
    line = single(point)
    assert len(line) == 1
    assert torch.equal(line[0:1][0], point)


START = torch.arange(8.0).reshape(4, 2)
END = START + torch.tensor([[10.0], [20.0], [30.0], [40.0]])


def test_one_by_one_moves_a_single_position_at_a_time() -> None:
    lines = OneByOne(START, END, np.array([1, 3]), np.array([0.25, 0.5, 1.0]))
    points = lines[0:6]
    assert len(lines) == 6
    assert points.shape == (6, 4, 2)
    for number, (position, alpha) in enumerate([(p, a) for p in (1, 3) for a in (0.25, 0.5, 1.0)]):
        wanted = END.clone()
        wanted[position] = START[position] + alpha * (END[position] - START[position])
        torch.testing.assert_close(points[number], wanted)
    assert torch.equal(lines[2:5], points[2:5])  # also across two lines


def test_each_line_weighs_the_position_it_moves() -> None:
    lines = OneByOne(START, END, np.array([1, 3]), np.array([0.5, 1.0]))
    weights = OwnPosition(lines, np.array([0.3, 0.7]))
    assert len(weights) == 4
    wanted = torch.zeros(4, 4, 1)
    wanted[[0, 1, 2, 3], [1, 1, 3, 3], 0] = torch.tensor([0.3, 0.7, 0.3, 0.7])
    assert torch.equal(weights[0:4], wanted)
    assert torch.equal(weights[1:3], wanted[1:3])


def test_noise_depends_on_a_points_own_seed_and_falls_on_the_named_positions() -> None:
    noisy = Noisy(START, np.array([0, 2]), 0.5, np.array([3, 4, 3]))
    points = noisy[0:3]
    assert torch.equal(points[0], points[2])
    assert not torch.equal(points[0], points[1])
    assert torch.equal(noisy[1:3], points[1:3])
    assert torch.equal(points[:, [1, 3]], START[[1, 3]].expand(3, 2, 2))
    assert (points[:, [0, 2]] != START[[0, 2]]).all()
    assert torch.equal(Noisy(START, np.array([0, 2]), 0.0, np.array([3]))[0:1][0], START)


def test_towards_goes_from_each_start_to_the_end() -> None:
    starts = Noisy(START, np.arange(4), 1.0, np.arange(3))
    towards = Towards(Ways(starts, END), np.array([0.0, 0.5, 1.0]))
    points, drawn = towards[0:3], starts[0:3]
    torch.testing.assert_close(points[0], drawn[0])
    torch.testing.assert_close(points[1], (drawn[1] + END) / 2)
    torch.testing.assert_close(points[2], END)
    for indices in (slice(1, 3), slice(1, 3), slice(0, 1), slice(1, 3), slice(0, 3)):  # whatever was asked before
        assert torch.equal(towards.ways[indices], END - drawn[indices])


def test_ways_are_made_once_for_a_point_and_its_weight_and_then_forgotten() -> None:
    ways = Ways(Noisy(START, np.arange(4), 1.0, np.arange(3)), END)
    first, second, third = (ways[0:2] for _ in range(3))
    assert first is second
    assert third is not second


@pytest.mark.parametrize(("first", "stop"), [(0, 4), (0, 3), (2, 4), (3, 4), (1, 2)])
def test_one_more_point_follows(first: int, stop: int) -> None:
    line = Line(START, END, np.array([0.0, 0.5, 0.7]))
    followed = Followed(line, END[None])
    assert len(followed) == 4
    torch.testing.assert_close(followed[first:stop], torch.cat([line[0:3], END[None]])[first:stop])


def test_covered_positions_are_in_order_and_leave_special_tokens_out() -> None:
    units = Units(Example("abc d"), "word", (Span(0, 3), Span(4, 5)), ((1, 2), (4,)))
    assert covered(units).tolist() == [1, 2, 4]
