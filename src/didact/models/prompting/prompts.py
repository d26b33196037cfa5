"""Prompts: how a language model is made a classifier, as plain data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self, cast

from didact.errors import FormatError, InputError, ParameterError
from didact.registry import unknown
from didact.validation import list_value, object_value, shown, text_value, truth_value

SLOT = "{text}"
"""What stands in a template for the text to be classified."""


@dataclass(frozen=True)
class Shot:
    """A solved example in a prompt: a text and the name of its label."""

    text: str
    label: str


@dataclass(frozen=True)
class Prompt:
    r"""A template with one slot for the text, the words that stand for each label, and solved examples.

    >>> prompt = Prompt("Review: {text}\nSentiment:", ["negative", "positive"], shots=[("A dull plot.", "negative")])
    >>> prompt.words
    (' negative', ' positive')

    Attributes:
        template: how one text is put, with ``{text}`` once and something behind it that leads over to the answer.
            Blanks at its very end move to the label words, since tokenizers join a blank with the word behind it.
        labels: names of the labels with the words that the model would write for each; where only names are given,
            they are the words, behind a blank unless the template ends in one or with a new line.
        instruction: stands before everything else; the system message of a chat.
        shots: solved examples, in order, each put by the template.
        separator: between instruction, shots and the text; in a chat they are messages of their own.
        chat: whether the prompt is written by the tokenizer's chat template.
        calibration: texts without content, such as "N/A"; what the model predicts for them is divided out of all
            predictions (Zhao et al. 2021). Nothing is calibrated where there are none.
        absence: how an absent unit is shown when a method names no operator; ``token:unk`` where the tokenizer has
            such a token, else ``delete``, when not given.
    """

    template: str
    labels: Mapping[str, str] | Sequence[str]
    instruction: str = ""
    shots: Sequence[Shot | tuple[str, str]] = ()
    separator: str = "\n\n"
    chat: bool = False
    calibration: Sequence[str] = ()
    absence: str | None = None
    words: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        self._check_slot()
        named = self._named()
        if self.chat:
            words = {name: word.strip() for name, word in named.items()}
        else:
            blanks = self.template[len(self.template.rstrip(" ")) :]
            words = {name: blanks + word for name, word in named.items()}
        _check_words(words)
        shots = tuple(one if isinstance(one, Shot) else Shot(*one) for one in self.shots)
        for shot in shots:
            if shot.label not in words:
                raise ParameterError(unknown("label of a shot", shot.label, tuple(words)))
        settled = {"labels": named, "words": tuple(words.values()), "shots": shots}
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the labels."""
        return tuple(self.labels)

    @property
    def around(self) -> tuple[str, str]:
        """What the template has before and behind its slot."""
        before, after = self.template.split(SLOT)
        return before, after if self.chat else after.rstrip(" ")

    @property
    def solved(self) -> list[tuple[str, str]]:
        """Each shot as it is put, and its answer."""
        (before, after), shots = self.around, cast("tuple[Shot, ...]", self.shots)
        return [(before + shot.text + after, self.words[self.names.index(shot.label)]) for shot in shots]

    @classmethod
    def of(cls, given: PromptLike) -> Prompt:
        """A prompt from itself, from the entries of one, or from a TOML file with such entries."""
        if isinstance(given, Prompt):
            return given
        return cls._of_entries(given, "the prompt") if isinstance(given, Mapping) else cls.read(Path(given))

    @classmethod
    def read(cls, path: Path) -> Self:
        """The prompt in a TOML file: ``template`` and ``labels``, and what else there is by the attributes' names."""
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(
                f"there is no prompt file {str(path)!r}; give a TOML file with template and labels"
            ) from None
        except (OSError, UnicodeDecodeError, ValueError) as problem:
            raise FormatError(f"{str(path)!r} is not a TOML file with template and labels: {problem}") from None
        return cls._of_entries(data, str(path))

    @classmethod
    def _of_entries(cls, data: Mapping[str, Any], source: str) -> Self:
        optional = tuple(item.name for item in fields(cls) if item.init)[2:]
        data = object_value(data, source, ("template", "labels"), optional)
        texts = ("template", "instruction", "separator", "absence")
        taken: dict[str, Any] = {name: text_value(data[name], name) for name in texts if name in data}
        if "chat" in data:
            taken["chat"] = truth_value(data["chat"], "chat")
        if "calibration" in data:
            taken["calibration"] = _texts(data["calibration"], "calibration")
        labels = data["labels"]
        if isinstance(labels, Mapping):
            taken["labels"] = {name: text_value(word, f"words of label {name}") for name, word in labels.items()}
        else:
            taken["labels"] = _texts(labels, "labels")
        shots = [
            object_value(one, "a shot", ("text", "label"), ()) for one in list_value(data.get("shots", []), "shots")
        ]
        solved = [Shot(text_value(one["text"], "text"), text_value(one["label"], "label")) for one in shots]
        return cls(**taken, shots=solved)

    def _check_slot(self) -> None:
        count = self.template.count(SLOT)
        if count != 1 or SLOT in self.instruction:
            where = "in the instruction" if SLOT in self.instruction else f"{count} times"
            raise ParameterError(
                f"a prompt's template has one slot {SLOT} for the text, and here it stands {where}; write it once in "
                "the template, and solved examples as shots"
            )
        if not self.chat and not self.template.split(SLOT)[1].strip():
            raise ParameterError(
                f"the template ends with its slot {SLOT}; write behind it what leads over to the answer, such as "
                "'\\nSentiment:'"
            )

    def _named(self) -> dict[str, str]:
        if isinstance(self.labels, Mapping):
            return dict(self.labels)
        blank = "" if self.chat or self.template[-1].isspace() else " "
        if len(set(self.labels)) < len(self.labels):
            raise ParameterError(f"labels must differ from each other, got {shown(list(self.labels))}")
        return {name: blank + name for name in self.labels}


PromptLike = Prompt | str | Path | Mapping[str, Any]
"""What a user may pass as a prompt."""


def _check_words(words: Mapping[str, str]) -> None:
    if len(words) < 2:
        raise ParameterError(f"a prompt needs at least two labels, got {shown(list(words))}")
    blank = [name for name, word in words.items() if not word.strip()]
    if blank:
        raise ParameterError(f"the label {blank[0]!r} has no words; give what the model would write for it")
    if len(set(words.values())) < len(words):
        raise ParameterError(f"labels must differ in their words, got {shown(dict(words))}")


def _texts(value: object, what: str) -> list[str]:
    return [text_value(one, what) for one in list_value(value, what)]
