import sys
from types import SimpleNamespace

import pytest

from didact.render import notebook
from didact.types import Explanation
from tests.render.conftest import Make


class Shell:
    """As much of IPython's shell as is used."""

    def __init__(self, types: list[str]) -> None:
        self.known: dict[type, object] = {}
        self.published: list[dict[str, str]] = []
        html = SimpleNamespace(for_type=self.known.__setitem__)
        self.display_formatter = SimpleNamespace(formatters={"text/html": html}, active_types=types)
        self.display_pub = SimpleNamespace(publish=self.published.append)


def run_under(shell: Shell | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


def test_nothing_happens_without_ipython(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not notebook.install()
    assert not notebook.display([make()])
    assert "IPython" not in sys.modules


def test_nothing_happens_where_ipython_is_loaded_but_not_running(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    run_under(None, monkeypatch)
    assert not notebook.install()
    assert not notebook.display([make()])


def test_explanations_become_html(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(["text/plain", "text/html"])
    run_under(shell, monkeypatch)
    assert notebook.install()
    assert notebook.install()
    assert list(shell.known) == [Explanation]
    assert shell.known[Explanation](make()).startswith('<div class="didact">')


def test_several_are_shown_together(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(["text/plain", "text/html"])
    run_under(shell, monkeypatch)
    assert notebook.display([make(), make(method="lime")])
    (shown,) = shell.published
    assert shown["text/html"].count('<th scope="row">') == 2
    assert "lime" in shown["text/plain"]


def test_ipythons_terminal_is_left_to_the_terminal(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(["text/plain"])
    run_under(shell, monkeypatch)
    assert not notebook.display([make()])
    assert not shell.published


def test_with_real_ipython(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactive.InteractiveShell()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    assert notebook.install()
    formatted, _ = shell.display_formatter.format(make())
    assert formatted["text/html"].startswith('<div class="didact">')
