"""A prompt as the text that a tokenizer reads, with the places of its shots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from didact.errors import ModelError
from didact.models.prompting.prompts import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MARKS = ("\ue000", "\ue001", "\ue002")
"""Private characters that stand for the slot, and for the beginning and the end of a shot, while a chat is written."""


@dataclass(frozen=True)
class WrittenPrompt:
    """What stands before and behind the text.

    Attributes:
        before: everything up to the text.
        after: everything behind it, up to where the answer begins.
        shots: first and last character (exclusive) of each shot in ``before``.
        special: whether the tokenizer adds special tokens of its own; a chat template has written them.
    """

    before: str
    after: str
    shots: tuple[tuple[int, int], ...]
    special: bool


def write(prompt: Prompt, tokenizer: PreTrainedTokenizerBase) -> WrittenPrompt:
    """The prompt as plain text, or as the tokenizer's chat template writes it."""
    marked = _chat(prompt, tokenizer) if prompt.chat else _plain(prompt)
    return _unmarked(marked, special=not prompt.chat)


def _plain(prompt: Prompt) -> str:
    slot, begin, end = MARKS
    before, after = prompt.around
    parts = [prompt.instruction] if prompt.instruction else []
    parts += [begin + question + answer + end for question, answer in prompt.solved]
    return prompt.separator.join([*parts, before + slot + after])


def _chat(prompt: Prompt, tokenizer: PreTrainedTokenizerBase) -> str:
    if not tokenizer.chat_template:
        raise ModelError(
            f"the tokenizer of {tokenizer.name_or_path or type(tokenizer).__name__} has no chat template; set "
            "chat=false in the prompt to have it written as plain text, or give the tokenizer of a chat model"
        )
    messages = _messages(prompt)
    system = [{"role": "system", "content": prompt.instruction}] if prompt.instruction else []
    try:
        return chat_text(tokenizer, [*system, *messages])
    except Exception as problem:  # whatever a template raises where it knows no system message
        if not system:
            raise ModelError(f"the chat template cannot write the prompt: {problem!s:.200}") from problem
    first = {"role": "user", "content": f"{prompt.instruction}{prompt.separator}{messages[0]['content']}"}
    return chat_text(tokenizer, [first, *messages[1:]])


def _messages(prompt: Prompt) -> list[dict[str, str]]:
    """Shots as questions of the user with the assistant's answers, then the text."""
    slot, begin, end = MARKS
    before, after = prompt.around
    messages = []
    for question, answer in prompt.solved:
        messages.append({"role": "user", "content": begin + question.strip()})
        messages.append({"role": "assistant", "content": answer + end})
    return [*messages, {"role": "user", "content": (before + slot + after).strip()}]


def chat_text(tokenizer: PreTrainedTokenizerBase, messages: Sequence[dict[str, str]]) -> str:
    """A conversation as the tokenizer's chat template writes it, up to where the assistant answers."""
    return str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True))


def _unmarked(marked: str, *, special: bool) -> WrittenPrompt:
    slot, begin, end = MARKS
    before, _, after = marked.partition(slot)
    starts: list[int] = []
    ends: list[int] = []
    plain: list[str] = []
    size = 0
    for character in before:
        if character in (begin, end):
            (starts if character == begin else ends).append(size)
        else:
            plain.append(character)
            size += 1
    return WrittenPrompt("".join(plain), after, tuple(zip(starts, ends, strict=True)), special)
