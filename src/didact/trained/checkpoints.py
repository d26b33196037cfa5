"""Tensors and a state in one file that appears whole or not at all: safetensors, with the state as JSON in its head."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from didact import disk
from didact.errors import FormatError

_STATE = "didact"


def write(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write the file; whoever reads sees the old one or the new one, also if this process is killed."""
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    data = save(plain, {_STATE: json.dumps(state, sort_keys=True)})
    disk.write_bytes(path, data)


def read(path: Path, cure: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and state of a file; one that is damaged is named, with what to do about it."""
    if not path.is_file():
        raise FormatError(f"there is no file {path}; {cure}")
    try:
        with safe_open(path, framework="pt") as file:
            state = json.loads((file.metadata() or {}).get(_STATE, "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, state  # noqa: SIM118 - it is no mapping
    except (SafetensorError, OSError, ValueError) as problem:
        raise FormatError(f"{path} cannot be read as safetensors ({problem!s:.120}); {cure}") from None


def tensors_hash(tensors: Mapping[str, Tensor]) -> str:
    """Short hash of names, types, shapes and every value, the same in every process."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
