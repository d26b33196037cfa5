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


def _without_cudnn_attention() -> Callable[[], None]:
    """Switch cuDNN's attention off, not that of others; returns what restores it."""
    before = bool(torch.backends.cuda.cudnn_sdp_enabled())  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(False)
    return lambda: torch.backends.cuda.enable_cudnn_sdp(before)


ONEDNN_OFF = ProcessSwitch(_without_onednn)
CUDNN_ATTENTION_OFF = ProcessSwitch(_without_cudnn_attention)


@contextlib.contextmanager
def multiplying(model: nn.Module) -> Iterator[None]:
    """Set the process as suits a network's products inside the block: see ``switch_for``."""
    first = next(model.parameters(), None)
    switch = None if first is None else switch_for(first.dtype, first.device)
    with contextlib.nullcontext() if switch is None else switch.switched():
        yield


def switch_for(dtype: torch.dtype, device: torch.device) -> ProcessSwitch | None:
    """What is switched while a network of this precision is computed on this device.

    When bfloat16 weights meet a processor that cannot multiply them, torch switches oneDNN off for good, with a long
    warning, and whatever the process computes afterwards differs in its last bits; it is off here instead.

    In half precision torch prefers cuDNN's attention on a GPU, which makes a plan for each new shape of a batch. This
    takes longer than the pass, and batches of variants are hardly ever of one shape.
    """
    if device.type == "cpu" and dtype == torch.bfloat16 and not _multiplies_bfloat16():
        return ONEDNN_OFF
    return CUDNN_ATTENTION_OFF if device.type == "cuda" and dtype in (torch.float16, torch.bfloat16) else None


@functools.cache
def _multiplies_bfloat16() -> bool:
    """Whether oneDNN has products of bfloat16 on this processor."""
    return not torch._C._has_mkldnn or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
