"""Every output by its file ending, for callers that have a name and not a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from didact.errors import InputError
from didact.types import Explanation


def render(explanations: Sequence[Explanation], form: str) -> str:
    """Explanations as the text of a file.

    Args:
        explanations: at least one.
        form: one of ``FORMATS``, which are also the usual endings of such files.

    Raises:
        InputError: there is no such format, or no explanation.
    """
    if form.lower() not in FORMATS:
        raise InputError(f"explanations cannot be written as {form!r}; allowed are {', '.join((*FORMATS, PICTURE))}")
    return FORMATS[form.lower()](explanations)


def encoded(explanations: Sequence[Explanation], form: str) -> bytes:
    """Explanations as the bytes of a file.

    Args:
        explanations: at least one; exactly one, of an image, for "png".
        form: one of ``FORMATS`` or "png".
    """
    if form.lower() != PICTURE:
        return render(explanations, form).encode("utf-8", "backslashreplace")
    from didact.render.overlay import overlay_png

    return overlay_png(explanations)


PICTURE = "png"
"""The format that is a picture and no text."""

# Each imports its module when used, so that listing the names costs nothing.


def _json(explanations: Sequence[Explanation]) -> str:
    from didact.render.jsonio import dump

    return dump(explanations, indent=2) + "\n"


def _html(explanations: Sequence[Explanation]) -> str:
    from didact.render.html import page

    return page(explanations)


def _tex(explanations: Sequence[Explanation]) -> str:
    from didact.render.latex import latex

    return latex(explanations)


def _svg(explanations: Sequence[Explanation]) -> str:
    from didact.render.terminal import terminal_svg

    return terminal_svg(explanations)


def _txt(explanations: Sequence[Explanation]) -> str:
    from didact.render.terminal import terminal_text

    return terminal_text(explanations, colour=False)


FORMATS: dict[str, Callable[[Sequence[Explanation]], str]] = {
    "json": _json,
    "html": _html,
    "tex": _tex,
    "svg": _svg,
    "txt": _txt,
}
"""Name of each format and its writer."""
