"""Both protocols of a study in real Chromium: by keyboard alone, in the dark, at the width of a phone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from didact.experiments.people import report
from didact.service.config import ServiceConfig
from didact.service.studies.app import create_study_app
from didact.study.rows import read_answers
from didact.study.session import Study
from tests.service.browser import PHONE, Window, behind_socket, chromium
from tests.service.test_study_pages import KEY, codes_of, hostile_study, small_study


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


def test_rank_by_keyboard_alone(browser: Any, tmp_path: Path) -> None:
    study = small_study(tmp_path, "rank", items=2, check_every=0)
    with behind_socket(pages_of(study)) as address:
        window = Window(browser, base_url=address)
        code = codes_of(study)[0]
        join(window, code)
        check(window)
        checked = False
        while window.page.locator("form.answer-form").count():
            letters = "ABC" if window.page.locator(".candidate").count() else ""
            for number, letter in enumerate(letters):
                tab_to(window, f'input[name="rank-{letter}"]')
                window.page.keyboard.press("Space")
                for _ in range(number):
                    window.page.keyboard.press("ArrowRight")
            if letters and not checked:
                check(window)
                checked = True
            send(window)
        assert "this was the last page" in window.page.inner_text("main")
        rankings = [row.answer for row in read_answers(study) if row.phase == "main"]
        assert rankings == [{"A": 1, "B": 2, "C": 3}] * 2
        owner_sees(window)
        delete(window, code)
        assert read_answers(study) == []
        window.sound()


def test_simulate_on_a_phone_in_the_dark_with_hostile_texts(browser: Any, tmp_path: Path) -> None:
    study = hostile_study(tmp_path)
    comment = "</textarea><script>alert(1)</script>"
    with behind_socket(pages_of(study)) as address:
        window = Window(browser, base_url=address, color_scheme="dark", viewport=PHONE, has_touch=True)
        alerts: list[str] = []
        window.page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
        study.join(codes_of(study)[0])  # the arm without explanations
        join(window, codes_of(study)[1])
        page, seen = window.page, set()
        while page.locator("form.answer-form").count():
            title = page.locator("h1").inner_text()
            if title not in seen and title in ("Foresee", "Learn", "Almost done"):
                check(window)
            seen.add(title)
            if page.locator("input[type=radio]").count():
                page.locator("label", has=page.locator("input[type=radio]")).first.tap()
            if page.locator("textarea").count():
                page.locator("textarea").fill(comment)
            send(window, lambda: page.locator(".answer-form button.main").tap())
        assert {"Foresee", "Learn", "Almost done"} <= seen
        assert window.background() == "rgb(20, 23, 27)"
        assert [row.answer for row in read_answers(study) if row.phase == "survey"] == [comment]
        assert alerts == []
        window.sound()


def pages_of(study: Study) -> Any:
    return create_study_app(study, ServiceConfig(token=KEY), report.page)


def tab_to(window: Window, selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(80):
        window.page.keyboard.press("Tab")
        if window.page.evaluate("wanted => document.activeElement.matches(wanted)", selector):
            return
    raise AssertionError(f"the keyboard does not reach {selector} on {window.page.url}")


def check(window: Window) -> None:
    window.fits()
    window.accessible()


def join(window: Window, code: str) -> None:
    window.page.goto("/")
    tab_to(window, "#code")
    window.page.keyboard.type(code.lower())
    window.page.keyboard.press("Enter")
    window.page.wait_for_url("**/page")


def send(window: Window, press: Callable[[], None] | None = None) -> None:
    """Move on, by keyboard where nothing else is given, and wait for the next page."""
    before = window.page.locator("input[name=page]").get_attribute("value")
    if press is None:
        tab_to(window, ".answer-form button.main")
        window.page.keyboard.press("Enter")
    else:
        press()
    window.page.locator(f'input[name=page][value="{before}"]').wait_for(state="detached")
    window.page.locator("h1").wait_for()


def owner_sees(window: Window) -> None:
    """Progress and results, after signing in."""
    window.page.goto("/owner")
    tab_to(window, "#key")
    window.page.keyboard.type(KEY)
    window.page.keyboard.press("Enter")
    window.page.locator(".raters").wait_for()
    check(window)
    window.page.goto("/owner/results")
    assert window.page.locator("h2").count() > 3


def delete(window: Window, code: str) -> None:
    window.page.goto("/delete")
    check(window)
    tab_to(window, "#code")
    window.page.keyboard.type(code)
    tab_to(window, "input[name=sure]")
    window.page.keyboard.press("Space")
    tab_to(window, "button.main")
    window.page.keyboard.press("Enter")
    window.page.get_by_role("heading", name="Deleted").wait_for()
