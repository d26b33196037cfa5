"""Damage to bytes: what disks, networks, editors and attackers do to a file."""

from __future__ import annotations

from collections.abc import Callable
from random import Random


def mutated(rng: Random, data: bytes) -> bytes:
    """The bytes with one kind of damage; never the same bytes, unless nothing can be changed."""
    for _ in range(10):
        changed = rng.choice(KINDS)(rng, data)
        if changed != data:
            return changed
    return data + b"\x00"


def _flip(rng: Random, data: bytes) -> bytes:
    """One bit."""
    return _flip_bits(rng, data, 1)


def _flips(rng: Random, data: bytes) -> bytes:
    return _flip_bits(rng, data, rng.randint(2, 16))


def _flip_bits(rng: Random, data: bytes, count: int) -> bytes:
    changed = bytearray(data)
    for _ in range(count if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _replace(rng: Random, data: bytes) -> bytes:
    """One byte by another printable one: what a person mistypes."""
    if not data:
        return b"x"
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.choice(b'0123456789-"{}[],.:abcxyzE \n')]) + data[at + 1 :]


def _truncate(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))] if data else data


def _extend(rng: Random, data: bytes) -> bytes:
    return data + rng.randbytes(rng.randint(1, 64))


def _swap(rng: Random, data: bytes) -> bytes:
    """Two bytes change places."""
    if len(data) < 2:
        return data
    first, second = sorted(rng.sample(range(len(data)), 2))
    changed = bytearray(data)
    changed[first], changed[second] = changed[second], changed[first]
    return bytes(changed)


def _duplicate(rng: Random, data: bytes) -> bytes:
    start, end = _block(rng, data)
    return data[:end] + data[start:end] + data[end:]


def _delete(rng: Random, data: bytes) -> bytes:
    start, end = _block(rng, data)
    return data[:start] + data[end:]


def _zero(rng: Random, data: bytes) -> bytes:
    start, end = _block(rng, data)
    return data[:start] + bytes(end - start) + data[end:]


def _shuffle(rng: Random, data: bytes) -> bytes:
    """Two neighbouring blocks change places."""
    start, end = _block(rng, data)
    after = min(len(data), end + (end - start))
    return data[:start] + data[end:after] + data[start:end] + data[after:]


def _block(rng: Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 8, 64, 512, 4096)))


KINDS: tuple[Callable[[Random, bytes], bytes], ...] = (
    _flip, _flip, _flip, _flips, _replace, _truncate, _extend, _swap, _duplicate, _delete, _zero, _shuffle,
)  # fmt: skip
