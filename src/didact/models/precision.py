"""How finely a network counts."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import torch
from torch import nn

from didact.models.exclusive import ProcessSwitch

TF32 = 2.0**-10
"""The step of tensor-float products, which CUDA devices make of float32 when set to."""


def step(dtype: torch.dtype, device: torch.device) -> float:
    """The relative step of the products of a network: of its type, or coarser where float32 is rounded on a GPU."""
    own = torch.finfo(dtype).eps
    is_rounded = device.type == "cuda" and torch.backends.cuda.matmul.fp32_precision == "tf32"
    return max(own, TF32) if dtype == torch.float32 and is_rounded else own


def _without_onednn() -> Callable[[], None]:
    """Switch oneDNN off; returns what restores it."""
    before = bool(torch._C._get_mkldnn_enabled())
    torch._C._set_mkldnn_enabled(False)
    return lambda: torch._C._set_mkldnn_enabled(before)


ONEDNN_OFF = ProcessSwitch(_without_onednn)


@contextlib.contextmanager
def multiplying(model: nn.Module) -> Iterator[None]:
    """Keep torch from switching oneDNN off for good.

    It does so, with a long warning, when bfloat16 weights meet a processor that cannot multiply them; whatever the
    process computes afterwards differs in its last bits. Here oneDNN is off inside the block only.
    """
    first = next(model.parameters(), None)
    if first is None or first.dtype != torch.bfloat16 or first.device.type != "cpu" or _multiplies_bfloat16():
        yield
        return
    with ONEDNN_OFF.switched():
        yield


@functools.cache
def _multiplies_bfloat16() -> bool:
    """Whether oneDNN has products of bfloat16 on this processor."""
    return not torch._C._has_mkldnn or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
