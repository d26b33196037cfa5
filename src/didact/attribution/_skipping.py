"""Explaining many texts of which some cannot be explained: the bad ones are named, or left out with their reason."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from didact.attribution.base import check_needs
from didact.errors import DidactError, ParameterError, TargetError, UnknownNameError
from didact.protocols import ExampleLike, Explainer, Model, TargetLike
from didact.types import Example, Explanation
from didact.views import view

OnError = Literal["raise", "skip"]

SHOWN = 5
"""How many of a list of explanations a prompt prints."""

_OF_THE_CALL = (ParameterError, TargetError, UnknownNameError)
"""Errors about settings and targets, which no other text mends."""


@dataclass(frozen=True)
class Skipped:
    """A text that was not explained.

    Attributes:
        index: its number in the list of texts, from 0.
        text: how it begins, in quotes.
        method: the explainer that was to explain it.
        reason: the message of the error.
    """

    index: int
    text: str
    method: str
    reason: str

    def __str__(self) -> str:
        return f"text {self.index + 1} ({self.text}) was not explained by {self.method}: {self.reason}"


class Explanations(list[Explanation]):
    """Explanations in the order of their texts, and what was left out.

    Attributes:
        skipped: the texts that were not explained, each with the reason.
    """

    def __init__(self, explanations: Iterable[Explanation] = (), skipped: Iterable[Skipped] = ()) -> None:
        super().__init__(explanations)
        self.skipped = tuple(skipped)

    def __repr__(self) -> str:
        left = f", {len(self.skipped)} skipped" if self.skipped else ""
        lines = [f"  {explanation!r}" for explanation in self[:SHOWN]]
        lines += [f"  ... and {len(self) - SHOWN} more"] if len(self) > SHOWN else []
        return "\n".join([f"{len(self)} explanation{'' if len(self) == 1 else 's'}{left}", *lines])

    def show(self) -> None:
        """Draw them in the notebook or the terminal; those of one text stand side by side."""
        view("show")(self)

    def save(self, path: str | Path) -> Path:
        """Write them as .json, .html, .tex, .svg or .txt, by the file's ending."""
        place: Path = view("save")(self, path)
        return place

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with a row per unit of every explanation; see ``didact.to_dataframe``."""
        return view("to_dataframe")(self)


def explain_all(
    explainer: Explainer, model: Model, texts: Sequence[ExampleLike], target: TargetLike, on_error: OnError = "raise"
) -> Explanations:
    """Explain texts together; where one cannot be explained, the error names it, or it is skipped."""
    _check(on_error)
    try:
        return Explanations(explainer.explain(model, texts, [target] * len(texts)))
    except _OF_THE_CALL:
        raise
    except DidactError as problem:
        if on_error == "raise":
            named = _located(explainer, model, texts)
            if named is None:
                raise
            raise named from problem
        check_needs(explainer.card, model)
        return _Sieve(explainer, model, texts, target).explanations(problem)


def explain_by_all(
    explainers: Sequence[Explainer], model: Model, text: ExampleLike, target: TargetLike, on_error: OnError = "raise"
) -> Explanations:
    """Explain one text by several explainers; one that cannot explain it raises its error, or is skipped."""
    _check(on_error)
    if on_error == "skip":
        problem = _unreadable(explainers[0], model, [text]).get(0)
        if problem is not None:
            return Explanations([], [Skipped(0, preview(text), "any method", str(problem))])
    made: list[Explanation] = []
    notes = []
    for explainer in explainers:
        try:
            made += explainer.explain(model, [text], [target])
        except DidactError as problem:
            if on_error == "raise":
                raise
            notes.append(Skipped(0, preview(text), explainer.card.name, str(problem)))
    return Explanations(made, notes)


def _check(on_error: str) -> None:
    """Refuse what is neither of the two ways."""
    if on_error not in ("raise", "skip"):
        raise ParameterError(f"on_error must be 'raise' or 'skip', got {on_error!r}")


def about_text(number: int, texts: Sequence[ExampleLike], problem: DidactError) -> DidactError:
    """The same error with a message that names one of several texts."""
    named = copy.copy(problem)
    named.args = (f"text {number + 1} of {len(texts)}, {preview(texts[number])}: {problem}",)
    return named


def preview(text: ExampleLike) -> str:
    """How a text begins, in quotes; harmless whatever characters it has."""
    if isinstance(text, Example):
        text = text.fields[0] if text.fields else ""
    shown = text if isinstance(text, str) else text[0] if isinstance(text, (tuple, list)) and text else text
    return repr(shown[:40] + "..." if isinstance(shown, str) and len(shown) > 40 else shown)[:60]


class _Sieve:
    """Explains what can be explained of texts that could not be explained together."""

    def __init__(self, explainer: Explainer, model: Model, texts: Sequence[ExampleLike], target: TargetLike) -> None:
        self.explainer = explainer
        self.model = model
        self.texts = texts
        self.target = target
        self.made: dict[int, Explanation] = {}
        self.problems: dict[int, DidactError] = {}

    def explanations(self, first: DidactError) -> Explanations:
        """Unreadable texts are put aside first; of the rest, halves that fail are halved again."""
        self.problems |= _unreadable(self.explainer, self.model, self.texts)
        readable = [number for number in range(len(self.texts)) if number not in self.problems]
        if readable:
            self._explain_some(readable, first if len(readable) == len(self.texts) else None)
        reasons = {str(problem) for problem in self.problems.values()}
        if len(readable) == len(self.texts) > 1 and not self.made and len(reasons) == 1:
            raise first  # one reason for all of them is not about the texts
        name = self.explainer.card.name
        notes = [Skipped(i, preview(self.texts[i]), name, str(self.problems[i])) for i in sorted(self.problems)]
        return Explanations([self.made[number] for number in sorted(self.made)], notes)

    def _explain_some(self, numbers: list[int], known: DidactError | None = None) -> None:
        """Explain these, or where they fail, or are known to, each half of them."""
        problem = known
        if problem is None:
            try:
                made = self.explainer.explain(
                    self.model, [self.texts[i] for i in numbers], [self.target] * len(numbers)
                )
            except _OF_THE_CALL:
                raise
            except DidactError as raised:
                problem = raised
            else:
                self.made |= zip(numbers, made, strict=True)
                return
        if len(numbers) == 1:
            self.problems[numbers[0]] = problem
            return
        middle = len(numbers) // 2
        self._explain_some(numbers[:middle])
        self._explain_some(numbers[middle:])


def _located(explainer: Explainer, model: Model, texts: Sequence[ExampleLike]) -> DidactError | None:
    """The error of the first bad text, with the text named; None where none is bad by itself."""
    if len(texts) < 2:
        return None
    bad = _unreadable(explainer, model, texts) or _unpredictable(model, texts)
    return about_text(min(bad), texts, bad[min(bad)]) if bad else None


def _unreadable(explainer: Explainer, model: Model, texts: Sequence[ExampleLike]) -> dict[int, DidactError]:
    """Texts that have no units by themselves, and why."""
    problems: dict[int, DidactError] = {}
    for number, text in enumerate(texts):
        try:
            model.units([Example.of(text)], getattr(explainer, "level", None))
        except DidactError as problem:
            problems[number] = problem
    return problems


def _unpredictable(model: Model, texts: Sequence[ExampleLike]) -> dict[int, DidactError]:
    """The first text that the model does not predict, and why."""
    for number, text in enumerate(texts):
        try:
            model.predict([Example.of(text)])
        except DidactError as problem:
            return {number: problem}
    return {}
