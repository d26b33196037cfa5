"""The most memory that a piece of work held, where the machine reports it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


@dataclass
class Peak:
    """Bytes: allocated on the GPU where there is one, else resident in this process, weights and libraries included."""

    bytes: int | None = None


@contextlib.contextmanager
def watched() -> Iterator[Peak]:
    """Find the peak inside the block; None where neither CUDA nor Linux reports it."""
    peak = Peak()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        yield peak
        peak.bytes = torch.cuda.max_memory_allocated()
        return
    known = _forget()
    yield peak
    peak.bytes = _resident() if known else None


def _forget() -> bool:
    """Start the kernel's high-water mark anew."""
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return True


def _resident() -> int | None:
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    peaks = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peaks[0]) * 1024 if peaks else None
