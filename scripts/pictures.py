"""Draws how didact looks, for docs/looks.md: terminals, pages, a report, a decision record, a service, a notebook.

Notebooks are drawn in the styles of JupyterLab and VS Code.

The notebook docs/notebooks/first_steps.ipynb is executed for it; `didact serve` and `didact study serve` are started.

Usage:
    pip install '.[pictures]'
    python scripts/pictures.py [--browser /usr/bin/chromium] [--only notebook-lab-dark ...]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

import httpx2
import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, sync_playwright

import didact
from didact.render.html import page
from didact.render.terminal import terminal_svg
from didact.study.design import StudyDesign
from didact.study.material import StudyMaterial
from didact.study.session import Study
from didact.study.simulated import PlantedRaters, go_through
from didact.types import Explanation

DOCS = Path(__file__).resolve().parents[1] / "docs"
PICTURES = DOCS / "pictures"
TEXT = "I expected little, but this is a warm, funny and truly wonderful film with one dull scene."
METHODS = ["integrated_gradients", "occlusion", "attention"]
GRADED = ["integrated_gradients", "occlusion", "lrp", "attention_x_gradient", "gradient_x_input"]
STUDIED = [
    TEXT,
    "A dull and lifeless story that never ends.",
    "The cast is charming, the songs are lovely.",
    "Not worth the ticket: loud, long and empty.",
    "A gripping, clever film with a fine ending.",
    "I was bored after ten minutes of clumsy jokes.",
    "Warm pictures and a beautiful score.",
    "A terrible script wastes a good idea.",
]
KEY = "the-key-of-the-owner"
PHONE, DESKTOP, RECORD, REPORT = 390, 1000, 880, 1280
TERMINALS = (60, 80, 140)

EDITOR = """
body{margin:0;padding:12px;font:13px/1.4 sans-serif}
body.vscode-dark{background:#1e1e1e;color:#cccccc} body.vscode-light{background:#ffffff;color:#3b3b3b}
pre{font:12px/1.5 monospace;background:rgba(130,130,130,.12);padding:8px}
div{width:100%} h2{font-size:19px;font-weight:normal;margin:0 0 10px} dl,dd,dt{margin:4px 0 4px 40px}
table,thead,tr,th,td,tbody{border:none!important;border-spacing:0;border-collapse:collapse}
table,th,tr{text-align:left!important} th,td{padding:4px 8px}
thead{font-weight:bold;background-color:rgba(130,130,130,.16)}
tr:nth-child(even){background-color:rgba(130,130,130,.08)}
"""
"""What an editor's notebook does to every output: rows striped and without borders, cells padded, headings large."""


@dataclass(frozen=True)
class View:
    """A page as one reader sees it.

    Attributes:
        name: of the picture.
        html: the page, or its address.
        width: of the window, in pixels.
        dark: what the reader's system prefers.
        height: at most this much of the page is shown.
        presses: keys to press, once the first word has the focus.
        cookies: that the browser has, by their names.
    """

    name: str
    html: str
    width: int = DESKTOP
    dark: bool = False
    height: int = 1000
    presses: tuple[str, ...] = ()
    cookies: Mapping[str, str] = field(default_factory=dict)


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--browser", default="/usr/bin/chromium", help="Chromium (default: /usr/bin/chromium)")
    parser.add_argument(
        "--only", nargs="*", metavar="NAME", help="these pictures alone, by the beginning of their names"
    )
    options = parser.parse_args()

    def wanted(name: str) -> bool:
        return not options.only or name.startswith(tuple(options.only))

    compared = didact.compare(TEXT, methods=METHODS, progress=False)
    if wanted("terminal"):
        for width in TERMINALS:
            (PICTURES / f"terminal-{width}.svg").write_text(terminal_svg(compared, width=width), encoding="utf-8")
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=options.browser, args=["--no-sandbox"])
        made = {
            "page": lambda: pages(compared),
            "playground": playground,
            "study": study,
            "notebook": notebooks,
            "re": reports,
        }
        chosen = [views() for kind, views in made.items() if _any(kind, options.only)]
        for view in itertools.chain(*chosen):
            if wanted(view.name):
                draw(view, browser)


def _any(kind: str, only: list[str] | None) -> bool:
    """Whether a picture of this kind is wanted, by the beginnings of names."""
    return not only or any(name.startswith(kind) or kind.startswith(name) for name in only)


def pages(compared: list[Explanation]) -> Iterator[View]:
    """A saved page: at a desk, on a phone, and in the dark."""
    html = page([*compared, didact.explain("A dull one.", method="occlusion", progress=False)])
    yield View("page-desktop", html)
    yield View("page-dark", html, dark=True)
    yield View("page-phone", html, width=PHONE)
    yield View("page-phone-dark", html, width=PHONE, dark=True)


def reports() -> Iterator[View]:
    """The report of an evaluation, and a decision record."""
    record = didact.record(TEXT, method="occlusion").to_html()
    yield View("record", record, width=RECORD, height=1080)
    yield View("record-phone-dark", record, width=PHONE, dark=True)
    with tempfile.TemporaryDirectory() as folder:
        didact.evaluate("corpus", methods=GRADED, limit=40, minutes=None, out=Path(folder) / "reviews", progress=False)
        report = (Path(folder) / "reviews" / "report.html").read_text(encoding="utf-8")
    yield View("report", report, width=REPORT, height=1180)


