"""Forms that a browser sends without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from didact.service.problems import Refusal

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 100


async def read_form(request: Request) -> Mapping[str, str]:
    """The fields of a form by name.

    Raises:
        Refusal: the body is no form, is not UTF-8, or has a field twice or too many fields.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise Refusal(415, f"Content-Type is {kind!r:.80}; send the form as {FORM}")
    try:
        text = (await request.body()).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Refusal(400, f"the body is not a form of at most {MOST_FIELDS} fields in UTF-8", "not_a_form") from None
    fields = {name: value.replace("\r\n", "\n") for name, value in pairs}  # browsers break lines by two characters
    if len(fields) < len(pairs):
        raise Refusal(400, "the form has a field twice", "not_a_form")
    return fields


async def read_upload(request: Request) -> list[tuple[str, bytes]]:
    """The fields of a form with files, which stand between copies of the boundary that its type names.

    Raises:
        Refusal: the body is no such form, or has too many fields.
    """
    kind = request.headers.get("content-type", "")
    boundary = re.match(r"multipart/form-data *; *boundary=\"?([\w'()+,./:=?-]{1,70})", kind)
    if boundary is None:
        raise Refusal(415, f"Content-Type is {kind!r:.80}; send the form as multipart/form-data")
    _, *parts = (b"\r\n" + await request.body()).split(b"\r\n--" + boundary[1].encode())
    if not 0 < len(parts) <= MOST_FIELDS:
        raise Refusal(400, f"the form has {len(parts)} parts; 1 to {MOST_FIELDS} are allowed", "not_a_form")
    fields = []
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'[; ]name="([^"]*)"', head)
        if name is not None:
            fields.append((name[1].decode("utf-8", "replace"), content))
    return fields
