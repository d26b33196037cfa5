"""Results in notebooks: drawn as HTML when they are the last value of a cell.

IPython is used where it already runs and is never imported otherwise.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from didact.types import Explanation

Drawing = Callable[[Any], str]
"""From a value to the HTML that shows it."""


class _Formatter(Protocol):
    def for_type(self, kind: type, show: object) -> None: ...


class _DisplayFormatter(Protocol):
    formatters: dict[str, _Formatter]
    active_types: list[str]


class _Publisher(Protocol):
    def publish(self, data: dict[str, str]) -> None: ...


class _Shell(Protocol):
    """The parts of IPython's shell that are used here."""

    display_formatter: _DisplayFormatter
    display_pub: _Publisher


def install(drawings: Mapping[type, Drawing]) -> bool:
    """Draw values of these types as HTML from now on; may be called any number of times.

    Returns:
        Whether this runs under IPython, so that there was something to do.
    """
    shell = _shell()
    if shell is None:
        return False
    for kind, draw in drawings.items():
        shell.display_formatter.formatters["text/html"].for_type(kind, draw)
    return True


def display(explanations: Sequence[Explanation]) -> bool:
    """Show several explanations together, with plain text for readers of the notebook that cannot show HTML.

    Returns:
        Whether they were shown; False outside notebooks, also in IPython's terminal, which shows no HTML.
    """
    shell = _shell()
    if shell is None or "text/html" not in shell.display_formatter.active_types:
        return False
    from didact.render.html import fragment
    from didact.render.terminal import terminal_text

    shown = {"text/html": fragment(explanations), "text/plain": terminal_text(explanations, colour=False)}
    shell.display_pub.publish(shown)
    return True


def draw_several(explanations: Sequence[Explanation]) -> str:
    """Several explanations as HTML; those of one text stand side by side."""
    from didact.render.html import fragment

    return fragment(explanations) if explanations else "<p>no explanations</p>"


def draw_single(explanation: Explanation) -> str:
    """One explanation as HTML."""
    return draw_several([explanation])


def framed(page: str) -> str:
    """A whole page inside a notebook's cell, in a frame of its own, so that neither styles the other."""
    return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:40em;border:0"></iframe>'


def _shell() -> _Shell | None:
    """The running IPython shell, if there is one."""
    loaded = sys.modules.get("IPython")
    return None if loaded is None else cast("_Shell | None", loaded.get_ipython())
