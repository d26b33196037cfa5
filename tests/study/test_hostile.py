"""Whatever a browser sends is an answer that fits, or is refused by an error of didact's own."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from didact.errors import DidactError
from didact.study.rows import read_answers
from didact.study.session import Study
from didact.study.simulated import PlantedRaters
from tests.study.conftest import Make, codes_of

TEXTS = st.text(st.characters(), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("ABCD") | TEXTS, inner, max_size=4),
    max_leaves=8,
)


@pytest.fixture
def at_rank(make_study: Make) -> tuple[Study, str]:
    """A session whose current page is the first that is ranked."""
    study = make_study()
    token = study.join(codes_of(study)[0]).token
    page = study.next(token)
    while page.kind != "rank":
        plan, arm = study.key(token, page.id)
        page = study.answer(token, page.id, PlantedRaters().respond(plan, 0, arm, ()))
    return study, token


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES, page=TEXTS, code=TEXTS)
def test_any_value_is_stored_in_one_form_or_refused(
    at_rank: tuple[Study, str], value: Any, page: str, code: str
) -> None:
    study, token = at_rank
    current = study.next(token)
    before = len(read_answers(study))
    for call in (
        lambda: study.join(code),
        lambda: study.next(page),
        lambda: study.answer(token, page, value),
        lambda: study.forget(code),
    ):
        with pytest.raises(DidactError):
            call()
    if current.kind != "rank":
        return
    try:
        study.answer(token, current.id, value)
    except DidactError:
        assert len(read_answers(study)) == before
    else:
        answer = read_answers(study)[-1].answer
        assert isinstance(answer, dict)
        assert set(answer) == {"A", "B", "C"}
        assert sorted(set(answer.values())) == list(range(1, 1 + len(set(answer.values()))))
