"""The site: `make docs` builds it into build/site; a warning is an error."""

import contextlib
import io
import os
import re
from importlib.metadata import version as installed
from pathlib import Path

from pygments.lexers.data import JsonLexer
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import didact
from didact.cli import COMMANDS, parser

os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"  # notebooks are executed without widgets

project = "didact"
author = "The didact authors"
copyright = author
version = release = installed("didact")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_execution_show_tb = True
nb_merge_streams = True

napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
python_display_short_literal_types = True

html_theme = "furo"
html_title = f"didact {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7db4ee", "color-brand-content": "#7db4ee"},
}

BESIDE = {"](SECURITY.md)": "](security.md)", "](CONTRIBUTING.md)": "](contributing.md)", "](../docs/": "]("}
"""Links of pages that lie above this folder and are included here."""


def setup(app: Sphinx) -> None:
    """Colours for formats that have none of their own, and links of included pages."""
    app.add_lexer("jsonl", JsonLexer)
    app.add_lexer("csv", TextLexer)
    app.add_lexer("txt", TextLexer)
    app.connect("include-read", _relink)
    app.connect("source-read", _add_commands)
    app.connect("source-read", _add_names)
    app.connect("source-read", _add_pages)


def _relink(app: Sphinx, path: object, document: str, content: list[str]) -> None:
    for written, here in BESIDE.items():
        content[0] = content[0].replace(written, here)


def _add_commands(app: Sphinx, name: str, content: list[str]) -> None:
    """What every command says of itself, on the page of the command line."""
    if name != "cli":
        return
    os.environ["COLUMNS"] = "100"
    for command in COMMANDS:
        for words in ([command.NAME], *([command.NAME, action] for action in getattr(command, "ACTIONS", ()))):
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
                parser().parse_args([*words, "--help"])
            content[0] += f"\n##{'#' * (len(words) - 1)} didact {' '.join(words)}\n\n```text\n{shown.getvalue()}```\n"


def _add_names(app: Sphinx, name: str, content: list[str]) -> None:
    """Everything that ``import didact`` offers, functions first, on the page of the Python names."""
    if name != "api":
        return
    kinds = {"## Functions": ("autofunction", str.islower), "## Classes": ("autoclass", str.istitle)}
    for heading, (directive, chosen) in kinds.items():
        names = [each for each in didact.__all__ if chosen(each[0]) and each != "DidactError"]
        listed = "\n".join(f".. {directive}:: didact.{each}" for each in names)
        content[0] = content[0].replace(heading, f"{heading}\n\n```{{eval-rst}}\n{listed}\n```")


def _add_pages(app: Sphinx, name: str, content: list[str]) -> None:
    """Pages that the index does not list stand at the end of its guides."""
    if name == "index":
        pages = (path.stem for path in sorted(Path(app.srcdir).glob("*.md")) if path.stem != name)
        missing = [page for page in pages if not re.search(rf"^{page}$", content[0], re.MULTILINE)]
        content[0] = content[0].replace("\nlooks\n", "\n" + "\n".join([*missing, "looks"]) + "\n")