def playground() -> Iterator[View]:
    """The playground of a service: several methods, an edit with a flip, and every class on a phone in the dark."""
    command = [sys.executable, "-m", "didact", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[2]
        while httpx2.get(f"{address}/readyz").status_code != 200:
            time.sleep(0.1)
        compared = urlencode({"text": TEXT, "method": METHODS}, doseq=True)
        yield View("playground", f"{address}/?{compared}", height=1150, presses=("ArrowRight",) * 13)
        edit = {"text": TEXT.replace(" wonderful", ""), "before": TEXT, "method": "occlusion", "flip": 1}
        yield View("playground-edit", f"{address}/?{urlencode(edit)}", height=1250)
        classes = urlencode({"text": TEXT, "method": "occlusion", "target": "all"})
        yield View("playground-phone-dark", f"{address}/?{classes}", width=PHONE, dark=True, height=1150)
        process.terminate()


def study() -> Iterator[View]:
    """Pages of a study: explanations to rank, the owner's, and an item to learn from on a phone in the dark."""
    with served_study("rank") as (address, made):
        client, token = joined(address, made)
        advance(made, token, "rank")
        yield View("study-rank", f"{address}/page", height=1150, cookies=dict(client.cookies))
        client.post("/owner", data={"key": KEY})
        yield View("study-owner", f"{address}/owner", height=950, cookies=dict(client.cookies))
    with served_study("simulate") as (address, made):
        client, token = joined(address, made)
        advance(made, token, "learn")
        cookies = dict(client.cookies)
        yield View("study-phone-dark", f"{address}/page", width=PHONE, dark=True, height=740, cookies=cookies)


def joined(address: str, made: Study) -> tuple[httpx2.Client, str]:
    """A client that has joined with the last code, and its session."""
    client = httpx2.Client(base_url=address)
    client.post("/join", data={"code": codes(made)[-1]})
    (token,) = client.cookies.values()
    return client, token


def advance(made: Study, token: str, kind: str) -> None:
    """Answer until a page of this kind that counts is open."""
    page = made.next(token)
    while page.kind != kind or page.title == "Practice":
        plan, arm = made.key(token, page.id)
        page = made.answer(token, page.id, PlantedRaters().respond(plan, 1, arm, made.material.labels()))


def codes(made: Study) -> list[str]:
    """Invitation codes."""
    return (made.folder / "codes.txt").read_text(encoding="utf-8").split()


@contextlib.contextmanager
def served_study(protocol: Literal["rank", "simulate"]) -> Iterator[tuple[str, Study]]:
    """A small study behind a socket, which one rater has finished, and its address."""
    explained = {name: didact.explain(STUDIED, method=name, progress=False) for name in METHODS[1:]}
    design = StudyDesign(
        protocol=protocol,
        explainers=(*explained, "random"),
        items=4,
        learning=2,
        practice=1,
        repeats=1,
        check_every=3,
        raters=2,
    )
    with tempfile.TemporaryDirectory() as folder:
        made = Study.create(Path(folder) / "study", design, StudyMaterial.chosen(explained, design))
        collections.deque(go_through(made, codes(made)[0], PlantedRaters(), 0), maxlen=0)
        command = [sys.executable, "-m", "didact", "study", "serve", str(made.folder), "--port", "0"]
        environment = {**os.environ, "DIDACT_TOKEN": KEY}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            yield process.stdout.readline().split()[2], made
            process.terminate()


def notebooks() -> Iterator[View]:
    """The executed notebook as JupyterLab shows it, and as an editor does."""
    notebook = nbformat.read(DOCS / "notebooks" / "first_steps.ipynb", as_version=4)
    notebook.cells = notebook.cells[:2] + notebook.cells[6:10]
    os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"  # executed without widgets
    NotebookClient(notebook, timeout=300).execute()
    for theme in ("light", "dark"):
        html, _ = HTMLExporter(template_name="lab", theme=theme).from_notebook_node(notebook)
        yield View(f"notebook-lab-{theme}", re.sub(r"<script\b.*?</script>", "", html, flags=re.DOTALL))
        yield View(f"notebook-vscode-{theme}", edited(notebook, theme))


def edited(notebook: nbformat.NotebookNode, theme: str) -> str:
    """The code and the HTML outputs of a notebook in an editor's style."""
    cells = [
        f"<pre>{cell.source}</pre><div>{output.data['text/html']}</div>"
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]
    head = f'<meta charset="utf-8"><style>{EDITOR}</style>'
    return f'<!doctype html><html><head>{head}</head><body class="vscode-{theme}">{"".join(cells)}</body></html>'


def draw(view: View, browser: Browser) -> None:
    """Photograph the top of a page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(view.html, encoding="utf-8")
        address = view.html if view.html.startswith("http:") else path.as_uri()
        window = browser.new_page(
            viewport={"width": view.width, "height": view.height}, color_scheme="dark" if view.dark else "light"
        )
        window.context.add_cookies(
            [{"name": name, "value": value, "url": view.html} for name, value in view.cookies.items()]
        )
        window.goto(address)
        if view.presses:
            window.locator("#explanations .text [tabindex='0']").first.focus()
        for key in view.presses:
            window.keyboard.press(key)
        window.screenshot(path=PICTURES / f"{view.name}.png")
        window.close()
    print(f"docs/pictures/{view.name}.png")


if __name__ == "__main__":
    main()
