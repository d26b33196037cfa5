"""Sparse and dense weights: on the simplex, as their definitions say, and differentiable twice."""

import numpy as np
import pytest
import torch
from torch import Tensor

from didact.errors import ParameterError
from didact.ops.simplex import entmax15, simplex, sparsemax

MAPS = pytest.mark.parametrize("how", ["sparsemax", "entmax15", "softmax"])


def numbers(*sizes: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_bisection(z: Tensor, power: float) -> Tensor:
    """max((power' z - tau), 0)^(1 / power') with tau found by halving an interval: slow truth for one vector."""
    scaled = z * power
    low, high = scaled.max() - 1, scaled.max()
    for _ in range(200):
        tau = (low + high) / 2
        total = (scaled - tau).clamp(min=0).pow(1 / power).sum()
        low, high = (tau, high) if total >= 1 else (low, tau)
    return (scaled - tau).clamp(min=0).pow(1 / power)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_both_are_what_bisection_gives(scale: float) -> None:
    for seed in range(5):
        z = numbers(17, seed=seed, scale=scale)
        torch.testing.assert_close(sparsemax(z), by_bisection(z, 1.0))
        torch.testing.assert_close(entmax15(z), by_bisection(z, 0.5))


@MAPS
def test_weights_are_on_the_simplex_along_any_axis(how: str) -> None:
    z = numbers(3, 4, 5)
    for dim in (0, 1, -1):
        weights = simplex(z, how, dim)  # type: ignore[arg-type]
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(dim), torch.ones_like(weights.sum(dim)))
        torch.testing.assert_close(weights, simplex(z.movedim(dim, -1), how).movedim(-1, dim))  # type: ignore[arg-type]


@MAPS
def test_equal_numbers_get_equal_weights_with_a_gradient_that_sums_to_zero(how: str) -> None:
    z = torch.full((6,), 1 / 6, requires_grad=True)
    weights = simplex(z, how)  # type: ignore[arg-type]
    torch.testing.assert_close(weights, torch.full((6,), 1 / 6))
    (gradient,) = torch.autograd.grad(weights[0], z)
    assert gradient[0] > 0
    assert abs(float(gradient.sum())) < 1e-6


@MAPS
def test_gradients_are_right_once_and_twice(how: str) -> None:
    z = numbers(2, 6, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda given: simplex(given, how), (z,))  # type: ignore[arg-type]
    assert torch.autograd.gradgradcheck(lambda given: simplex(given, how), (z,))  # type: ignore[arg-type]


def test_far_numbers_get_no_weight_and_no_gradient() -> None:
    for function in (sparsemax, entmax15):
        z = torch.tensor([3.0, 2.9, -4.0], requires_grad=True)
        weights = function(z)
        assert weights[2] == 0
        assert weights[0] > weights[1] > 0
        (gradient,) = torch.autograd.grad(weights[0], z)
        assert gradient[2] == 0


def test_a_single_winner_has_finite_gradients() -> None:
    for function in (sparsemax, entmax15):
        z = torch.tensor([50.0, 1.0, 0.0], requires_grad=True)
        weights = function(z)
        np.testing.assert_array_equal(weights.detach(), [1, 0, 0])
        (gradient,) = torch.autograd.grad(weights.square().sum(), z)
        assert gradient.isfinite().all()


def test_none_leaves_numbers_alone_and_other_names_are_refused() -> None:
    z = numbers(4)
    assert torch.equal(simplex(z, "none"), z)
    with pytest.raises(ParameterError, match="sparsemax, entmax15, softmax, none, got 'sparse'"):
        simplex(z, "sparse")  # type: ignore[arg-type]
