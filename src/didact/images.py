"""Images as bytes of red, green and blue, from whatever a user has: files, PIL images, arrays, bytes."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import sys
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from didact.errors import FormatError, InputError, ParameterError
from didact.validation import list_value, object_value, shown, text_value, whole_number

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

Pixels = NDArray[np.uint8]

MAX_PIXELS = "DIDACT_MAX_PIXELS"
"""Environment variable that sets how many pixels an image may have."""

USUAL_MAX_PIXELS = 64_000_000
"""The limit where the environment sets none: 8,000 x 8,000, which is 192 MB in memory."""


@runtime_checkable
class ArrayLike(Protocol):
    """Numpy arrays, and PIL images, which show their pixels as one."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


@dataclass(frozen=True, eq=False)
class Image:
    """A picture: its pixels (height, width, 3) as bytes.

    Two images are equal when their pixels are.
    """

    pixels: Pixels

    def __post_init__(self) -> None:
        if self.pixels.dtype != np.uint8 or self.pixels.ndim != 3 or self.pixels.shape[2] != 3:
            raise InputError(
                f"an image must be bytes of shape (height, width, 3), got {self.pixels.dtype} {self.pixels.shape}; "
                "Image.of(...) reads files, PIL images and other arrays"
            )
        if not self.pixels.size:
            raise InputError(f"an image needs at least one pixel, got {self.size[0]} x {self.size[1]}")

    @classmethod
    def of(cls, given: Image | str | Path | bytes | ArrayLike) -> Image:
        """Read an image from a file, its bytes, a PIL image or an array.

        All become red, green and blue at 8 bits. Gray gets three equal channels, palettes their colours, 16 bits are
        scaled to 8, transparent pixels are laid on white, the rotation that a camera notes is carried out, and of an
        animation the first frame is taken, with a warning. Files need Pillow (``pip install didact[images]``).

        Args:
            given: a path (also as a string), the bytes of a file, a PIL image, or an array: (height, width) or (height,
                width, 1, 3 or 4) of whole numbers from 0 to 255, or of floats from 0 to 1.

        Raises:
            InputError: it is no image, damaged, or has more pixels than ``DIDACT_MAX_PIXELS`` (64 million).
        """
        if isinstance(given, Image):
            check_size(*given.size)
            return given
        if isinstance(given, (str, Path)):
            return cls(_from_file(given))
        if isinstance(given, (bytes, bytearray, memoryview)):
            return cls(_decoded(io.BytesIO(given), f"the {len(given):,} bytes given"))
        if _is_pillow(given):
            return cls(_from_pillow(given, "the image"))
        return cls(_from_array(given))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return int(self.pixels.shape[1]), int(self.pixels.shape[0])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the pixels, the same in every process."""
        return hashlib.sha256(json.dumps(self.size).encode() + self.pixels.tobytes()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Image) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Image({self.size[0]} x {self.size[1]}, {self.fingerprint})"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the size, and the pixels compressed without loss."""
        packed = base64.b64encode(zlib.compress(self.pixels.tobytes())).decode("ascii")
        return {"size": list(self.size), "pixels": packed}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Image:
        """Inverse of ``to_dict``; pixels that do not fill the size are refused without unpacking them all."""
        entries = object_value(data, "an image", ("size", "pixels"), ())
        size = [
            whole_number(length, "size of an image", 1) for length in list_value(entries["size"], "size of an image")
        ]
        if len(size) != 2:
            raise FormatError(f"the size of an image is its width and height, got {shown(size)}")
        expected = 3 * size[0] * size[1]
        try:
            packed = base64.b64decode(text_value(entries["pixels"], "pixels of an image"), validate=True)
            raw = zlib.decompressobj().decompress(packed, min(expected + 1, 2**31))
        except (ValueError, zlib.error) as problem:
            raise FormatError(f"the pixels of an image are not packed as they should be: {problem}") from None
        if len(raw) != expected:
            raise FormatError(f"an image of {size[0]} x {size[1]} has {expected:,} bytes of pixels, not those given")
        return cls(np.frombuffer(raw, dtype=np.uint8).reshape(size[1], size[0], 3))


def is_picture(given: object) -> bool:
    """Whether ``Image.of`` would read it as an image; a string could be a text, so it is none."""
    return isinstance(given, (Image, Path, bytes, np.ndarray)) or _is_pillow(given)


def read_codes(given: Path | bytes) -> NDArray[np.int64]:
    """The numbers in a file that numbers its pixels, such as a mask or a trimap: (height, width).

    A palette's indices count, not its colours; of a colour image the three channels must be equal.
    """
    source = given if isinstance(given, Path) else io.BytesIO(given)
    name = str(given) if isinstance(given, Path) else f"the {len(given):,} bytes given"
    with _opened(source, name) as picture:
        codes = np.asarray(picture, dtype=np.int64)
    if codes.ndim == 3 and (codes[..., :1] == codes[..., :3]).all():
        codes = codes[..., 0]
    if codes.ndim != 2:
        raise InputError(f"{name}: a mask has one number per pixel, gray or a palette, but its pixels are colours")
    return codes


def check_size(width: int, height: int, name: str = "the image") -> None:
    """Refuse an image with more pixels than the limit."""
    given = os.environ.get(MAX_PIXELS, "")
    if given and not (given.isascii() and given.isdigit() and len(given) <= 18 and int(given)):
        raise ParameterError(f"{MAX_PIXELS} must be a whole number, at least 1, got {given!r:.60}")
    most = int(given or USUAL_MAX_PIXELS)
    if width * height > most:
        raise InputError(
            f"{name} has {width:,} x {height:,} pixels, more than {most:,}; make it smaller (models look at a few "
            f"hundred pixels a side), or raise the limit with {MAX_PIXELS} or --max-pixels"
        )


