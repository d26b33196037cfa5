"""Commands that docs and help texts show: each parses with its options, and what it names exists. None is run."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from didact.cli import COMMANDS, EPILOG, parser
from didact.cli.options import CommandParser
from didact.trained.presets.base import PRESETS

REPO = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(REPO).as_posix()
    for pattern in ("*.md", "docs/*.md", "docs/*/*.md", "docs/results/kinds/*.md", "docs/**/*.ipynb", "recipes/*.md")
    for path in REPO.glob(pattern)
)
"""Pages that are written for readers; reports of stored runs keep the command of their time."""

LINE = re.compile(r"^ *(?:[A-Z_]+=\S+ |[^`\n|]* \| )?(didact [a-z](?:'[^'#]*'|[^\n])*)", re.MULTILINE)
INLINE = re.compile(r"`(didact [a-z][^`]*)`")
PLACEHOLDERS = {"N": "1", "S": "1", "K": "1", "PAPER": "l2e", "PRESET": "l2e", "<preset>": "l2e"}
"""Words that stand for something the reader puts in, where a parser would refuse them."""


class RefusedError(Exception):
    """What the parser would have printed."""


def page_text(page: str) -> str:
    text = (REPO / page).read_text(encoding="utf-8")
    if not page.endswith(".ipynb"):
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def shown_commands(text: str) -> Iterator[tuple[str, bool]]:
    """Commands, and whether they are whole: those of blocks are, those inside sentences may leave arguments out."""
    for language, block in re.findall(r"^```([^`\n]*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if language in ("", "sh"):
            yield from ((command, True) for command in LINE.findall(block.replace("\\\n", " ")))
    for command in INLINE.findall(text):
        yield " ".join(command.split()), False


def words_of(command: str) -> list[str]:
    """The arguments, without comments, variables of the shell, and brackets around what may be left out."""
    words = shlex.split(re.split(r"\s{2,}\(", command)[0].replace("[", "").replace("]", ""), comments=True)
    return [PLACEHOLDERS.get(word, word) for word in words[1:] if not re.fullmatch(r"\$\w+|--help", word)]


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    def error(self: CommandParser, message: str) -> NoReturn:
        raise RefusedError(message)

    monkeypatch.setattr(CommandParser, "error", error)


def check(command: str, *, whole: bool) -> None:
    """Refuse a command that does not parse, or that names a recipe that does not exist."""
    words = words_of(command)
    try:
        parser().parse_args(words)
    except RefusedError as problem:
        if whole or not re.search("required|expected", str(problem)):
            raise AssertionError(f"{command}: {problem}") from None
    for recipe in (word for word in words if word.startswith("recipes/")):
        assert (REPO / recipe).exists() or re.search(r"NAME|\$", recipe), f"{command}: there is no {recipe}"


@pytest.mark.usefixtures("refusing")
@pytest.mark.parametrize("page", PAGES)
def test_commands_on_a_page_parse(page: str) -> None:
    for command, whole in shown_commands(page_text(page)):
        check(command, whole=whole)


def test_the_commands_of_pages_are_seen() -> None:
    whole = [command for page in PAGES for command, whole in shown_commands(page_text(page)) if whole]
    assert len(whole) > 60


@pytest.mark.usefixtures("refusing")
def test_examples_of_the_help_parse() -> None:
    shown = [EPILOG, *(module.EXAMPLES for module in COMMANDS)]
    shown += ["\n".join(card.examples) for card in PRESETS.cards()]
    commands = [command for text in shown for command in LINE.findall(text.replace("\\\n", " "))]
    assert len(commands) > 60
    for command in commands:
        check(command, whole=command != "didact train l2e --help")


@pytest.mark.parametrize("page", PAGES)
def test_scripts_and_targets_on_a_page_exist(page: str) -> None:
    text = page_text(page)
    for script in re.findall(r"\bscripts/\w+\.py", text):
        assert (REPO / script).exists(), f"{page} names {script}"
    for module in re.findall(r"python -m ((?:benchmarks|fuzz)[.\w]*)", text):
        path = REPO / module.rstrip(".").replace(".", "/")
        assert path.with_suffix(".py").exists() or path.is_dir(), f"{page} names {module}"
    targets = re.findall(r"^([a-z-]+):", (REPO / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for target in re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE):
        assert target in targets, f"{page} names make {target}"
