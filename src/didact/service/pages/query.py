"""What the playground is given: the fields of its form, from an address or an upload."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode

from fastapi import Request

from didact.service.forms import MOST_FIELDS, read_upload
from didact.service.problems import Refusal
from didact.service.schemas import ImageBody, Input, TextBody

SAVED = "saved:"
"""Stands before the name of a saved explainer among the methods."""


@dataclass(frozen=True)
class Query:
    """A view of the playground. All of it but an image is in the view's address.

    Attributes:
        text: what is explained; for a question, the question.
        second: the second text of a pair, or the passage of a question.
        image: bytes of an image file, in place of texts.
        model: its name; the service's first when empty.
        methods: names of methods, and of saved explainers behind ``SAVED``; the model's default when empty.
        target: a label, or "all" for every class; what is predicted when empty.
        rather: a label for a contrastive target: why the target rather than this class?
        before: the text before it was edited, to compare with.
        flip: whether to search for the smallest change that flips the prediction.
    """

    text: str = ""
    second: str = ""
    image: bytes = b""
    model: str = ""
    methods: tuple[str, ...] = ()
    target: str = ""
    rather: str = ""
    before: str = ""
    flip: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing to explain."""
        return not (self.text.strip() or self.image)

    @property
    def inputs(self) -> list[Input]:
        """What is explained as the API takes it: the text before an edit, if there is one, comes first."""
        if self.image:
            return [ImageBody(image=base64.b64encode(self.image).decode())]
        texts = [self.before, self.text] if self.before.strip() else [self.text]
        return [TextBody(text=text, text_pair=self.second) if self.second.strip() else text for text in texts]

    def address(self, path: str = "/", **changes: object) -> str:
        """The link that makes this view again, with some fields changed."""
        made = replace(self, **changes)  # type: ignore[arg-type] # names and types of the fields
        fields = ("text", "second", "model", "target", "rather", "before")
        pairs = [(name, getattr(made, name)) for name in fields if getattr(made, name)]
        pairs += [("method", name) for name in made.methods] + ([("flip", "1")] if made.flip else [])
        return f"{path}?{urlencode(pairs, errors='replace')}" if pairs else path


async def read_query(request: Request) -> Query:
    """The view that a request wants: its address for GET, its form with an image for POST."""
    if request.method == "POST":
        return _query(await read_upload(request))
    try:
        pairs = parse_qsl(request.url.query, keep_blank_values=True, errors="replace", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Refusal(413, f"the address has more than {MOST_FIELDS} fields") from None
    return _query([(name, value.encode("utf-8", "replace")) for name, value in pairs])


def _query(pairs: Sequence[tuple[str, bytes]]) -> Query:
    named = {name: value for name, value in pairs if value}
    methods = dict.fromkeys(_text(value) for name, value in pairs if name == "method" and value)
    texts = {name: _text(named.get(name, b"")) for name in ("text", "second", "model", "target", "rather", "before")}
    before = texts.pop("before")
    return Query(
        **texts,
        image=named.get("image", b""),
        methods=tuple(methods),
        before="" if before == texts["text"] else before,
        flip=bool(named.get("flip")),
    )


def _text(value: bytes) -> str:
    """A field as text, with line breaks as everywhere else; browsers send theirs as two characters."""
    return value.decode("utf-8", "replace").replace("\r\n", "\n")
