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
from tests.service.browsing import PHONE, Visitor, chromium, listening
from tests.service.test_study_pages import KEY, codes_of, hostile_study, small_study


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


def test_rank_by_keyboard_alone(browser: Any, tmp_path: Path) -> None:
    study = small_study(tmp_path, "rank", items=2, check_every=0)
    with listening(pages_of(study)) as address, Visitor(browser, address) as visitor:
        code = codes_of(study)[0]
        join(visitor, code)
        visitor.check()
        checked = False
        while visitor.page.locator("form.answer-form").count():
            letters = "ABC" if visitor.page.locator(".candidate").count() else ""
            for number, letter in enumerate(letters):
                visitor.tab_to(f'input[name="rank-{letter}"]')
                visitor.page.keyboard.press("Space")
                for _ in range(number):
                    visitor.page.keyboard.press("ArrowRight")
            if letters and not checked:
                visitor.check()
                checked = True
            send(visitor)
        assert "this was the last page" in visitor.page.inner_text("main")
        rankings = [row.answer for row in read_answers(study) if row.phase == "main"]
        assert rankings == [{"A": 1, "B": 2, "C": 3}] * 2
        owner_sees(visitor)
        delete(visitor, code)
        assert read_answers(study) == []
    assert (visitor.elsewhere, visitor.problems) == ([], [])


def test_simulate_on_a_phone_in_the_dark_with_hostile_texts(browser: Any, tmp_path: Path) -> None:
    study = hostile_study(tmp_path)
    comment = "</textarea><script>alert(1)</script>"
    with (
        listening(pages_of(study)) as address,
        Visitor(browser, address, color_scheme="dark", **PHONE) as visitor,
    ):
        study.join(codes_of(study)[0])  # the arm without explanations
        join(visitor, codes_of(study)[1])
        page, seen = visitor.page, set()
        while page.locator("form.answer-form").count():
            title = page.locator("h1").inner_text()
            if title not in seen and title in ("Foresee", "Learn", "Almost done"):
                visitor.check()
            seen.add(title)
            if page.locator("input[type=radio]").count():
                page.locator("label", has=page.locator("input[type=radio]")).first.tap()
            if page.locator("textarea").count():
                page.locator("textarea").fill(comment)
            send(visitor, lambda: page.locator(".answer-form button.main").tap())
        assert {"Foresee", "Learn", "Almost done"} <= seen
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
        assert [row.answer for row in read_answers(study) if row.phase == "survey"] == [comment]
    assert (visitor.elsewhere, visitor.problems) == ([], [])


def pages_of(study: Study) -> Any:
    return create_study_app(study, ServiceConfig(token=KEY), report.page)


def join(visitor: Visitor, code: str) -> None:
    visitor.page.goto("/")
    visitor.tab_to("#code")
    visitor.page.keyboard.type(code.lower())
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url("**/page")


def send(visitor: Visitor, press: Callable[[], None] | None = None) -> None:
    """Move on, by keyboard where nothing else is given, and wait for the next page."""
    before = visitor.page.locator("input[name=page]").get_attribute("value")
    if press is None:
        visitor.tab_to(".answer-form button.main")
        visitor.page.keyboard.press("Enter")
    else:
        press()
    visitor.page.locator(f'input[name=page][value="{before}"]').wait_for(state="detached")
    visitor.page.locator("h1").wait_for()


def owner_sees(visitor: Visitor) -> None:
    """Progress and results, after signing in."""
    visitor.page.goto("/owner")
    visitor.tab_to("#key")
    visitor.page.keyboard.type(KEY)
    visitor.page.keyboard.press("Enter")
    visitor.page.locator(".raters").wait_for()
    visitor.check()
    visitor.page.goto("/owner/results")
    assert visitor.page.locator("h2").count() > 3


def delete(visitor: Visitor, code: str) -> None:
    visitor.page.goto("/delete")
    visitor.check()
    visitor.tab_to("#code")
    visitor.page.keyboard.type(code)
    visitor.tab_to("input[name=sure]")
    visitor.page.keyboard.press("Space")
    visitor.tab_to("button.main")
    visitor.page.keyboard.press("Enter")
    visitor.page.get_by_role("heading", name="Deleted").wait_for()
