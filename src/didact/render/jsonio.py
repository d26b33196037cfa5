"""Explanations as a JSON document with a version, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from didact.errors import FormatError, InputError
from didact.types import Explanation, Image
from didact.validation import dump_json, object_value, parse_json, shown

FORMAT = "didact-explanations"
VERSION = 1


def dump(explanations: Sequence[Explanation], *, indent: int | None = None, **beside: object) -> str:
    """A JSON document that ``load`` turns back into equal explanations, and plain values beside them."""
    if not explanations:
        raise InputError("there is nothing to write: the list of explanations is empty; give at least one")
    images = {field.fingerprint: field for each in explanations for field in _images(each)}
    plain: dict[str, object] = {
        "format": FORMAT,
        "version": VERSION,
        "explanations": [_plain(each) for each in explanations],
        **beside,
    }
    if images:
        plain["images"] = {name: image.to_dict() for name, image in images.items()}
    return dump_json(plain, indent=indent)


def load(text: str) -> list[Explanation]:
    """Inverse of ``dump``.

    Raises:
        FormatError: the text is not such a document; the message names the explanation and what is wrong with it.
    """
    document = parse_json(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f'not a file of explanations: expected a JSON object with "format": "{FORMAT}"')
    version = document.get("version")
    if version != VERSION:
        raise FormatError(f"explanations in format version {version!r}; this didact reads version {VERSION}")
    listed = document.get("explanations")
    if not isinstance(listed, list):
        raise FormatError(f'"explanations" must be a list, got {type(listed).__name__}')
    images = object_value(document.get("images", {}), '"images"')
    return [_explanation(data, index, images) for index, data in enumerate(listed)]


def _images(explanation: Explanation) -> list[Image]:
    return [field for field in explanation.example.fields if isinstance(field, Image)]


def _plain(explanation: Explanation) -> dict[str, Any]:
    """An explanation as plain values, with the names of its images: a document holds each image once."""
    plain = explanation.to_dict()
    if _images(explanation):
        plain["units"]["example"]["fields"] = [
            {"image": field.fingerprint} if isinstance(field, Image) else field for field in explanation.example.fields
        ]
    return plain


def _explanation(data: object, index: int, images: Mapping[str, Any]) -> Explanation:
    if not isinstance(data, dict):
        raise FormatError(f"explanation {index}: must be a JSON object, got {type(data).__name__}")
    try:
        return Explanation.from_dict(_with_images(data, images))
    except FormatError as problem:
        raise FormatError(f"explanation {index}: {problem}") from None


def _with_images(data: dict[str, Any], images: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the images in place of their names; what has another form is left to be refused."""
    units = data.get("units")
    example = units.get("example") if isinstance(units, dict) else None
    fields = example.get("fields") if isinstance(example, dict) else None
    if not isinstance(units, dict) or not isinstance(example, dict) or not isinstance(fields, list):
        return data
    whole = [_image(field, images) if isinstance(field, dict) and "image" in field else field for field in fields]
    return {**data, "units": {**units, "example": {**example, "fields": whole}}}


def _image(field: dict[str, Any], images: Mapping[str, Any]) -> object:
    name = field["image"]
    if not isinstance(name, str) or name not in images:
        raise FormatError(f"the document has no image {shown(name)}")
    return images[name]
