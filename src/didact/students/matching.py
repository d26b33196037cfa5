"""Which channels reach which students: by capability and by the kind of answer, never by name."""

from __future__ import annotations

from collections.abc import Iterable

from didact.errors import CapabilityError, InputError, ParameterError
from didact.models.device import choose_device
from didact.students.base import CHANNELS, STUDENTS, ChannelCard, Reads, Student, StudentCard, TaskSetup
from didact.types import AnswerKind, Example


def reaches(channel: ChannelCard, student: StudentCard, kind: AnswerKind | None = None) -> bool:
    """Whether the student offers what the channel needs, and both go with answers of this kind.

    Args:
        channel: card of the channel.
        student: card of the student.
        kind: of the teacher's answers; None accepts any kind that both have.
    """
    kinds = channel.answers & student.answers
    return channel.needs <= student.offers and (bool(kinds) if kind is None else kind in kinds)


def reaching(student: StudentCard, kind: AnswerKind | None = None) -> list[str]:
    """Names of all registered channels that reach a student."""
    return sorted(card.name for card in CHANNELS.cards() if reaches(card, student, kind))


def imitating(kind: AnswerKind, reads: Reads | None = None) -> list[str]:
    """Names of all registered students that can imitate answers of a kind, and read texts or images."""
    able = (card for card in STUDENTS.cards() if kind in card.answers)
    return sorted(card.name for card in able if reads in (None, card.reads))


def check_examples(student: StudentCard, examples: Iterable[Example]) -> None:
    """Refuse images where the student reads texts, and texts where it reads images."""
    for example in examples:
        if example.is_textual != (student.reads == "text"):
            given: Reads = "text" if example.is_textual else "image"
            able = sorted(card.name for card in STUDENTS.cards() if card.reads == given)
            raise InputError(
                f"{student.name} reads {student.reads}s, and {example.preview} was given; students that read "
                f"{given}s: {', '.join(able)}"
            )


def check_setup(student: Student, setup: TaskSetup) -> None:
    """Refuse kinds of answers, channels and devices that this kind of student cannot work with."""
    _check_answers(student.card, setup)
    device = choose_device(setup.device)
    if device.type not in ("cpu", "cuda"):
        raise ParameterError(f"students are trained on 'cpu' or 'cuda', got {setup.device!r}")
    if setup.together is not None and setup.together < 1:
        raise ParameterError(f"together must be at least 1, got {setup.together}")
    if setup.curve < 0:
        raise ParameterError(f"curve must be a number of epochs, or 0 for none; got {setup.curve}")


def _check_answers(card: StudentCard, setup: TaskSetup) -> None:
    if setup.kind not in card.answers:
        raise CapabilityError(
            f"{card.name} cannot imitate answers of kind {setup.kind!r}; it can imitate: "
            f"{', '.join(sorted(card.answers))}"
        )
    if setup.channel is None:
        return
    channel = setup.channel.card
    if not channel.needs <= card.offers:
        raise CapabilityError(
            f"channel {channel.name!r} does not reach the student {card.name}, which does not offer "
            f"{', '.join(sorted(channel.needs - card.offers))}; those that do: {', '.join(reaching(card)) or 'none'}"
        )
    if setup.kind not in channel.answers:
        raise CapabilityError(
            f"channel {channel.name!r} does not go with answers of kind {setup.kind!r}; it goes with: "
            f"{', '.join(sorted(channel.answers))}"
        )
