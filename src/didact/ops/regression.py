"""Closed-form weighted least squares for surrogate models."""

from __future__ import annotations

import numpy as np

from didact.types import Floats, Keep


def weighted_ridge(rows: Keep, values: Floats, weights: Floats, alpha: float) -> tuple[Floats, float, float]:
    """Minimise sum w (y - b - x.c)^2 + alpha |c|^2, intercept b not penalised.

    With more columns than rows the system of the rows is solved instead, which has the same solution: time grows with
    the larger number, and with the cube of the smaller one.

    Returns:
        Coefficients c (columns,), intercept b, and the weighted R^2 of the fit.
    """
    x = rows.astype(np.float64)
    share = weights / weights.sum()
    mean_x, mean_y = share @ x, float(share @ values)
    xc, yc = x - mean_x, values - mean_y
    if len(x) < x.shape[1]:
        root = np.sqrt(weights)
        design = xc * root[:, None]
        coefficients = design.T @ _solved(design @ design.T, root * yc, alpha)
    else:
        coefficients = _solved((xc * weights[:, None]).T @ xc, (xc * weights[:, None]).T @ yc, alpha)
    residual = float(share @ (yc - xc @ coefficients) ** 2)
    spread = float(share @ yc**2)
    constant = spread <= 1e-24 * (1 + mean_y**2)  # what rounding leaves of no spread at all
    fit = 1.0 if constant else 1.0 - residual / spread
    return coefficients, mean_y - float(mean_x @ coefficients), fit


def _solved(gram: Floats, right: Floats, alpha: float) -> Floats:
    """Solve (gram + alpha) c = right; the shortest solution where there are several."""
    system = gram + alpha * np.eye(len(gram))
    solution: Floats = np.asarray(
        np.linalg.solve(system, right) if alpha > 0 else np.linalg.lstsq(system, right, rcond=None)[0], dtype=np.float64
    )
    return solution
