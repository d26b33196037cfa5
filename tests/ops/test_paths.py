"""Quadrature on [0, 1] and points on a line."""

import numpy as np
import pytest
import torch

from didact.errors import ParameterError
from didact.ops.paths import RULES, Line, quadrature, single


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
