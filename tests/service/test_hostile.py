"""A part of the hostile requests; all of them: ``python -m fuzz.service``."""

import asyncio

from fuzz.service import hostile, send_some


def test_hostile_requests_are_refused_or_answered_and_never_fail() -> None:
    tally = asyncio.run(send_some(1, range(250)))
    assert tally.failures == []
    assert tally.statuses[200] > 10
    assert sum(tally.statuses.values()) == 250


def test_a_request_is_made_again_from_its_number() -> None:
    assert [hostile(3, number) for number in range(9)] == [hostile(3, number) for number in range(9)]
