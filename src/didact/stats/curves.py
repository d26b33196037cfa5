"""One number for a whole learning curve.

>>> area(np.array([[0.5], [0.7], [0.9]]), (2, 4, 8))  # 2 epochs with a mean of 0.6, then 4 with a mean of 0.8
array([0.73333333])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didact.types import Floats


def area(curve: Floats, epochs: Sequence[int]) -> Floats:
    """Mean of a curve over the epochs from its first point to its last, by the trapezoid rule.

    A student that learns the same faster has a larger one. The area of a single point is its value.

    Args:
        curve: values at each point (..., points, items).
        epochs: where the points stand, rising.

    Returns:
        (..., items).
    """
    if len(epochs) == 1:
        return np.asarray(curve[..., 0, :])
    return np.asarray(np.trapezoid(curve, epochs, axis=-2) / (epochs[-1] - epochs[0]))
