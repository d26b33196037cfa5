"""Seconds of calls, and what computed them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch


def device_name() -> str:
    """What computes: the GPU, or how many cores."""
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else f"CPU, {os.cpu_count()} cores"


def seconds_of(call: Callable[[], object]) -> float:
    """Seconds of a call; a GPU has finished its work before the clock is read."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began
