"""Images with labels and masks: folders of files, cells of tables, and the data sets CIFAR-10 and Oxford-IIIT Pet."""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from didact.errors import DidactError, FormatError, InputError
from didact.images import read_codes
from didact.types import Box, Example, Image, Mask, Region, check_regions, read_regions
from didact.validation import shown

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
"""Of the files that are read as images."""
MASK = ".mask.png"
"""End of the name of a file that marks pixels of the image beside it: cat.jpg has cat.mask.png."""

ImageRow = tuple[str, Mapping[str, object]]
"""Where a row stands, and its columns."""
Splits = Mapping[str, Callable[[], Iterable[ImageRow]]]


@dataclass(frozen=True)
class PackedFile:
    """A file in a zip archive, which is read when it is needed.

    Attributes:
        archive: the open archive.
        name: in the archive.
    """

    archive: zipfile.ZipFile
    name: str

    def __str__(self) -> str:
        return self.name

    def read(self) -> bytes:
        """What it holds."""
        try:
            return self.archive.read(self.name)
        except (OSError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as problem:
            raise FormatError(f"{self.name} of {self.archive.filename} cannot be read: {problem}") from None


class Trimap(PackedFile):
    """A packed mask in which 1 is the object, 2 the background, 3 its boundary or not classified."""

    def mask(self) -> Mask:
        """The object's pixels."""
        codes = read_codes(self.read())
        return Mask.of(codes == 1, codes == 3)


def image_files(folder: Path) -> list[Path]:
    """The images below a folder in order of their names; masks are none."""
    files = (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in ENDINGS and path.is_file())
    return [path for path in files if not path.name.endswith(MASK)]


def folder_splits(folder: Path) -> Splits:
    """Splits of a folder of images; empty where there is no image.

    Files lie at SPLIT/LABEL/NAME.jpg, LABEL/NAME.jpg, or NAME.jpg without labels. Folders called train, validation,
    valid, val, dev or test are splits where there are no others.
    """
    files = image_files(folder)
    named = {path.relative_to(folder).parts[0] for path in files if len(path.relative_to(folder).parts) > 1}
    if named and named <= {"train", "validation", "valid", "val", "dev", "test"}:
        return {name: _folder_rows(folder / name) for name in sorted(named)}
    return {"all": _folder_rows(folder)} if files else {}


def read_image(value: object, folder: Path | None) -> Image:
    """An image from a cell of a table: a path (from the table's folder on), bytes, an object, or what Parquet keeps."""
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    try:
        if isinstance(value, PackedFile):
            value = value.read()
        if isinstance(value, str):
            return Image.of(value if folder is None else folder / value)
        return Image.of(np.asarray(value) if isinstance(value, (list, tuple)) else value)  # type: ignore[arg-type]
    except DidactError as problem:
        raise FormatError(str(problem)) from None


def read_mask(value: object, example: Example, folder: Path | None) -> Mask:
    """The marked pixels: a ``Mask``, an array, a ``Trimap``, or a file whose pixels are 0 where nothing is marked."""
    if isinstance(value, str):
        value = Path(value) if folder is None else folder / value
    try:
        if isinstance(value, Trimap):
            value = value.mask()
        if isinstance(value, (Path, bytes)):
            value = read_codes(value)
        mask = value if isinstance(value, Mask) else Mask.of(np.asarray(value) > 0)
    except (DidactError, TypeError, ValueError) as problem:
        raise FormatError(f"a mask is a file or an array with a number per pixel: {problem}") from None
    (image,) = (field for field in example.fields if isinstance(field, Image))
    if mask.size != image.size:
        raise FormatError(
            f"the mask has {mask.size[0]} x {mask.size[1]} pixels, but its image {image.size[0]} x {image.size[1]}"
        )
    return mask


def read_boxes(value: object, example: Example) -> tuple[Region, ...]:
    """Marked boxes: a list of [left, top, right, bottom]."""
    regions = read_regions(value, "rationale")
    if not all(isinstance(region, Box) for region in regions):
        raise FormatError(f"what is marked in an image is a list of [left, top, right, bottom], got {shown(value)}")
    return check_regions(regions, "box", example.fields)


def cifar10_splits(folder: Path) -> Splits:
    """CIFAR-10 as train.npz and test.npz."""
    return {
        path.stem: lambda path=path: _cifar10_rows(path)  # type: ignore[misc]
        for path in sorted(folder.glob("*.npz"))
    }


def oxford_pets_splits(folder: Path) -> Splits:
    """Oxford-IIIT Pet as labels.csv and a zip file per split with images/NAME.webp and trimaps/NAME.png."""
    return {
        path.stem: lambda path=path: _pet_rows(folder, path)  # type: ignore[misc]
        for path in sorted(folder.glob("*.zip"))
    }


def _folder_rows(folder: Path) -> Callable[[], Iterator[ImageRow]]:
    def rows() -> Iterator[ImageRow]:
        for path in image_files(folder):
            inner = path.relative_to(folder)
            row: dict[str, object] = {"image": path, "id": inner.as_posix()}
            if len(inner.parts) > 1:
                row["label"] = inner.parts[0]
            mask = path.with_name(path.stem + MASK)
            yield str(path), row | ({"mask": mask} if mask.is_file() else {})

    return rows


def _cifar10_rows(path: Path) -> Iterator[ImageRow]:
    try:
        with np.load(path, allow_pickle=False) as file:
            pixels, labels, index = _undifferenced(file["residual"]), file["label"].tolist(), file["index"].tolist()
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as problem:
        raise FormatError(f"{path} does not hold images as residual, label and index: {problem}") from None
    for image, label, place in zip(pixels, labels, index, strict=True):
        yield f"{path}, image {place}", {"image": Image(image), "label": label, "id": f"{path.stem}-{place}"}


def _undifferenced(planes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """From second differences of R - G, G, B - G, modulo 256, to pixels: (3, n, h, w) -> (n, h, w, 3)."""
    planes = np.cumsum(np.cumsum(planes, axis=2, dtype=np.uint8), axis=3, dtype=np.uint8)
    planes[0] += planes[1]
    planes[2] += planes[1]
    return np.ascontiguousarray(planes.transpose(1, 2, 3, 0))


_SPECIES = {"1": "cat", "2": "dog"}


def _pet_rows(folder: Path, archive: Path) -> Iterator[ImageRow]:
    try:
        listed = csv.DictReader(io.StringIO((folder / "labels.csv").read_text("utf-8")))
        files = zipfile.ZipFile(archive)  # open until the last of its files is read
        for row in listed:
            if row["split"] == archive.stem:
                name = row["name"]
                yield (
                    f"{archive}, {name}",
                    {
                        "image": PackedFile(files, f"images/{name}.webp"),
                        "mask": Trimap(files, f"trimaps/{name}.png"),
                        "species": _SPECIES[row["species"]],
                        "breed": row["breed"],
                        "id": name,
                    },
                )
    except (OSError, KeyError, zipfile.BadZipFile) as problem:
        raise InputError(f"{archive} or its labels.csv cannot be read: {problem}") from None
