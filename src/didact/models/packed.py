"""Networks with quantised layers, whose weights are packed for integer kernels (``quantize_dynamic``).

Such layers have no gradient, and they scale their inputs by the largest number in the whole batch, so that a row's
outputs depend on the rows beside it.
"""

from __future__ import annotations

from torch import nn

from didact.models.eval_mode import modules

_PACKED = "_packed_params"


def is_packed(network: nn.Module) -> bool:
    """Whether any layer computes with packed weights."""
    return any(vars(own).get(_PACKED, own._modules.get(_PACKED)) is not None for own in modules(network))
