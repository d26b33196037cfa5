import re
import time
from html.parser import HTMLParser

import pytest

from didact.errors import FormatError
from didact.render.html import fragment, page, read_page
from didact.types import Span
from tests.render.conftest import NASTY, VALUE, Make

VOID = {"meta", "input", "br"}


class Reader(HTMLParser):
    """Collects the source texts, all elements, and whether every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[tuple[str, bool]] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append((tag, given))
        is_text = given.get("class") == "text"
        if is_text:
            self.texts.append("")
        if tag not in VOID:
            self.open.append((tag, is_text))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if any(is_text for _, is_text in self.open):
            self.texts[-1] += data


@pytest.mark.parametrize("kind", NASTY)
def test_text_is_reproduced_and_nothing_in_it_acts(make: Make, kind: str) -> None:
    text = NASTY[kind]
    given = make(text, pair=text, method=text, label=text, parameters={text: text}, model={"name": text})
    read = Reader(page([given], title=text))
    if kind not in ("control", "noncharacter"):
        assert read.texts == [text, text]
    assert len(read.texts[0]) == len(text)
    scripts = [attrs for tag, attrs in read.elements if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "didact-explanations"}, {}]


@pytest.mark.parametrize("kind", NASTY)
def test_page_can_be_read_back(make: Make, kind: str) -> None:
    given = [make(NASTY[kind], details={"gap": 1 / 3}), make(prediction=VALUE), make(method="</script><!--")]
    assert read_page(page(given, title="Title")) == given


def test_other_pages_are_refused(make: Make) -> None:
    with pytest.raises(FormatError, match="not a page of explanations"):
        read_page("<html><script>1</script></html>")
    with pytest.raises(FormatError, match="not JSON"):
        read_page(page([make()], title="Title").replace('{"format"', '{"format', 1))


def test_page_refers_to_nothing_outside(make: Make) -> None:
    shown = page([make(), make("Another.")], title="Title")
    assert not re.search(r"https?:|//\w|\bsrc\s*=|@import|url\(|<link|<iframe|<img", shown)
    read = Reader(shown)
    assert all(str(attrs["href"]).startswith("#") for _, attrs in read.elements if "href" in attrs)


def test_index_leads_to_every_example(make: Make) -> None:
    read = Reader(page([make("One."), make("Two."), make("One.", method="lime")], title="Title"))
    links = [attrs["href"] for tag, attrs in read.elements if tag == "a"]
    places = ["#" + str(attrs["id"]) for tag, attrs in read.elements if tag == "section"]
    assert links == places == ["#example-1", "#example-2"]
    assert "<nav" not in page([make()], title="Title")


def test_page_is_accessible(make: Make) -> None:
    shown = page([make()], title="Title")
    assert '<html lang="en">' in shown
    assert "prefers-color-scheme: dark" in shown
    read = Reader(shown)
    rows = [attrs for tag, attrs in read.elements if tag == "th"]
    assert all("scope" in attrs for attrs in rows)
    assert all(attrs.get("aria-label") for _, attrs in read.elements if attrs.get("class") in ("text", "legend"))


def test_signs_show_without_colour_and_scores_on_hover(make: Make) -> None:
    shown = fragment([make("good bad", scores=[0.5, -0.25])])
    assert '<span class="u pos p10" title="good: +0.5">good</span>' in shown
    assert '<span class="u neg n5" title="bad: -0.25">bad</span>' in shown
    assert ".u.neg{text-decoration:underline" in shown
    assert "+0.500" in shown
    assert "−0.250" in shown


def test_standard_errors_show_on_hover(make: Make) -> None:
    shown = fragment([make("good bad", scores=[0.5, -0.25], errors=(0.0213, 0.1))])
    assert 'title="good: +0.5 ± 0.021"' in shown
    assert 'title="bad: -0.25 ± 0.1"' in shown


def test_tokens_that_share_a_character_show_all_their_scores(make: Make) -> None:
    shown = fragment([make("👍", spans=[Span(0, 1), Span(0, 1)], scores=[0.5, -0.2], level="token")])
    assert 'title="👍: +0.5\n👍: -0.2"' in shown
    assert "Scores of 2 tokens" in shown


def test_every_unit_has_its_row(make: Make) -> None:
    read = Reader(fragment([make("a b c", scores=[1, 2, 3]), make("a b c", scores=[1, 2, 3], method="lime")]))
    tags = [tag for tag, _ in read.elements]
    assert tags.count("details") == 2
    assert tags.count("tr") == 2 + 2 * (1 + 3)


def test_the_cut_part_is_marked(make: Make) -> None:
    shown = fragment([make("seen unseen", spans=[Span(0, 4)], truncated=0.6)])
    assert re.search(r'<span class="cut" title="[^"]+"> unseen</span>', shown)


def test_fragment_styles_nothing_else(make: Make) -> None:
    sheet = re.search(r"<style>(.*?)</style>", fragment([make()]), re.DOTALL)
    assert sheet is not None
    flat = re.sub(r"@(?:media|supports)[^{]*\{((?:[^{}]*\{[^{}]*\})*)\s*\}", r"\1", sheet.group(1))
    for selectors in re.findall(r"([^{}]+)\{[^{}]*\}", flat):
        listed = re.sub(r":not\(svg[^)]*\)", "", selectors).split(",")
        assert all(".didact" in selector for selector in listed)


def test_styles_of_a_notebook_cannot_change_a_fragment(make: Make) -> None:
    """Every declaration is important and every selector counts more than three ids; the reset comes first."""
    sheet = re.search(r"<style>(.*?)</style>", fragment([make()]), re.DOTALL)
    assert sheet is not None
    flat = re.sub(r"@(?:media|supports)[^{]*\{((?:[^{}]*\{[^{}]*\})*)\s*\}", r"\1", sheet.group(1))
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", flat)
    assert rules[0][1] == "all:revert!important"
    for selectors, declarations in rules:
        assert ".didact" not in selectors.replace(".didact:not(#_#_#_)", "")
        for declaration in declarations.split(";"):
            assert declaration.startswith("--") or declaration.endswith("!important"), declaration
            assert declaration.count("!important") <= 1


def test_fragment_has_no_ids_that_could_clash(make: Make) -> None:
    assert not re.search(r"\bid=", fragment([make(), make("Other.")]))


def test_long_texts_take_linear_time(make: Make) -> None:
    start = time.process_time()
    page([make("word " * 8000)], title="Title")
    assert time.process_time() - start < 5
