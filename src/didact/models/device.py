"""The choice of a device, the same for everything that is loaded or trained."""

from __future__ import annotations

import torch

from didact.errors import ParameterError


def choose_device(name: str | torch.device | None = None) -> torch.device:
    """The named device, or the GPU where there is one; a device that is not there is refused."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise ParameterError(f"unknown device {name!r}; allowed: 'cpu', 'cuda', 'cuda:0', ...") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ParameterError(f"device {name!r} was given, but no CUDA device is available here; use device='cpu'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ParameterError(f"device {name!r} does not exist; there are {torch.cuda.device_count()} CUDA devices")
    return device
