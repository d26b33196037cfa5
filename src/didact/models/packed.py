"""Networks with quantised layers, whose weights are packed for integer kernels (``quantize_dynamic``).

Such layers have no gradient, and they scale their inputs by the largest number in the whole batch, so that a row's
outputs depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn


def is_packed(network: nn.Module) -> bool:
    """Whether any layer computes with packed weights."""
    return any(getattr(module, "_packed_params", None) is not None for module in network.modules())


def stored_weights(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """All that a network stores by name; packed weights as the numbers they stand for."""
    for name, stored in network.state_dict().items():
        parts = stored if isinstance(stored, tuple) else (stored,)
        for number, part in enumerate(parts):
            if isinstance(part, Tensor):
                yield f"{name}.{number}" if len(parts) > 1 else name, part.dequantize() if part.is_quantized else part
