"""What the playground is given: the fields of its form, from an address or an upload."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode

from fastapi import Request

from didact.service.problems import Refusal
from didact.service.schemas import ImageBody, Input, TextBody

FIELDS = 200
"""Fields of a form at most; more are refused."""
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
        before: the text before it was edited, to compare with.
        flip: whether to search for the smallest change that flips the prediction.
    """

    text: str = ""
    second: str = ""
    image: bytes = b""
    model: str = ""
    methods: tuple[str, ...] = ()
    target: str = ""
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
        fields = ("text", "second", "model", "target", "before")
        pairs = [(name, getattr(made, name)) for name in fields if getattr(made, name)]
        pairs += [("method", name) for name in made.methods] + ([("flip", "1")] if made.flip else [])
        return f"{path}?{urlencode(pairs, errors='replace')}" if pairs else path


async def read_query(request: Request) -> Query:
    """The view that a request wants: its address for GET, its form for POST."""
    return _query(await read_form(request) if request.method == "POST" else read_address(request))


def read_address(request: Request) -> list[tuple[str, bytes]]:
    """The fields in a request's address."""
    return _pairs(request.url.query.encode())


async def read_form(request: Request) -> list[tuple[str, bytes]]:
    """The fields of a form that was sent, with the content of its files."""
    kind = request.headers.get("content-type", "")
    body = await request.body()
    if kind.startswith("application/x-www-form-urlencoded"):
        return _pairs(body)
    if not kind.startswith("multipart/form-data"):
        raise Refusal(415, f"Content-Type is {kind!r:.80}; send a form")
    return _parts(kind, body)


def text_of(value: bytes) -> str:
    """A field as text, with line breaks as everywhere else; browsers send theirs as two characters."""
    return value.decode("utf-8", "replace").replace("\r\n", "\n")


def _query(pairs: Sequence[tuple[str, bytes]]) -> Query:
    named = {name: value for name, value in pairs if value}
    methods = dict.fromkeys(text_of(value) for name, value in pairs if name == "method" and value)
    texts = {name: text_of(named.get(name, b"")) for name in ("text", "second", "model", "target", "before")}
    before = texts.pop("before")
    return Query(
        **texts,
        image=named.get("image", b""),
        methods=tuple(methods),
        before="" if before == texts["text"] else before,
        flip=bool(named.get("flip")),
    )


def _pairs(encoded: bytes) -> list[tuple[str, bytes]]:
    try:
        pairs = parse_qsl(encoded.decode("latin-1"), keep_blank_values=True, encoding="latin-1", max_num_fields=FIELDS)
    except ValueError:
        raise Refusal(413, f"a form of more than {FIELDS} fields") from None
    return [(name, value.encode("latin-1")) for name, value in pairs]


def _parts(kind: str, body: bytes) -> list[tuple[str, bytes]]:
    """The parts of a form with files, which stand between copies of the boundary that its type names."""
    boundary = re.search(r'boundary="?([\w\'()+,./:=?-]{1,70})', kind)
    if boundary is None:
        raise Refusal(400, "the form has no boundary; send it as a browser does", "bad_form")
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())
    if not 0 < len(parts) <= FIELDS:
        raise Refusal(400, f"the form has {len(parts)} parts; 1 to {FIELDS} are allowed", "bad_form")
    read = []
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'[; ]name="([^"]*)"', head)
        if name is not None:
            read.append((text_of(name[1]), content))
    return read
