"""The check of the site's links finds what is broken, and only that."""

from pathlib import Path

import pytest

from tests.docs.test_docs import script

GOOD = (
    '<a href="b.html#place">b</a><a href="#top" id="top">top</a><a href="https://example.org">out</a><img src="p.png">'
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "a.html").write_text(GOOD, encoding="utf-8")
    (tmp_path / "b.html").write_text('<h2 id="place">Here</h2><img src="data:image/png;base64,AA==">', encoding="utf-8")
    (tmp_path / "p.png").write_bytes(b"")
    return tmp_path


def test_a_whole_site_passes(site: Path) -> None:
    assert script("check_site").check(site) == []


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ('<a href="c.html">c</a>', "c.html leads to a file that is not there"),
        ('<a href="b.html#elsewhere">b</a>', "names a place that is not on that page"),
        ('<a href="#nowhere">b</a>', "names a place that is not on that page"),
        ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js from elsewhere"),
        ('<a href="file:///x">x</a>', "is of an unknown kind"),
    ],
)
def test_what_is_broken_is_named(site: Path, broken: str, problem: str) -> None:
    (site / "a.html").write_text(GOOD + broken, encoding="utf-8")
    (found,) = script("check_site").check(site)
    assert found.startswith("a.html: ")
    assert problem in found


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    assert "make docs" in script("check_site").check(tmp_path)[0]
