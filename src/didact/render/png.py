"""Pixels as a PNG file, so that pictures of explanations need no library."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_PAETH = 4
_BAND = 256


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file of pixels (height, width, 3) without loss, as small as its usual filter makes photos."""
    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, red green blue
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(_lines(pixels, top)) for top in range(0, height, _BAND)) + packer.flush()
    chunks = ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _lines(pixels: NDArray[np.uint8], top: int) -> bytes:
    """The filtered lines of a band, each behind the number of its filter; a band at a time spares memory."""
    above = pixels[top - 1 : top] if top else np.zeros_like(pixels[:1])
    band = _filtered(np.concatenate([above, pixels[top : top + _BAND]]))
    numbers = np.full((len(band), 1), _PAETH, dtype=np.uint8)
    return np.concatenate([numbers, band.reshape(len(band), -1)], axis=1).tobytes()


def _filtered(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Each byte less the neighbour (left, above, or above left) that is nearest to left + above - above left.

    The first row is the one above those returned.
    """
    padded = np.pad(pixels.astype(np.int16), ((0, 0), (1, 0), (0, 0)))
    own, left, above, corner = padded[1:, 1:], padded[1:, :-1], padded[:-1, 1:], padded[:-1, :-1]
    to_left, to_above = np.abs(above - corner), np.abs(left - corner)
    to_corner = np.abs(left + above - 2 * corner)
    nearest = np.where((to_left <= to_above) & (to_left <= to_corner), left, corner)
    nearest = np.where((to_left > to_above) & (to_above <= to_corner), above, nearest)
    # Of equals the left one wins, then the one above.
    return ((own - nearest) % 256).astype(np.uint8)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
