"""Every output of every explanation: it can be written, it cannot act, and it shows what it was given."""

import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from didact.render import jsonio
from didact.render.formats import FORMATS, render
from didact.render.markup import html_text, markdown_text
from didact.render.pieces import name, pieces, printable
from didact.types import Explanation
from tests.render.conftest import make_explanation

PROPERTY = settings(max_examples=40, deadline=None, derandomize=True)
ACTING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
HOSTILE = st.sampled_from(
    (
        "[/]",
        "[link=x]y[/link]",
        "<script>",
        "</pre>",
        "\x1b[31m",
        "\x9b1m",
        "\ufffe",
        "=1+1",
        "|",
        "`",
        "$x$",
        "\\",
    )
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ANY = st.lists(TEXT | HOSTILE, min_size=1, max_size=5).map(" ".join)
FINITE = st.floats(-1e300, 1e300)


@st.composite
def explanations(draw: st.DrawFn) -> Explanation:
    text = draw(ANY.filter(lambda text: bool(re.search(r"\w", text))))
    made = make_explanation(
        text, method=draw(ANY), label=draw(st.none() | ANY), model={"name": draw(ANY), "fingerprint": "f"}
    )
    scores = draw(st.lists(FINITE, min_size=len(made.scores), max_size=len(made.scores)))
    return make_explanation(text, scores=scores, method=made.method, model=dict(made.model), signed=draw(st.booleans()))


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)


def tags(page: str) -> list[str]:
    parser = Tags()
    parser.feed(page)
    return parser.seen


@PROPERTY
@given(st.lists(explanations(), min_size=1, max_size=2), st.sampled_from(list(FORMATS)))
def test_every_output_can_be_written_and_cannot_act(several: list[Explanation], form: str) -> None:
    drawn = render(several, form)
    assert drawn.encode("utf-8")
    assert ACTING.search(drawn) is None


@PROPERTY
@given(explanations())
def test_no_text_becomes_a_script(explanation: Explanation) -> None:
    plain = make_explanation("word", method="m", model={"name": "n", "fingerprint": "f"})
    assert tags(render([explanation], "html")).count("script") == tags(render([plain], "html")).count("script")


@PROPERTY
@given(explanations())
def test_every_picture_is_xml(explanation: Explanation) -> None:
    assert ElementTree.fromstring(render([explanation], "svg")).tag.endswith("svg")


@PROPERTY
@given(st.lists(explanations(), min_size=1, max_size=3))
def test_json_gives_back_equal_explanations(several: list[Explanation]) -> None:
    assert jsonio.load(jsonio.dump(several)) == several


@PROPERTY
@given(explanations())
def test_the_pieces_joined_are_the_text(explanation: Explanation) -> None:
    cut = pieces(explanation)
    assert "".join(piece.text for piece in cut) == explanation.example.text
    assert all(math.isfinite(piece.strength) and abs(piece.strength) <= 1 for piece in cut)


@PROPERTY
@given(st.text(st.characters(), max_size=40))
def test_printable_text_keeps_its_length_and_its_letters(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(before == after or not before.isprintable() for before, after in zip(text, shown, strict=True))
    assert printable(shown) == shown


@PROPERTY
@given(st.text(st.characters(), max_size=80))
def test_names_and_markup_are_short_lines_without_markup(text: str) -> None:
    assert len(name(text)) <= 32
    assert "\n" not in markdown_text(text)
    assert "<" not in html_text(text)
    assert '"' not in html_text(text)
