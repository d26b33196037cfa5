"""Whether scores add up to what they should, for methods that approximate an integral."""

from __future__ import annotations

from didact.protocols import Model

MISSED = 0.05
"""Share of the explained difference that scores may miss before that is reported."""


def misses(model: Model, gap: float, difference: float) -> bool:
    """Whether a gap is more than ``MISSED`` of the difference, and more than the model's rounding explains."""
    return not abs(gap) <= max(MISSED * abs(difference), model.precision * (1 + abs(difference)))


def missed_warning(method: str, gap: float, difference: float, cure: str) -> str:
    """The sentence for an explanation whose scores miss the difference."""
    share = f"{abs(gap) / abs(difference):.0%}" if abs(difference) > 1e-9 else "all of it"
    return (
        f"the scores of {method} add up to {difference + gap:.4g}, but text and baseline differ by {difference:.4g} "
        f"({share} missed): {cure}"
    )
