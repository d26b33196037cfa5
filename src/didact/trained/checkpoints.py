"""Tensors and a state in one file that appears whole or not at all: safetensors, with the state as JSON in its head.

The head holds a checksum of the whole file, so a flipped bit is noticed when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from didact import checksums, disk
from didact.errors import FormatError

_STATE = "didact"


def write(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write the file; whoever reads sees the old one or the new one, also if this process is killed."""
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    head = {_STATE: json.dumps(state, sort_keys=True), checksums.MARK: checksums.BLANK}
    disk.write_bytes(path, checksums.seal(_in_order(save(plain, head))))


def read(path: Path, cure: str, *, sealed: bool = True) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and state of a file; one that is damaged is named, with what to do about it.

    Args:
        path: of the file.
        cure: what to do about a damaged one, for the message.
        sealed: whether a file without a checksum is refused too; not where its hash is known from elsewhere.
    """
    if not path.is_file():
        raise FormatError(f"there is no file {path}; {cure}")
    try:
        data = checksums.read_whole(path, needed=sealed)
        return load(data), json.loads(_metadata(data).get(_STATE, "{}"))
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as problem:
        raise FormatError(f"{path} cannot be read as safetensors ({problem!s:.120}); {cure}") from None


def _in_order(data: bytes) -> bytes:
    """The same file with the texts in its head in the order of their names: the library writes them in any order."""
    end = 8 + int.from_bytes(data[:8], "little")
    head = json.loads(data[8:end])
    head["__metadata__"] = dict(sorted(head["__metadata__"].items()))
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[end:]


def _metadata(data: bytes) -> dict[str, str]:
    """The texts in the head, which begins with its length."""
    head = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return head.get("__metadata__") or {}


def tensors_hash(tensors: Mapping[str, Tensor]) -> str:
    """Short hash of names, types, shapes and every value, the same in every process."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
