r"""Explanations as a LaTeX snippet that needs only the package xcolor.

Each word of a coloured unit is its own ``\colorbox``, so long texts wrap like ordinary ones.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from didact.render import answers, facts
from didact.render.colour import FAINT, LIGHT, tint
from didact.render.overlay import picture, reduced
from didact.render.pieces import Piece, pieces, printable
from didact.types import Explanation

CELLS = 32
"""Coloured squares along the longer side of an image."""
LISTED = 5
"""How many of the strongest units are named with their scores under each text."""


def latex(explanations: Sequence[Explanation]) -> str:
    r"""One block per example, in it one row per method; to be put into a document with ``\input`` or by hand.

    Raises:
        InputError: there is no explanation.
    """
    return _PREAMBLE + "\n".join(_block(group) for group in facts.grouped(explanations))


def escape(text: str) -> str:
    """The text as LaTeX prints it literally: specials, ligatures, runs of spaces and line breaks included."""
    written = printable(text).translate(_SPECIAL_CODES)
    written = re.sub(r"([-,])(?=\1)", r"\1{}", written)
    return re.sub("  +", lambda run: " " + r"\ " * (len(run.group()) - 1), written)


_PREAMBLE = r"""% Made by didact. Needs \usepackage{xcolor} and nothing else.
% Texts outside the Latin scripts and emoji need LuaLaTeX or XeLaTeX and a font that has them.
"""

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_\allowbreak{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "\u00a0": "~",
    "\t": r"\hspace*{2em}",
    "\n": r"\newline{}",
    "\r": "",
}
_SPECIAL_CODES = str.maketrans(_SPECIAL)


def _block(group: facts.Group) -> str:
    rows = "\\tabularnewline[2.5ex]\n".join(_row(group, explanation) for explanation in group.explanations)
    return (
        "\\begingroup\\setlength{\\fboxsep}{1.2pt}%\n"
        f"\\noindent {_caption(group)}\\par\\nobreak\\smallskip\n"
        "\\noindent\\begin{tabular}{@{}p{0.24\\linewidth}@{\\hspace{0.02\\linewidth}}p{0.74\\linewidth}@{}}\n"
        f"\\hline\n{rows}\\tabularnewline\n\\hline\n\\end{{tabular}}\\par\\smallskip\n"
        f"\\noindent{{\\footnotesize {_legend(group)}}}\\par\\bigskip\n\\endgroup\n"
    )


def _caption(group: facts.Group) -> str:
    entries = [f"\\textbf{{{escape(answers.predicted(group.first))}}} {_escaped(facts.certainty(group.first))}"]
    others = facts.other_classes(group.first.prediction)
    if others:
        entries.append(f"other classes: {_escaped(others)}")
    if group.target is not None:
        entries.append(f"target: {_escaped(facts.target(group.first))}")
    if group.example.label is not None:
        entries.append(f"gold label: {escape(answers.gold(group.example))}")
    if group.first.model:
        entries.append(f"model: {_escaped(' '.join(facts.origin(group.first)))}")
    entries += [_warning(warning) for warning in group.warnings]
    return "; ".join(entries) + "."


def _warning(warning: str) -> str:
    return f"\\textbf{{warning:}} {escape(warning)}"


def _row(group: facts.Group, explanation: Explanation) -> str:
    entries = [_escaped(" ".join(facts.settings(explanation))), _escaped(facts.cost(explanation))]
    entries.append(_escaped(" ".join(facts.details(explanation))))
    if group.target is None:
        entries.insert(0, f"target: {_escaped(facts.target(explanation))}")
    entries += [_warning(warning) for warning in group.own_warnings(explanation)]
    head = f"\\textbf{{{escape(explanation.method)}}}\\newline{{}}\n"
    small = "\\newline{}\n".join(line for line in entries if line)
    return (
        f"\\raggedright\\rule{{0pt}}{{2.6ex}}{head}\\footnotesize {small} &\n"
        f"\\raggedright\\rule{{0pt}}{{2.6ex}}{_source(explanation)}\\newline{{}}\n{_strongest(explanation)}"
    )


def _source(explanation: Explanation) -> str:
    fields = explanation.example.fields
    shown = []
    for field in range(len(fields)):
        if not isinstance(fields[field], str):
            shown.append(_cells(explanation, field))
            continue
        label = f"{{\\footnotesize {facts.field_name(explanation, field)}}} " if len(fields) > 1 else ""
        written = "".join(_piece(piece, explanation.signed) for piece in pieces(explanation, field))
        # A line end is a space to LaTeX, so the source stays readable; a space needs no further leave to break.
        shown.append(label + written.removeprefix("\\allowbreak{}").replace(" \\allowbreak{}", "\n"))
    return "\\newline{}\n".join(shown)


def _cells(explanation: Explanation, field: int) -> str:
    """The scores of an image as a picture of coloured squares; the image itself needs a file, such as the .png."""
    width, height = picture(explanation, field).size
    scale = min(1.0, CELLS / max(width, height))
    columns, rows = max(1, round(scale * width)), max(1, round(scale * height))
    _, strength = reduced(explanation, field, columns, rows)
    squares = (
        f"\\put({column},{rows - 1 - row}){{\\textcolor[HTML]{{{_code(_square(value, explanation.signed))}}}"
        "{\\rule{\\unitlength}{\\unitlength}}}%"
        for row, values in enumerate(strength.tolist())
        for column, value in enumerate(values)
        if abs(value) >= FAINT
    )
    inner = "\n".join(squares)
    return (
        f"\\setlength{{\\unitlength}}{{{0.5 / max(columns, rows):.4f}\\linewidth}}%\n"
        f"\\begin{{picture}}({columns},{rows})\n{inner}\n"
        f"\\put(0,0){{\\framebox({columns},{rows}){{}}}}\n\\end{{picture}}"
    )


def _square(strength: float, signed: bool) -> str:
    return tint(strength, signed=signed, palette=LIGHT).background


def _piece(piece: Piece, signed: bool) -> str:
    if piece.marked:
        return f"\\textbf{{{_piece(dataclasses.replace(piece, marked=False), signed)}}}"
    if piece.cut:
        # Colour commands swallow the space after them.
        seen = piece.text.lstrip()
        space = piece.text[: len(piece.text) - len(seen)]
        return f"{escape(space)}\\textcolor[HTML]{{{_code(LIGHT.muted)}}}{{{escape(seen)}}}"
    if not piece.units or abs(piece.strength) < FAINT:
        return ("\\allowbreak{}" if piece.units and piece.text[:1].isalnum() else "") + escape(piece.text)
    return "".join(
        escape(part) if part.isspace() else _box(part, piece.strength, signed)
        for part in re.split(r"(\s+)", piece.text)
        if part
    )


def _box(word: str, strength: float, signed: bool) -> str:
    """A coloured word, underlined if it opposes; a line may break before a letter, never before a full stop."""
    colours = tint(strength, signed=signed, palette=LIGHT)
    inner = f"\\underline{{{escape(word)}}}" if signed and strength < 0 else escape(word)
    text = f"\\textcolor[HTML]{{{_code(colours.foreground)}}}{{\\strut {inner}}}"
    before = "\\allowbreak{}" if word[:1].isalnum() else ""
    return f"{before}\\colorbox[HTML]{{{_code(colours.background)}}}{{{text}}}"


def _strongest(explanation: Explanation) -> str:
    named = (f"{escape(unit)} {_number(number)}" for unit, number in facts.strongest(explanation, LISTED))
    return f"{{\\footnotesize strongest: {'; '.join(named)}}}"


def _legend(group: facts.Group) -> str:
    items = []
    for signed, words in facts.meanings(group):
        for strength, meaning in zip((1.0, -1.0), words, strict=False):
            underlined = " (underlined)" if strength < 0 else ""
            items.append(f"{_box('x', strength, signed)} {escape(meaning)}{underlined}")
    return "; ".join([*items, _escaped(facts.scaling(group))]) + "."


def _escaped(fact: str) -> str:
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escape(fact)).replace("±", r"$\pm$")


def _number(number: str) -> str:
    return "$" + number.replace("±", r"\pm") + "$"


def _code(colour: str) -> str:
    return colour[1:].upper()
