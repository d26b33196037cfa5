"""The playground in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from didact.render import jsonio
from didact.render.png import png
from didact.service.app import create_app
from didact.service.config import ServedModel, ServiceConfig
from didact.testing.tiny import tiny_image_model, tiny_model
from tests.service.browser import PHONE, Window, behind_socket, chromium, wait_until_ready

TEXT = "A warm and wonderful film with one dull scene."
HOSTILE = "<img src=x onerror=alert(1)> <script>alert(2)</script> wonderful"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = (
        ServedModel("reviews"),
        ServedModel("eyes", tiny_image_model()),
        ServedModel("answers", tiny_model(auto_class="AutoModelForQuestionAnswering")),
    )
    with behind_socket(create_app(ServiceConfig(models, port=0, runs=tmp_path_factory.mktemp("runs")))) as place:
        wait_until_ready(place)
        yield place


@pytest.fixture
def open_window(browser: Any) -> Iterator[Any]:
    opened: list[Window] = []

    def make(**options: Any) -> Window:
        opened.append(Window(browser, **options))
        return opened[-1]

    yield make
    for window in opened:
        window.sound()
        window.context.close()


def start(window: Window, address: str) -> Any:
    """The form."""
    window.page.goto(f"{address}/?method=occlusion")
    return window.page


def test_a_text_is_explained_edited_and_flipped_by_keyboard_alone(open_window: Any, address: str) -> None:
    window = open_window()
    page = start(window, address)
    page.focus("#text")
    page.keyboard.press("Control+A")
    page.keyboard.type(TEXT)
    page.locator("details.chosen summary").focus()
    page.keyboard.press("Enter")
    page.locator("[value=attention]").focus()
    page.keyboard.press("Space")
    page.locator("#ask button").focus()
    page.keyboard.press("Enter")
    page.locator("#explanations th[scope=row] >> nth=1").wait_for()
    assert "text=" in page.url
    words = page.locator("#explanations .text >> nth=1").locator("[tabindex]")
    words.first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused.startswith("wonderful: +")
    assert re.search(r"rank [12] of 10$", focused)
    assert focused in page.inner_text("#about")
    window.accessible()
    page.hover("#explanations .text >> nth=0")
    assert focused in page.inner_text("#about")
    page.keyboard.press("Delete")
    page.locator("#edit").wait_for()
    assert page.input_value("#text") == TEXT.replace(" wonderful", "")
    assert "Predicted before" in page.inner_text(".edit")
    page.locator("#explanations .text >> nth=0").locator("[tabindex]").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.type("dull")
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('text').value.startsWith('A dull and')")
    page.locator("[name=flip]").focus()
    page.keyboard.press("Space")
    page.locator("#ask button").focus()
    page.keyboard.press("Enter")
    page.locator("#flip").wait_for()
    assert "variants were evaluated" in page.inner_text(".flip")
    window.accessible()


def test_a_link_makes_the_view_again_without_a_script(open_window: Any, address: str) -> None:
    window = open_window()
    page = start(window, address)
    page.select_option("#target", "all")
    page.click("#ask button")
    page.locator("#explanations .tabs").wait_for()
    link = page.get_attribute("#link", "href")
    plain = open_window(java_script_enabled=False).page
    plain.goto(address + link)
    assert plain.locator(".tabs label").count() == 2
    assert plain.locator("#png").is_hidden()
    plain.fill("#text", "A dull plot.")
    plain.click("#ask button")
    assert "negative" in plain.inner_text(".prediction >> nth=0")


def test_on_a_phone_in_the_dark_images_are_explained(open_window: Any, address: str, tmp_path: Path) -> None:
    window = open_window(viewport=PHONE, color_scheme="dark", has_touch=True, is_mobile=True)
    page = start(window, address)
    window.fits()
    page.select_option("#model", "eyes")
    page.locator("#image").wait_for()
    pixels = np.random.default_rng(0).integers(0, 256, (48, 64, 3)).astype(np.uint8)
    (tmp_path / "noise.png").write_bytes(png(pixels))
    page.set_input_files("#image", tmp_path / "noise.png")
    page.click("#ask button")
    page.locator("#explanations svg[role=img]").first.wait_for()
    drawn = page.evaluate("getComputedStyle(document.querySelector('.photo')).backgroundImage")
    assert drawn.startswith('url("data:image/png')
    with page.expect_download() as kept:
        page.locator("button[value=png-0]").click()
    assert Path(kept.value.path()).read_bytes().startswith(b"\x89PNG")
    assert window.background() == "rgb(20, 23, 27)"
    window.fits()
    window.accessible()


def test_files_reports_and_questions(open_window: Any, address: str) -> None:
    window = open_window()
    page = start(window, address)
    page.fill("#text", TEXT)
    page.click("#ask button")
    page.locator("#png").wait_for()
    for press, beginning in (("button[value=json]", b"{"), ("button[value=html]", b"<!doctype"), ("#png", b"\x89PNG")):
        with page.expect_download() as kept:
            page.click(press)
        assert Path(kept.value.path()).read_bytes().startswith(beginning)
    with page.expect_download() as kept:
        page.click("text=Decision record")
    assert "Decision record" in Path(kept.value.path()).read_text("utf-8")
    page.click("text=Save under Runs")
    page.wait_for_url("**/runs/playground-*")
    assert page.locator(".text").inner_text() == TEXT
    window.faults = [each for each in window.faults if "script" not in each.lower()]  # of the report, which is not run
    page.goto(f"{address}/runs")
    window.accessible()
    page.click(".runs a")
    page.goto(f"{address}/?model=answers&method=occlusion")
    page.fill("#text", "What has one dull scene?")
    page.fill("#second", TEXT)
    page.click("#ask button")
    page.locator("#explanations .text >> nth=1").wait_for()
    window.faults = [each for each in window.faults if "script" not in each.lower()]


def test_markup_in_a_text_is_shown_and_not_run(open_window: Any, address: str) -> None:
    window = open_window()
    page = start(window, address)
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    page.fill("#text", HOSTILE)
    page.click("#ask button")
    page.locator("#explanations .text").wait_for()
    assert page.inner_text("#explanations .text") == HOSTILE
    page.locator("#explanations .text [tabindex]").last.click()
    page.keyboard.type(HOSTILE)
    page.keyboard.press("Enter")
    page.locator("#edit").wait_for()
    assert asked == []
    (document,) = jsonio.load(page.input_value("[name=document]"))
    assert "<script>" in document.example.texts[0]