def _from_file(given: str | Path) -> Pixels:
    name = str(given)
    if name.startswith(("http://", "https://")):
        raise InputError(f"nothing is downloaded here: save {name!r:.200} as a file and give its path")
    path = Path(given).expanduser()
    try:
        if path.is_dir():
            raise InputError(f"{name!r:.200} is a folder, not an image; load_data reads folders of images")
        if not path.is_file():
            raise InputError(f"there is no image {name!r:.200}")
    except (OSError, ValueError):  # a name that no file can have
        raise InputError(f"there is no image {name!r:.200}") from None
    return _decoded(path, name)


def _decoded(source: Path | io.BytesIO, name: str) -> Pixels:
    with _opened(source, name) as picture:
        return _from_pillow(picture, name)


def encoded_size(data: bytes) -> tuple[int, int]:
    """Width and height that the bytes of a file declare, without decoding its pixels."""
    with _header(io.BytesIO(data), f"the {len(data):,} bytes given") as picture:
        return int(picture.width), int(picture.height)


@contextlib.contextmanager
def _opened(source: Path | io.BytesIO, name: str) -> Iterator[PillowImage]:
    """A file opened and decoded by Pillow; what is wrong with it becomes one line."""
    with _header(source, name) as opened:
        check_size(opened.width, opened.height, name)
        try:
            opened.load()
        except Exception as problem:
            raise _damaged(name, problem) from None
        yield opened


def _header(source: Path | io.BytesIO, name: str) -> PillowImage:
    """A file opened by Pillow, its pixels not yet read."""
    try:
        import PIL.Image
    except ImportError:
        raise InputError(f"{name}: image files are read with Pillow; pip install didact[images]") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)  # check_size has its own limit
            return PIL.Image.open(source)
    except PIL.Image.DecompressionBombError:
        raise InputError(f"{name} has far more pixels than can be read: make it smaller") from None
    except PIL.UnidentifiedImageError:
        raise InputError(f"{name} is not an image that Pillow can read, or it is damaged") from None
    except Exception as problem:
        raise _damaged(name, problem) from None


def _damaged(name: str, problem: Exception) -> Exception:
    """Decoders of damaged files raise whatever they stumble over; memory that ran out is no damage."""
    if isinstance(problem, MemoryError):
        return problem
    return InputError(f"{name} is damaged and cannot be read as an image: {problem}")


def _is_pillow(given: object) -> bool:
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(given, module.Image)


def _from_pillow(picture: Any, name: str) -> Pixels:
    import PIL.Image
    from PIL import ImageOps

    check_size(picture.width, picture.height, name)
    if getattr(picture, "n_frames", 1) > 1 and picture.format != "MPO":  # an MPO's further frames are previews
        warnings.warn(f"{name} has {picture.n_frames} frames; the first one is explained", stacklevel=5)
    try:
        upright = ImageOps.exif_transpose(picture)
    except Exception:  # damaged notes of a camera say nothing about its rotation
        upright = picture
    if upright.mode.startswith("I") or upright.mode == "F":
        return _eight_bits(np.asarray(upright), name)
    if upright.has_transparency_data:
        clear = upright.convert("RGBA")
        upright = PIL.Image.alpha_composite(PIL.Image.new("RGBA", clear.size, "white"), clear)
    return np.array(upright.convert("RGB"), dtype=np.uint8)


def _from_array(given: object) -> Pixels:
    if not hasattr(given, "__array__") and not hasattr(given, "__array_interface__"):
        raise InputError(f"an image is a path, the bytes of a file, a PIL image or an array, got {shown(given)}")
    array = np.asarray(given)
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        raise InputError(f"an image has its colours last, got shape {array.shape}; use array.transpose(1, 2, 0)")
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)) or not array.size:
        raise InputError(f"an image has shape (height, width) or (height, width, 1, 3 or 4), got {array.shape}")
    check_size(array.shape[1], array.shape[0])
    return _eight_bits(array, "the array")


def _eight_bits(array: NDArray[Any], name: str) -> Pixels:
    """Numbers as bytes of three channels, (height, width, 3)."""
    if array.dtype == np.bool_ or array.dtype.kind not in "uif":
        raise InputError(f"{name}: an image is made of whole numbers or floats, got {array.dtype}")
    low, high = array.min(), array.max()
    if array.dtype.kind == "f":
        if not (low >= 0 and high <= 1):
            raise InputError(f"{name}: floats of an image lie between 0 and 1, got {low:.4g} to {high:.4g}")
        array = np.round(array * 255)
    elif array.dtype == np.uint16 or (array.dtype == np.int32 and 255 < high <= 65_535 and low >= 0):
        array = np.round(array / 257)  # 16 bits: 65,535 is white
    elif not (low >= 0 and high <= 255):
        raise InputError(f"{name}: whole numbers of an image lie between 0 and 255, got {low} to {high}")
    return _three_channels(array.astype(np.uint8))


def _three_channels(array: Pixels) -> Pixels:
    if array.ndim == 2:
        array = array[..., None]
    if array.shape[2] == 4:
        alpha = array[..., 3:].astype(np.float64) / 255
        array = np.round(array[..., :3] * alpha + 255 * (1 - alpha)).astype(np.uint8)
    return np.array(np.broadcast_to(array, (*array.shape[:2], 3)))
