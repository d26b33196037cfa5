"""The style sheet of the HTML outputs: everything under one class, dark and light."""

from __future__ import annotations

import re

from didact.render.colour import DARK, LIGHT, Palette, mix, tint

LEVELS = 10
"""Steps of colour on each side; the number behind a unit is always at hand, so steps are enough."""


def stylesheet() -> str:
    """CSS for ``.didact``: the reader's system decides between dark and light, a notebook's own theme overrides it."""
    light, dark = _variables(LIGHT, "light"), _variables(DARK, "dark")
    return "\n".join(
        [
            f".didact{{{light}}}",
            f"@media (prefers-color-scheme: dark){{.didact{{{dark}}}}}",
            f"{_LIGHT_NOTEBOOKS}{{{light}}}",
            f"{_DARK_NOTEBOOKS}{{{dark}}}",
            f"@media print{{.didact.didact{{{light}}}}}",
            _RULES.strip(),
            *(f".didact .{side}{level}{{--tint:var(--{side}{level})}}" for side in "pnu" for level in _levels()),
        ]
    )


def isolated(sheet: str) -> str:
    """A style sheet for ``.didact`` that the styles of the document around it cannot change.

    Notebooks style every table, row and heading of an output, some of it ``!important``. Here each element first goes
    back to the browser's own style and then gets ours, by selectors that count more than any of theirs. Drawings and
    elements with a style of their own keep their attributes.
    """
    ours = re.sub(r"(?<=[;{\s])((?!--)[a-z-]+:[^;{}]+)(?=[;}])", r"\1!important", sheet)
    return (_RESET + ours).replace("!important!important", "!important").replace(".didact", f".didact{_WEIGHT}")


def level(strength: float, signed: bool) -> str:
    """Class of a unit of this strength: p, n or u with a step; empty if too faint for colour."""
    step = round(LEVELS * min(1.0, abs(strength)))
    side = "u" if not signed else "p" if strength > 0 else "n"
    return f"{side}{step}" if step else ""


def tints(palette: Palette) -> dict[str, str]:
    """Background of every class that ``level`` gives, for one palette."""
    sides = {"p": (1.0, True), "n": (-1.0, True), "u": (1.0, False)}
    return {
        f"{side}{step}": tint(sign * step / LEVELS, signed=signed, palette=palette).background
        for side, (sign, signed) in sides.items()
        for step in _levels()
    }


def _levels() -> range:
    return range(1, LEVELS + 1)


def _variables(palette: Palette, scheme: str) -> str:
    named = {
        "page": palette.page,
        "text": palette.text,
        "muted": palette.muted,
        "line": mix(palette.page, palette.text, 0.14),
        "panel": mix(palette.page, palette.text, 0.035),
        "p-line": mix(palette.positive, palette.text, 0.35),
        "n-line": mix(palette.negative, palette.text, 0.35),
    } | tints(palette)
    return f"color-scheme:{scheme};" + ";".join(f"--{key}:{value}" for key, value in named.items())


_WEIGHT = ":not(#_#_#_)"
"""Excludes nothing, and makes a selector count as much as three ids."""

_RESET = ".didact,.didact :where(:not(svg,svg *,style,[style])){all:revert!important}\n"

_LIGHT_NOTEBOOKS = ",\n".join(
    f"{theme} .didact"
    for theme in ('[data-jp-theme-light="true"]', ".vscode-light", '[theme="light"]', '[data-theme="light"]')
)
_DARK_NOTEBOOKS = ",\n".join(
    f"{theme} .didact"
    for theme in ('[data-jp-theme-light="false"]', ".vscode-dark", '[theme="dark"]', '[data-theme="dark"]')
)

