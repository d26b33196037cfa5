"""Explanations as a JSON document with a version, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from didact.errors import FormatError, InputError
from didact.types import Explanation

FORMAT = "didact-explanations"
VERSION = 1


def dump(explanations: Sequence[Explanation], *, indent: int | None = None) -> str:
    """A JSON document that ``load`` turns back into equal explanations."""
    if not explanations:
        raise InputError("there is nothing to write: the list of explanations is empty; give at least one")
    plain = {"format": FORMAT, "version": VERSION, "explanations": [each.to_dict() for each in explanations]}
    text = json.dumps(plain, ensure_ascii=False, indent=indent)
    # A lone surrogate cannot be encoded when the text is written to a file, and a control character may act; escapes
    # do neither.
    return re.sub("[\x7f-\x9f\ud800-\udfff]", lambda match: f"\\u{ord(match.group()):04x}", text)


def load(text: str) -> list[Explanation]:
    """Inverse of ``dump``.

    Raises:
        FormatError: the text is not such a document; the message names the explanation and what is wrong with it.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as problem:
        raise FormatError(f"not JSON: {problem}") from None
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
