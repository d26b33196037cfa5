"""Functions, classes and objects by what they consist of: every change counts, and every process sees the same."""

import functools
import re
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from didact.code_identity import Inventory, digest_of, foreign_code, is_library

SRC = Path(__file__).resolve().parents[1] / "src"

SOUND = """
import functools
import re
WEIGHTS = {"good": 1.0, "bad": -1.0}
PATTERN = re.compile("[a-z]+")
LEVEL = 3

def helper(word, factor=2):
    try:
        return factor * WEIGHTS.get(word, 0.0)
    except KeyError:
        return 0

def decorated(function):
    @functools.wraps(function)
    def wrapper(*given):
        return function(*given) + 0.5
    return wrapper

class Rules:
    offset = 1
    def clean(self, text):
        return text.strip().lower()
    @staticmethod
    def fixed():
        return 7
    @property
    def twice(self):
        return 2 * self.offset

rules = Rules()

@decorated
def score(text, *, scale=1.0):
    known = {"so", "not", "very", "and", "but"}
    total = sum(helper(word) for word in PATTERN.findall(rules.clean(text)) if word not in {"a", "b", "c", "d"})
    return scale * total + len([1 for word in text.split() if word in known]) * rules.twice + Rules.fixed()

def make(bias):
    def predict(texts):
        def row(text):
            value = score(text) + bias
            return [value, LEVEL - value]
        return [row(text) for text in texts]
    return predict

predict = make(0.25)
"""

EDITS = [
    ('"good": 1.0', '"good": 1.5'),
    ('"bad": -1.0', '"worse": -1.0'),
    ('"[a-z]+"', '"[a-zA-Z]+"'),
    ("LEVEL = 3", "LEVEL = 4"),
    ("factor=2", "factor=3"),
    ("factor * WEIGHTS", "factor + WEIGHTS"),
    ("return 0\n", "return 1\n"),
    ("except KeyError", "except ValueError"),
    ("+ 0.5", "+ 0.25"),
    ("offset = 1", "offset = 2"),
    (".strip().lower()", ".strip().upper()"),
    ("return 7", "return 8"),
    ("2 * self.offset", "3 * self.offset"),
    ("scale=1.0", "scale=2.0"),
    ('"so", "not"', '"so", "never"'),
    ('{"a", "b"', '{"a", "z"'),
    ("[1 for", "[2 for"),
    ("in text.split()", "in text.split(',')"),
    ("+ bias", "- bias"),
    ("make(0.25)", "make(0.26)"),
    ("LEVEL - value", "LEVEL - value * 1"),
]


def module(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "written"}
    exec(compile(text, "written.py", "exec"), names)
    return names


def test_every_edit_of_what_a_function_uses_counts() -> None:
    digests = {"": digest_of(module(SOUND)["predict"])}
    for old, new in EDITS:
        assert SOUND.count(old) == 1, old
        digests[old] = digest_of(module(SOUND.replace(old, new))["predict"])
    assert len(set(digests.values())) == len(EDITS) + 1


def test_what_does_not_decide_answers_does_not_count() -> None:
    first = digest_of(module(SOUND)["predict"])
    assert digest_of(module(SOUND)["predict"]) == first
    assert digest_of(module("\n\n# a comment\n" + SOUND)["predict"]) == first
    assert digest_of(module(SOUND + "\nUNUSED = 3\n")["predict"]) == first


@pytest.mark.parametrize("seed", ["0", "1"])
def test_every_process_gets_the_same(tmp_path: Path, seed: str) -> None:
    (tmp_path / "written.py").write_text(SOUND, "utf-8")
    code = "import written; from didact.code_identity import digest_of; print(digest_of(written.predict))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{SRC}:{tmp_path}", "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == digest_of(module(SOUND)["predict"])


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Holder:
    value: object


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: object, b: object) -> None:
        self.a, self.b = a, b


def knot(value: object) -> Holder:
    holder = Holder([value])
    holder.value.append(holder)  # type: ignore[attr-defined]
    return holder


@pytest.mark.parametrize(
    "make",
    [
        lambda n: {"a": [n]},
        lambda n: (1, n),
        lambda n: np.arange(5) + n,
        lambda n: np.array([None, n], dtype=object),
        lambda n: np.float32(n),
        lambda n: {f"w{n}", "x", "y"},
        lambda n: Counter({"a": n}),
        lambda n: re.compile(f"a{n}"),
        lambda n: functools.partial(print, n),
        lambda n: functools.lru_cache(functools.partial(max, n)),
        lambda n: list(Colour)[n - 1],
        lambda n: Holder(Holder(n)),
        lambda n: Slotted(0, Slotted(n, 0)),
        lambda n: [Holder(n), Holder(n)],
        lambda n: Holder(n).__eq__,
        lambda n: Path(f"a{n}"),
        lambda n: float(n),
        lambda n: n == 1,
        lambda n: -0.0 if n == 1 else 0.0,
        lambda n: 1 if n == 1 else True,
        lambda n: "\ud800" * n,
        lambda n: range(n),
        knot,
    ],
)
def test_state_counts(make: Callable[[int], object]) -> None:
    one, other = make(1), make(2)
    assert digest_of(one) == digest_of(one) == digest_of(make(1))
    assert digest_of(one) != digest_of(other)
    assert not Inventory(one, "x").opaque


def test_the_order_of_rules_counts() -> None:
    assert digest_of({"a": 1, "b": 2}) != digest_of({"b": 2, "a": 1})


def test_what_cannot_be_looked_into_is_named() -> None:
    opaque = Inventory(Holder(number for number in range(3)), "held").opaque
    assert list(opaque) == ["held.value"]
    assert "generator" in opaque["held.value"]
    assert not Inventory(Holder(threading.Lock()), "held").opaque


def test_functions_that_call_each_other_end() -> None:
    names = module("def a(n): return b(n - 1)\ndef b(n): return a(n) if n else 0")
    other = module("def a(n): return b(n - 1)\ndef b(n): return a(n) if n else 1")
    assert digest_of(names["a"]) != digest_of(other["a"])


def test_functions_of_modules_that_are_imported_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(text: str) -> str:
        made = ModuleType("my_rules")
        made.__file__ = str(tmp_path / "my_rules.py")
        exec(textwrap.dedent(text), made.__dict__)
        monkeypatch.setitem(sys.modules, "my_rules", made)
        body = "def f(x):\n    from my_rules import other\n    return my_rules.rule(x) + other(x)"
        names = module(f"import my_rules\n{body}")
        return digest_of(names["f"])

    sound = "def rule(x): return 1\ndef other(x): return 2\ndef unused(x): return 3"
    digests = [loaded(sound.replace(f"return {n}", "return 9")) for n in (0, 1, 2, 3)]
    assert digests[0] == digests[3]
    assert len(set(digests)) == 3


def test_decorators_of_libraries_do_not_hide_a_function() -> None:
    sound = "import contextlib\n@contextlib.contextmanager\ndef f(x):\n    yield 1"
    assert digest_of(module(sound)["f"]) != digest_of(module(sound.replace("yield 1", "yield 2"))["f"])


def test_libraries_count_by_name_and_own_classes_by_code() -> None:
    assert is_library("numpy.linalg")
    assert is_library("json")
    assert is_library("didact.types")
    assert not is_library(__name__)
    assert not is_library("__main__")
    assert foreign_code(Inventory) == ""
    assert foreign_code(Holder) != foreign_code(Slotted)
