"""Every registered student passes every check, by itself and with every channel that reaches it."""

import pytest

from didact.students.base import CHANNELS, STUDENTS
from didact.students.matching import reaching
from didact.testing.students import CHECKS, applicable, check, small

ALONE = [(student, name) for student in STUDENTS.names() for name in applicable(STUDENTS.card(student))]
WITH_CHANNELS = [
    (student, channel, name)
    for student in STUDENTS.names()
    for channel in reaching(STUDENTS.card(student))
    for name in applicable(STUDENTS.card(student), CHANNELS.card(channel))
]


@pytest.mark.parametrize(("student", "name"), ALONE)
def test_conforms(student: str, name: str) -> None:
    check(name, small(STUDENTS.get(student)))


@pytest.mark.parametrize(("student", "channel", "name"), WITH_CHANNELS)
def test_conforms_with_channel(student: str, channel: str, name: str) -> None:
    check(name, small(STUDENTS.get(student)), CHANNELS.get(channel)())


def test_every_check_is_used() -> None:
    assert {name for *_, name in (*ALONE, *WITH_CHANNELS)} == set(CHECKS)


def test_every_channel_reaches_a_student() -> None:
    assert {channel for _, channel, _ in WITH_CHANNELS} == set(CHANNELS.names())


@pytest.mark.parametrize("student", STUDENTS.names())
def test_a_student_is_a_file_of_its_name(student: str) -> None:
    assert STUDENTS.get(student).__module__ == f"didact.students.kinds.{student}"
