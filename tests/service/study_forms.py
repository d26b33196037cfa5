"""A rater who uses the pages of a study as a browser does: reads the form of a page, fills it in, sends it."""

from collections.abc import Mapping
from html.parser import HTMLParser

import httpx2


class FormReader(HTMLParser):
    """The fields of a page's form for answers, and the values that can be chosen."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.options: dict[str, list[str]] = {}
        self._inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("action") == "/page"
        if not self._inside or not given.get("name"):
            return
        if given.get("type") == "hidden":
            self.fields[given["name"]] = given["value"]
        else:
            self.options.setdefault(given["name"], []).append(given.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "form"

    @property
    def first_answers(self) -> dict[str, str]:
        """The form with the first of all choices."""
        return self.fields | {name: values[0] for name, values in self.options.items()}


async def joined(client: httpx2.AsyncClient, code: str) -> FormReader:
    """The first open page after joining with a code."""
    response = await client.post("/join", data={"code": code}, follow_redirects=True)
    assert response.status_code == 200, response.text
    return FormReader(response.text)


async def sent(client: httpx2.AsyncClient, form: Mapping[str, str]) -> httpx2.Response:
    """What follows an answer."""
    return await client.post("/page", data=dict(form), follow_redirects=True)
