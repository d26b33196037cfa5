"""Which of many candidates may still be the best, after few noisy trials of each on the same blocks.

A block is what all candidates of a row of trials share, such as the training texts and the seed of a student. Its own
effect cancels, so what is left of a value after the candidate's mean and the block's is noise, whose variance s^2 is
estimated over all candidates together: with 70 candidates two blocks are enough for it. A candidate is left behind when
its mean over n blocks is below the best one's by more than t s sqrt(2 / n), t being Student's one-sided quantile.

    >>> import numpy as np
    >>> scores = np.array([[0.80, 0.70, 0.90], [0.79, 0.71, 0.90], [0.60, 0.49, 0.71]])
    >>> may_be_best(scores).tolist()
    [True, True, False]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from didact.errors import InputError, ParameterError


def may_be_best(values: ArrayLike, *, level: float = 0.95) -> NDArray[np.bool_]:
    """Whether each candidate is not significantly below the one with the highest mean.

    Args:
        values: (candidates, blocks), higher is better; none missing.
        level: confidence of a single comparison with the best.

    Returns:
        (candidates,); all True where there are too few values for an estimate of the noise.
    """
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 2 or not scores.size:
        raise InputError(f"values come as (candidates, blocks), got an array of shape {scores.shape}")
    if not np.isfinite(scores).all():
        raise InputError("values of a race must be finite; leave out candidates without a value")
    if not 0.5 < level < 1:
        raise ParameterError(f"level of a race must be above 0.5 and below 1, got {level!r}")
    candidates, blocks = scores.shape
    freedom = (candidates - 1) * (blocks - 1)
    if not freedom:
        return np.ones(candidates, dtype=np.bool_)
    means = scores.mean(axis=1)
    noise = scores - means[:, None] - scores.mean(axis=0) + scores.mean()
    error = np.sqrt((noise**2).sum() / freedom * 2 / blocks)
    kept: NDArray[np.bool_] = means >= means.max() - stdtrit(freedom, level) * error - 1e-12
    return kept
