"""Answers as they are stored: checked against the page, in one form, whatever a browser sent."""

from __future__ import annotations

from didact.errors import FormatError, InputError
from didact.study.pages import StudyPage
from didact.validation import shown as displayed
from didact.validation import text_value

LONGEST_COMMENT = 2000
Response = str | dict[str, int]
"""A choice or a text; for "rank", the rank of each explanation."""


def checked(page: StudyPage, given: object) -> Response:
    """The answer in the form that is stored.

    Args:
        page: that it is an answer to.
        given: for "rank", by the name of each explanation its rank, 1 for the best; equal ranks are ties, and gaps
            between ranks mean nothing. A text for all others.

    Raises:
        InputError: it is no answer to this page; the message says what would be one.
    """
    if page.kind == "rank":
        return _ranks(page, given)
    if page.kind == "survey":
        return _comment(given)
    if not isinstance(given, str) or given not in page.choices:
        raise InputError(f"the answer to this page is one of {', '.join(page.choices)}; got {displayed(given)}")
    return given


def _ranks(page: StudyPage, given: object) -> dict[str, int]:
    ranks = given if isinstance(given, dict) else {}
    if set(ranks) != set(page.choices) or not all(type(rank) is int and 1 <= rank <= 1000 for rank in ranks.values()):
        raise InputError(
            f"the answer to this page is a rank from 1 for each of {', '.join(page.choices)}, such as "
            f"{dict.fromkeys(page.choices, 1)}; got {displayed(given)}"
        )
    dense = {rank: place for place, rank in enumerate(sorted(set(ranks.values())), start=1)}
    return {name: dense[ranks[name]] for name in page.choices}


def _comment(given: object) -> str:
    try:
        text = text_value(given, "the comment").strip()
    except FormatError as problem:
        raise InputError(str(problem)) from None
    if len(text) > LONGEST_COMMENT:
        raise InputError(f"a comment may have {LONGEST_COMMENT:,} characters, got {len(text):,}; shorten it")
    return text
