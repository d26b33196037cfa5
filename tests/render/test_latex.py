import re

import pytest

from didact.render.latex import escape, latex
from didact.types import Span
from tests.render.conftest import NASTY, Make

NAMES = {
    "textbackslash": "\\",
    "textasciicircum": "^",
    "textasciitilde": "~",
    "textless": "<",
    "textgreater": ">",
    "textbar": "|",
    "textquotesingle": "'",
    "textasciigrave": "`",
}
LITERAL = re.compile(rf"\\({'|'.join(NAMES)})\{{\}}")


def typeset(source: str) -> str:
    """What LaTeX would print of escaped text."""
    source = source.replace("\\allowbreak{}", "").replace("\\newline{}", "\n").replace("\\hspace*{2em}", "\t")
    source = source.replace("\\ ", " ").replace("-{}", "-").replace(",{}", ",")
    source = re.sub(r"\\([{}$&#%_])", lambda found: f"\0{ord(found.group(1))}\0", source)
    source = LITERAL.sub(lambda found: f"\0{ord(NAMES[found.group(1)])}\0", source).replace("\\symbol{34}", '"')
    assert not re.search(r"[\\{}$&#%_^~]", source)
    return re.sub("\0(\\d+)\0", lambda found: chr(int(found.group(1))), source)


@pytest.mark.parametrize("kind", [kind for kind in NASTY if kind not in ("control", "noncharacter")])
def test_escaped_text_prints_as_written(kind: str) -> None:
    assert typeset(escape(NASTY[kind])) == NASTY[kind]


@pytest.mark.parametrize("kind", NASTY)
def test_braces_and_environments_balance(make: Make, kind: str) -> None:
    text = NASTY[kind]
    shown = latex([make(text, pair=text, method=text, label=text, parameters={text: text}), make(), make(method="b")])
    shown = re.sub(r"^%.*$", "", shown, flags=re.MULTILINE)
    depth = 0
    for mark in re.findall(r"\\.|[{}]", shown):
        depth += {"{": 1, "}": -1}.get(mark, 0)
        assert depth >= 0
    assert depth == 0
    assert shown.count("\\begin{tabular}") == shown.count("\\end{tabular}") == 2
    assert shown.count("\\begingroup") == shown.count("\\endgroup") == 2
    assert not re.search(r"(?<!\\)&.*(?<!\\)&", shown)


def test_no_space_or_line_is_lost(make: Make) -> None:
    """LaTeX skips spaces at the start of a line and takes an empty line for a paragraph."""
    shown = latex([make("good, bad  and\n\nthe rest was not seen", spans=[Span(0, 4), Span(6, 9)], truncated=0.5)])
    assert not re.search(r"^ ", shown, re.MULTILINE)
    assert "\n\n" not in shown
    assert re.search(r"\} \\ \\textcolor\[HTML\]\{\w{6}\}\{and\\newline\{\}\\newline\{\}the rest", shown)


def test_needs_only_xcolor_and_says_so(make: Make) -> None:
    shown = latex([make("x--y,,z")])
    assert shown.startswith("% Made by didact. Needs \\usepackage{xcolor} and nothing else.")
    commands = set(re.findall(r"\\([a-zA-Z]+)", shown.partition("\\begingroup")[2]))
    known = """setlength fboxsep noindent textbf par nobreak smallskip begin linewidth hspace hline raggedright rule
        newline footnotesize colorbox textcolor strut underline allowbreak tabularnewline end bigskip endgroup _"""
    assert commands <= set(known.split())


def test_against_is_underlined(make: Make) -> None:
    shown = latex([make("good bad", scores=[0.5, -0.5])])
    assert "{\\strut good}" in shown
    assert "{\\strut \\underline{bad}}" in shown
    assert "good $+0.500$; bad $-0.500$" in shown


def test_long_units_wrap_word_by_word(make: Make) -> None:
    shown = latex([make("two words", spans=[Span(0, 9)], scores=[1.0])])
    assert "{\\strut two}" in shown
    assert "{\\strut words}" in shown