_RULES = """
.didact{background:var(--page);color:var(--text);font:400 15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
 text-align:left;font-variant-numeric:tabular-nums}
div.didact{padding:0 1.1rem;border-radius:.4rem}
.didact *{box-sizing:border-box}
.didact h1{font-size:1.75rem;font-weight:650;letter-spacing:-.015em;line-height:1.2;margin:0 0 .35rem}
.didact .lead{color:var(--muted);margin:0}
.didact .answers{margin:1.5rem 0 0;padding:.9rem 1.25rem .9rem 2.25rem;background:var(--panel);
 border-left:3px solid var(--p-line)}
.didact .answers li{margin:.2rem 0}
.didact main{display:block;max-width:70rem;margin:0 auto;padding:3.5rem 2rem 5rem}
.didact nav{margin:2.25rem 0 0}
.didact nav ol{list-style:none;margin:0;padding:0;border-top:1px solid var(--line);counter-reset:example}
.didact nav li{border-bottom:1px solid var(--line);counter-increment:example}
.didact nav a{display:flex;gap:1.25rem;padding:.5rem 0;color:inherit;text-decoration:none;align-items:baseline}
.didact nav a::before{content:counter(example);color:var(--muted);min-width:1.5rem}
.didact nav a:hover .snippet,.didact nav a:focus .snippet{text-decoration:underline;text-underline-offset:.2em}
.didact nav .snippet{flex:1;min-width:0;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.didact nav .predicted{color:var(--muted);white-space:nowrap}
.didact .tool{display:flex;gap:.75rem;align-items:center;color:var(--muted);font-size:.85rem;margin:1.75rem 0 0}
.didact .tool[hidden]{display:none}
.didact .tool input{width:10rem;accent-color:var(--p-line)}
.didact .example{padding:1.25rem 0;scroll-margin-top:1rem}
.didact .example+.example{border-top:1px solid var(--line)}
.didact main .example{padding:2.75rem 0 2.25rem}
.didact .prediction{display:flex;flex-wrap:wrap;gap:0 .9rem;align-items:baseline;margin:0 0 .9rem;font-size:1.3rem;
 line-height:1.3;font-weight:400;letter-spacing:-.005em}
.didact .prediction b{font-weight:650}
.didact .prediction .certainty{color:var(--text)}
.didact .prediction .count{margin-left:auto;font-size:.85rem;color:var(--muted);letter-spacing:0}
.didact .facts{display:flex;flex-wrap:wrap;gap:.5rem 2.25rem;margin:0;font-size:.85rem}
.didact .facts div{min-width:0}
.didact .facts dt{color:var(--muted);font-weight:400;margin:0}
.didact .facts dd{margin:0;overflow-wrap:anywhere}
.didact .warning{margin:1.1rem 0 0;padding:.5rem .85rem;border-left:3px solid var(--n-line);background:var(--panel);
 font-size:.9rem}
.didact .warning b{font-weight:650}
.didact table{color:inherit;border-collapse:collapse;border:0;margin:0;width:100%;table-layout:fixed;font-size:inherit}
.didact tr{background:none!important;border:0}
.didact th,.didact td{vertical-align:top;text-align:left;font-weight:400;padding:0;border:0;max-width:none;
 white-space:normal}
.didact .tabs{display:flex;flex-wrap:wrap;gap:0 .4rem;margin:1.5rem 0 0}
.didact .tabs>label{order:1;position:relative;padding:.35rem .85rem;border:1px solid var(--line);border-bottom:0;
 border-radius:.4rem .4rem 0 0;color:var(--muted);cursor:pointer}
.didact .tabs>label .quiet{margin:0 0 0 .35rem}
.didact .tabs>label:has(:checked){background:var(--panel);color:var(--text);font-weight:650}
.didact .tabs>label:focus-within{outline:2px solid var(--text)}
.didact .tabs input{position:absolute;width:1px;height:1px;margin:0;opacity:0}
.didact .tabs>.panel{order:2;flex:0 0 100%;min-width:0;border-top:1px solid var(--line);display:none}
.didact .tabs>label:has(:checked)+.panel{display:block}
.didact .panel>h3{display:none;margin:1rem 0 0;font-size:1.05rem;font-weight:650}
@supports not selector(:has(*)){.didact .tabs>label{display:none}.didact .tabs>.panel,.didact .panel>h3{display:block}}
@media print{
 .didact .tabs{display:block}
 .didact .tabs>label{display:none}
 .didact .tabs>.panel,.didact .panel>h3{display:block}
}
.didact .methods{margin:1.1rem 0 0}
.didact .methods>tbody>tr>th{width:15.5rem;padding:1.1rem 2.25rem 1.1rem 0;font-size:.85rem}
.didact .methods>tbody>tr>td{padding:1.1rem 0}
.didact .methods>tbody>tr{border-top:1px solid var(--line)}
.didact .method{display:block;font-weight:650;font-size:.95rem;overflow-wrap:anywhere;margin:0 0 .25rem}
.didact .settings{display:flex;flex-wrap:wrap;gap:0 .75rem;list-style:none;margin:0;padding:0}
.didact .settings li{overflow-wrap:anywhere;margin:0}
.didact .settings .key,.didact .quiet{color:var(--muted)}
.didact .quiet{margin:.35rem 0 0;overflow-wrap:anywhere}
.didact .field{color:var(--muted);font-size:.85rem;margin:0 0 .1rem}
.didact .text+.field{margin-top:1rem}
.didact .text{font-size:1.12rem;line-height:1.95;white-space:pre-wrap;overflow-wrap:anywhere;max-width:46rem}
.didact .u{background:var(--tint);color:var(--text);padding:.14em .06em .1em;border-radius:.2em;
 -webkit-box-decoration-break:clone;box-decoration-break:clone}
.didact .u.neg{text-decoration:underline dashed var(--n-line) .1em;text-underline-offset:.24em}
.didact .u.off{background:none;text-decoration:none}
.didact .u:hover{outline:2px solid var(--text);outline-offset:0}
.didact .cut{color:var(--muted);font-style:italic}
.didact .answer{border-bottom:2px solid currentColor}
.didact .legend{display:flex;flex-wrap:wrap;gap:.35rem 1.5rem;margin:1.1rem 0 0;font-size:.85rem;color:var(--muted)}
.didact .legend .u{padding:.1em .55em}
.didact details{margin:.85rem 0 0;font-size:.85rem}
.didact summary{cursor:pointer;color:var(--muted);width:max-content;max-width:100%}
.didact summary:hover{color:var(--text)}
.didact .scores{margin:.6rem 0 0;max-width:36rem;table-layout:auto}
.didact .scores th,.didact .scores td{padding:.16rem 1.25rem .16rem 0;white-space:nowrap}
.didact .scores thead th{color:var(--muted);border-bottom:1px solid var(--line)}
.didact .scores .number{text-align:right}
.didact .scores .wide{width:50%;padding-right:0}
.didact .wide-table{overflow-x:auto;margin:0}
.didact .list{table-layout:auto;font-size:.85rem}
.didact .list th{color:var(--muted)}
.didact .list b{font-weight:650;white-space:nowrap}
.didact .list th,.didact .list td{padding:.3rem 1.25rem .3rem 0;border-bottom:1px solid var(--line)}
.didact .list td:last-child{min-width:18rem;padding-right:0}
.didact .track{display:block;position:relative;width:100%;height:.95em;margin-top:.25em;
 border-left:1px solid var(--line)}
.didact .track.two{border-left:0;background:linear-gradient(var(--line),var(--line)) 50% 0/1px 100% no-repeat}
.didact .track rect{fill:var(--tint)}
.didact .track i{position:absolute;top:0;bottom:0;background:var(--tint);border-radius:1px}
@media (max-width: 46rem){
 .didact main{padding:2rem 1.1rem 3rem}
 .didact .tool{flex-wrap:wrap;gap:.1rem .6rem}
 .didact .methods>tbody>tr>th,.didact .methods>tbody>tr>td{display:block;width:auto;padding:1rem 0 0}
 .didact .methods>tbody>tr>td{padding:.5rem 0 1rem}
 .didact .methods:not(.tiles)>tbody>tr{display:flex;flex-direction:column;padding:1rem 0}
 .didact .methods:not(.tiles)>tbody>tr>th{display:contents}
 .didact .methods:not(.tiles)>tbody>tr>td{order:1;padding:.25rem 0 .75rem}
 .didact .methods:not(.tiles) th .settings,.didact .methods:not(.tiles) th .quiet{order:2;font-size:.85rem}
}
"""
