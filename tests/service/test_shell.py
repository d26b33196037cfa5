"""The frame of the pages: its policy, its files, and text that stays text."""

import re
from collections.abc import Callable
from typing import Any

import httpx2

from didact.service.pages.shell import WebPage, assets, respond


def test_the_policy_allows_no_script_or_style_of_the_page_itself() -> None:
    response = respond(WebPage("A <b>title</b>", "<p>body</p>", styles=".x{color:red}", modules=("playground.js",)))
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    html = bytes(response.body).decode()
    (nonce,) = re.findall(r'<style nonce="([^"]+)">', html)
    assert f"'nonce-{nonce}'" in policy
    assert nonce not in respond(WebPage("t", "b", styles="s")).headers["content-security-policy"]
    assert "<title>A &lt;b&gt;title&lt;/b&gt;</title>" in html


def test_files_of_pages_are_served_and_no_others(asked: Callable[..., Any]) -> None:
    async def use(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        names = [*assets(), "shell.py", "..%2fshell.py", "%2e%2e/shell.py", ""]
        return [await client.get(f"/assets/{name}") for name in names]

    responses = asked(use)
    served = [response for response in responses if response.status_code == 200]
    assert len(served) == len(assets())
    assert {response.headers["content-type"].partition(";")[0] for response in served} <= {
        "text/css",
        "text/javascript",
    }
    assert all(response.status_code == 404 for response in responses[len(assets()) :])
    assert ".didact" in served[0].text
