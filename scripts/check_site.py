"""Follows every link of a built site: files and anchors must be there, and nothing is loaded from elsewhere.

Usage:
    python scripts/check_site.py build/site
"""

from __future__ import annotations

import argparse
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}
_ELSEWHERE = ("http", "https", "mailto", "data")


def main() -> None:
    """Print what is broken, and fail if anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, help="folder of the built pages")
    problems = check(parser.parse_args().site)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


def check(site: Path) -> list[str]:
    """One line per broken link."""
    pages = sorted(site.rglob("*.html"))
    if not pages:
        return [f"{site} holds no pages; run: make docs"]
    return [
        f"{page.relative_to(site)}: {problem}"
        for page in pages
        for tag, attribute, link in read(page).links
        for problem in _problems(page, tag, attribute, link)
    ]


class PageLinks(HTMLParser):
    """Collects the links of a page and the places that links may name."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[tuple[str, str, str]] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep ``href``, ``src``, ``id`` and ``name``."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add((tag, name, value))
            elif name in ("id", "name") and value:
                self.anchors.add(value)


@cache
def read(page: Path) -> PageLinks:
    """The links and anchors of a page."""
    parser = PageLinks()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def _problems(page: Path, tag: str, attribute: str, link: str) -> list[str]:
    parts = urlsplit(link)
    if parts.scheme == "data":
        return []
    if parts.scheme or parts.netloc:
        if (tag, attribute) in _LOADED:
            return [f"<{tag}> loads {link} from elsewhere"]
        return [] if parts.scheme in _ELSEWHERE else [f"{link} is of an unknown kind"]
    target = page if not parts.path else (page.parent / unquote(parts.path)).resolve()
    if not target.is_file():
        return [f"{link} leads to a file that is not there"]
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors:
        return [f"{link} names a place that is not on that page"]
    return []


if __name__ == "__main__":
    main()
