"""What refining several texts together takes in memory, and how many fit."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from didact.trained._refine_copies import RowCopies

SHARE = 0.5
"""Of the free memory, for weights; the rest is for activations of both networks."""


def activation_bytes(network: nn.Module) -> int:
    """Bytes per token that a graph holds, roughly: what every linear layer is given and gives, in single precision."""
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    return 4 * sum(layer.in_features + layer.out_features for layer in layers)


def rows_that_fit(copies: RowCopies, rows: int, device: torch.device) -> int:
    """So many rows, or as many as the device has memory for, but at least one."""
    free = free_bytes(device)
    return rows if free is None else max(1, min(rows, int(SHARE * free) // copies.row_bytes))


def free_bytes(device: torch.device) -> int | None:
    """Memory that can be had now, what torch holds and does not use included; None where that is not known."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    known = Path("/proc/meminfo")
    if device.type != "cpu" or not known.is_file():
        return None
    lines = (line.split() for line in known.read_text(encoding="ascii").splitlines())
    sizes = {line[0]: int(line[1]) for line in lines if len(line) > 1}
    return 1024 * sizes["MemAvailable:"] if "MemAvailable:" in sizes else None
