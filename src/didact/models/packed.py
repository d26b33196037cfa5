"""Networks with quantised layers, whose weights are packed for integer kernels (``quantize_dynamic``).

Such layers have no gradient, and they scale their inputs by the largest number in the whole batch, so that a row's
outputs depend on the rows beside it.
"""

from __future__ import annotations

from torch import nn


def is_packed(network: nn.Module) -> bool:
    """Whether any layer computes with packed weights."""
    return any(getattr(module, "_packed_params", None) is not None for module in network.modules())
