"""Explanations as a JSON document with a version, and back."""

from __future__ import annotations

from collections.abc import Sequence

from didact.errors import FormatError, InputError
from didact.types import Explanation
from didact.validation import dump_json, parse_json

FORMAT = "didact-explanations"
VERSION = 1


def dump(explanations: Sequence[Explanation], *, indent: int | None = None) -> str:
    """A JSON document that ``load`` turns back into equal explanations."""
    if not explanations:
        raise InputError("there is nothing to write: the list of explanations is empty; give at least one")
    plain = {"format": FORMAT, "version": VERSION, "explanations": [each.to_dict() for each in explanations]}
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
    return [_explanation(data, index) for index, data in enumerate(listed)]


def _explanation(data: object, index: int) -> Explanation:
    if not isinstance(data, dict):
        raise FormatError(f"explanation {index}: must be a JSON object, got {type(data).__name__}")
    try:
        return Explanation.from_dict(data)
    except FormatError as problem:
        raise FormatError(f"explanation {index}: {problem}") from None
