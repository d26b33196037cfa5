"""Closed-form weighted least squares for surrogate models."""

from __future__ import annotations

import numpy as np

from didact.types import Floats, Keep


def weighted_ridge(rows: Keep, values: Floats, weights: Floats, alpha: float) -> tuple[Floats, float, float]:
    """Minimise sum w (y - b - x.c)^2 + alpha |c|^2, intercept b not penalised.

    Returns:
        Coefficients c (columns,), intercept b, and the weighted R^2 of the fit.
    """
    x = rows.astype(np.float64)
    share = weights / weights.sum()
    mean_x, mean_y = share @ x, float(share @ values)
    xc, yc = x - mean_x, values - mean_y
    gram = (xc * weights[:, None]).T @ xc + alpha * np.eye(x.shape[1])
    coefficients = np.linalg.lstsq(gram, (xc * weights[:, None]).T @ yc, rcond=None)[0]
    residual = float(share @ (yc - xc @ coefficients) ** 2)
    spread = float(share @ yc**2)
    constant = spread <= 1e-24 * (1 + mean_y**2)  # what rounding leaves of no spread at all
    fit = 1.0 if constant else 1.0 - residual / spread
    return coefficients, mean_y - float(mean_x @ coefficients), fit
