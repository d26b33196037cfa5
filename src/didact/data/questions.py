"""Questions about a passage: the answers, and the phrases of both that mean the same where people linked them.

A row has a question, a passage (or context), ``answers`` and perhaps ``alignments`` (or ``links``):

    {"question": "who wrote it", "passage": "Ann wrote it .", "answers": [{"text": "Ann", "start": 0}],
     "alignments": [[[10, 12], [10, 12]]]}

Answers may also be written as SQuAD does: {"text": ["Ann"], "answer_start": [0]}. As in SQuAD 2, two empty lists, or no
answers where ``is_impossible`` is true, mean that the passage does not answer the question.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from didact.data.load import load_rows
from didact.data.rationales import read_link
from didact.data.rows import RowReader
from didact.data.sampling import sample
from didact.errors import FormatError, InputError
from didact.types import Example, Span
from didact.validation import shown

LINKS = ("alignments", "links")
"""Columns that may hold links, in the order in which they are tried."""


@dataclass(frozen=True)
class Question:
    """A question, where its passage answers it, and what people linked.

    Attributes:
        example: the question as its text, the passage as its pair, and as its label the places in the passage (field
            1) that answer it, any of which is right, or () where nothing does; the rationale is all that is linked.
        links: phrases that mean the same, of the question (field 0) and of the passage (field 1).
    """

    example: Example
    links: tuple[tuple[Span, Span], ...] = ()

    @property
    def answers(self) -> tuple[Span, ...]:
        """Places in the passage, any of which is right."""
        return self.example.label if isinstance(self.example.label, tuple) else ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The answers as written."""
        return tuple(self.example.texts[1][span.start : span.end] for span in self.answers)


def load_questions(
    source: str | Path | Sequence[object] = "qed",
    *,
    split: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    linked: bool = False,
) -> list[Question]:
    """Load questions with their answers and links.

    Args:
        source: as for ``load_data``: a file, a folder, a preset ("qed"), a Hub id, or a list of rows.
        split: one published split.
        limit: at most so many; seed and texts alone decide which.
        seed: of the choice.
        linked: leave out questions without links.

    Example:
        >>> row = {"question": "who wrote it", "passage": "Ann wrote it .", "answers": [{"text": "Ann", "start": 0}]}
        >>> load_questions([row])[0].texts
        ('Ann',)
    """
    rows = load_rows(source, split)
    reader = RowReader(
        {}, (), rows.fields or {"text": "question", "text_pair": ("passage", "context"), "rationale": LINKS}
    )
    questions = [_question(row, where, reader) for where, row in rows.rows]
    kept = {id(question.example): question for question in questions if question.links or not linked}
    if not kept:
        raise InputError(f"{rows.name} holds no question{' with links' if linked and questions else ''}")
    return [kept[id(example)] for example in sample([question.example for question in kept.values()], limit, seed)]


def _question(row: Mapping[str, object] | Example, where: str, reader: RowReader) -> Question:
    if isinstance(row, Example):
        raise InputError(f"{where}: an example has no answers; give rows with 'question', 'passage' and 'answers'")
    (example,) = reader.read([(where, row)], where)
    if example.text_pair is None:
        raise FormatError(f"{where}: field 'passage' is missing; found {', '.join(sorted(row))}")
    example = dataclasses.replace(example, label=_answers(row, example.text_pair, where))
    column = next((name for name in LINKS if row.get(name) is not None), None)
    if column is None:
        return Question(example)
    links = row[column]
    try:
        if not isinstance(links, Sequence):
            raise FormatError(f"must be a list of links, got {links!r:.60}")
        return Question(example, tuple(read_link(part, example) for part in links))
    except FormatError as problem:
        raise FormatError(f"{where}: field {column!r}: {problem}") from None


def _answers(row: Mapping[str, object], passage: str, where: str) -> tuple[Span, ...]:
    value, impossible = row.get("answers"), row.get("is_impossible") is True
    if isinstance(value, Mapping):  # as SQuAD writes them
        value = _paired(value, where)
        impossible = impossible or not value
    if impossible and not value:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise FormatError(
            f"{where}: field 'answers' must be a list of {{'text', 'start'}}, at least one unless 'is_impossible' is "
            f"true; got {value!r:.60}"
        )
    return tuple(_answer(answer, passage, where) for answer in value)


def _paired(value: Mapping[str, object], where: str) -> list[dict[str, object]]:
    """SQuAD's two lists, texts and starts, as one list of answers."""
    texts, starts = value.get("text"), value.get("answer_start")
    if not isinstance(texts, Sequence) or isinstance(texts, str) or not isinstance(starts, Sequence):
        raise FormatError(f"{where}: field 'answers' must have lists 'text' and 'answer_start', got {shown(value)}")
    if len(texts) != len(starts):
        raise FormatError(f"{where}: field 'answers' has {len(texts)} texts for {len(starts)} starts")
    return [{"text": text, "start": start} for text, start in zip(texts, starts, strict=True)]


def _answer(value: object, passage: str, where: str) -> Span:
    text, start = (value.get("text"), value.get("start")) if isinstance(value, Mapping) else (None, None)
    if not isinstance(text, str) or not text or type(start) is not int:
        raise FormatError(f"{where}: field 'answers': an answer is {{'text', 'start'}}, got {value!r:.60}")
    stands = passage[start : start + len(text)]
    if start < 0 or stands != text:
        raise FormatError(
            f"{where}: field 'answers': {text!r:.40} does not stand at character {start} of the passage, where "
            f"{stands!r:.40} is"
        )
    return Span(start, start + len(text), 1)
