import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

import didact
from didact.api import draw_in_notebooks
from didact.attribution._skipping import Explanations
from didact.render import notebook
from didact.types import Explanation
from tests.render.conftest import Make

DRAWINGS = {Explanation: notebook.draw_single, Explanations: notebook.draw_several}


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
    assert not notebook.install(DRAWINGS)
    assert not notebook.display([make()])
    assert "IPython" not in sys.modules


def test_nothing_happens_where_ipython_is_loaded_but_not_running(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    run_under(None, monkeypatch)
    assert not notebook.install(DRAWINGS)
    assert not notebook.display([make()])


def test_explanations_become_html(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(["text/plain", "text/html"])
    run_under(shell, monkeypatch)
    assert notebook.install(DRAWINGS)
    assert notebook.install(DRAWINGS)
    assert list(shell.known) == [Explanation, Explanations]
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


@pytest.fixture
def format_html(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], str]:
    """What a real IPython makes of the last value of a cell, with didact imported as a user does it."""
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactive.InteractiveShell()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    assert draw_in_notebooks()
    return lambda value: shell.display_formatter.format(value)[0].get("text/html", "")


def test_explanations_and_lists_of_them_are_drawn(make: Make, format_html: Callable[[object], str]) -> None:
    assert format_html(make()).startswith('<div class="didact">')
    shown = format_html(Explanations([make(), make(method="lime")]))
    assert shown.count('<th scope="row">') == 2
    assert "no explanations" in format_html(Explanations())


def test_methods_are_drawn(format_html: Callable[[object], str]) -> None:
    methods = didact.list_methods()
    shown = format_html(methods)
    assert all(f"<td><b>{card.name}</b></td>" in shown for card in methods)
    assert f"<b>{len(methods)} methods</b>" in shown


def test_models_are_drawn_with_the_methods_that_explain_them(format_html: Callable[[object], str]) -> None:
    shown = format_html(didact.load_model(lambda texts: [[0.5, 0.5]] * len(texts), labels=["<b>bad</b>", "good"]))
    assert "&lt;b&gt;bad&lt;/b&gt;, good" in shown
    assert "kernel_shap" in shown
    assert "integrated_gradients" not in shown
    assert "integrated_gradients" in format_html(didact.load_model())


def test_methods_at_a_prompt_are_a_line_each() -> None:
    methods = didact.list_methods()
    lines = repr(methods).splitlines()
    assert [line.split()[0] for line in lines] == [card.name for card in methods]
    assert repr(type(methods)()) == "no methods"


def test_a_page_in_a_frame_cannot_leave_it() -> None:
    shown = notebook.framed('<p title="a">"</iframe><script>x()</script>')
    assert shown.count("<") == 2
    assert shown.count(">") == 2
