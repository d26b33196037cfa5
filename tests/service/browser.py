"""Pages in a real browser: an app behind a socket, Chromium that reaches nothing but it, and axe."""

import contextlib
import shutil
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from fastapi import FastAPI

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1100, "height": 900}


@contextlib.contextmanager
def behind_socket(app: FastAPI) -> Iterator[str]:
    """The address of an app that a thread serves on loopback."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(30)


def wait_until_ready(address: str) -> None:
    """Returns once every model is loaded."""
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/readyz"):
            return
        time.sleep(0.05)
    raise TimeoutError("the models were not loaded within 30 seconds")


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Debian's Chromium; the test is skipped where it or playwright is missing."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Window:
    """A page of the browser that reaches loopback alone, and what went wrong on it.

    Attributes:
        page: of playwright.
        abroad: addresses of other machines that were tried.
        faults: messages of the console that are errors: faults of scripts, and what the policy stopped.
    """

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": DESK, **options})
        self.context.set_default_timeout(20_000)
        self.page = self.context.new_page()
        self.abroad: list[str] = []
        self.faults: list[str] = []
        self.context.route(lambda address: not _is_near(address), self._refuse)
        self.page.on("console", lambda line: self.faults.append(line.text) if line.type == "error" else None)
        self.page.on("pageerror", lambda problem: self.faults.append(str(problem)))

    def _refuse(self, route: Any) -> None:
        self.abroad.append(route.request.url)
        route.abort()

    def sound(self) -> None:
        """Nothing else was tried to be reached, no script failed, nothing was stopped by the policy."""
        problems = self.abroad + self.faults
        assert not problems, problems

    def accessible(self) -> None:
        """Axe finds nothing serious."""
        self._styled()
        axe = pytest.importorskip("axe_playwright_python")
        script = (Path(axe.__file__).parent / "axe.min.js").read_text("utf-8")
        self.page.evaluate(script)  # not as an element, which the policy would stop
        found = self.page.evaluate("axe.run()")["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        places = [(each["id"], each["nodes"][0]["html"], each["nodes"][0]["failureSummary"]) for each in serious]
        assert not places, places

    def fits(self) -> None:
        """Nothing stands beyond the right edge."""
        self._styled()
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def background(self) -> str:
        """The colour behind everything."""
        self._styled()
        colour: str = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return colour

    def _styled(self) -> None:
        """Returns once the sheets are there: after a form is sent, elements may be there before them."""
        self.page.wait_for_load_state()


def _is_near(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme in ("data", "blob", "about") or parts.hostname in ("127.0.0.1", "localhost")
