"""How finely a network counts."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator

import torch
from torch import nn

TF32 = 2.0**-10
"""The step of tensor-float products, which CUDA devices make of float32 when set to."""


def step(dtype: torch.dtype, device: torch.device) -> float:
    """The relative step of the products of a network: of its type, or coarser where float32 is rounded on a GPU."""
    own = torch.finfo(dtype).eps
    is_rounded = device.type == "cuda" and torch.backends.cuda.matmul.fp32_precision == "tf32"
    return max(own, TF32) if dtype == torch.float32 and is_rounded else own


class _WithoutOneDNN:
    """oneDNN's switch belongs to the process: the first block in switches it off, the last one out restores."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.before = True

    def enter(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.before = bool(torch._C._get_mkldnn_enabled())
                torch._C._set_mkldnn_enabled(False)
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                torch._C._set_mkldnn_enabled(self.before)


_WITHOUT_ONEDNN = _WithoutOneDNN()


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
    _WITHOUT_ONEDNN.enter()
    try:
        yield
    finally:
        _WITHOUT_ONEDNN.leave()


@functools.cache
def _multiplies_bfloat16() -> bool:
    """Whether oneDNN has products of bfloat16 on this processor."""
    return not torch._C._has_mkldnn or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
