"""How finely a network counts."""

from __future__ import annotations

import torch

TF32 = 2.0**-10
"""The step of tensor-float products, which CUDA devices make of float32 when set to."""


def step(dtype: torch.dtype, device: torch.device) -> float:
    """The relative step of the products of a network: of its type, or coarser where float32 is rounded on a GPU."""
    own = torch.finfo(dtype).eps
    is_rounded = device.type == "cuda" and torch.backends.cuda.matmul.fp32_precision == "tf32"
    return max(own, TF32) if dtype == torch.float32 and is_rounded else own
