"""Whatever is typed: values are read as they are written, and mistakes end with one line and exit code 2."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from didact.cli import main
from didact.cli.options import parse_owned, parse_settings, parse_target
from didact.errors import DidactError

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)
ANY = st.text(max_size=12)
NAME = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | ANY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
    max_leaves=5,
)


@PROPERTY
@given(st.integers(-(10**9) + 1, 10**9 - 1))
def test_a_target_that_is_a_number_is_an_index(number: int) -> None:
    assert parse_target(str(number)) == number


@PROPERTY
@given(st.text(st.characters(), max_size=6) | st.text(st.characters(categories=["Nd", "Nl", "No"]), max_size=4))
def test_any_other_target_is_a_label(text: str) -> None:
    target = parse_target(text)
    assert target == text or (isinstance(target, int) and int(text) == target)


@PROPERTY
@given(st.dictionaries(NAME, VALUE, max_size=4))
def test_settings_are_read_as_json_writes_them(values: dict[str, object]) -> None:
    assert parse_settings([f"{name}={json.dumps(value)}" for name, value in values.items()]) == values


@PROPERTY
@given(st.lists(ANY, max_size=3))
def test_settings_are_read_or_refused(pairs: list[str]) -> None:
    for parse in (parse_settings, lambda given: parse_owned(given, "lime.samples=200")):
        try:
            parsed = parse(pairs)
        except DidactError:
            continue
        assert all(isinstance(name, str) and name for name in parsed)


@PROPERTY
@given(st.sampled_from(("list", "report", "convert", "run", "explain")), st.lists(ANY, min_size=1, max_size=3))
def test_a_mistyped_command_ends_with_exit_code_two(command: str, words: list[str]) -> None:
    words = [f"--{word}" if number else f"no-such-thing/{word}.toml" for number, word in enumerate(words)]
    try:
        code: object = main([command, *words])
    except SystemExit as ended:
        code = ended.code
    assert code in (0, 2)


@pytest.mark.parametrize("text", ["nan", "inf", "1e400", "NaN"])
def test_numbers_that_are_none_are_still_read(text: str) -> None:
    value = parse_settings([f"rate={text}"])["rate"]
    assert isinstance(value, str) or not math.isfinite(value)  # type: ignore[arg-type]
