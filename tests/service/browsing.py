"""Pages in real Chromium: nothing outside this machine is asked for, and nothing runs that should not."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from starlette.types import ASGIApp

CHROMIUM = "/usr/bin/chromium"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True}


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as engine:
        try:
            browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except sync_api.Error as problem:
            pytest.skip(f"no Chromium: {str(problem).splitlines()[0]}")
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def listening(app: ASGIApp) -> Iterator[str]:
    """The address of an app that is served by a thread."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", timeout_keep_alive=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


class Visitor:
    """A window whose requests to other machines are blocked and remembered, with all that went wrong in it.

    Args:
        browser: of ``chromium``.
        address: that relative paths are opened at.
        options: of the window, such as ``color_scheme``.
    """

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.elsewhere: list[str] = []
        self.problems: list[str] = []
        self._context = browser.new_context(base_url=address, **options)
        self._context.route("**/*", self._let_through)
        self._context.set_default_timeout(10_000)
        self.page = self._context.new_page()
        self.page.on("console", lambda message: self.problems.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda problem: self.problems.append(str(problem)))
        self.page.on("dialog", lambda dialog: (self.problems.append(dialog.message), dialog.dismiss()))

    def __enter__(self) -> "Visitor":
        return self

    def __exit__(self, *problem: object) -> None:
        self._context.close()

    def tab_to(self, selector: str) -> None:
        """Press Tab until an element has the focus."""
        for _ in range(80):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("wanted => document.activeElement.matches(wanted)", selector):
                return
        raise AssertionError(f"the keyboard does not reach {selector} on {self.page.url}")

    def check(self) -> None:
        """The page fits its window, and axe finds nothing serious in it."""
        from axe_playwright_python.sync_playwright import Axe

        widths = self.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert widths[0] <= widths[1], f"{self.page.url} is wider than its window"
        found = Axe().run(self.page).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert not serious, [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in serious]

    def _let_through(self, route: Any) -> None:
        if urlsplit(route.request.url).hostname == "127.0.0.1":
            route.continue_()
        else:
            self.elsewhere.append(route.request.url)
            route.abort()
