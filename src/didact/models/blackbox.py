"""Adapter for a plain function from texts to probabilities."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from didact.errors import InputError, ModelError, ParameterError
from didact.meter import count
from didact.models.exclusive import exclusive
from didact.models.function_identity import FunctionIdentity
from didact.models.heads.classes import ClassesHead
from didact.models.outputs import labelled
from didact.models.replacements import word_pool
from didact.ops.masking import Absence, draws, unique_rows
from didact.ops.units import word_spans
from didact.progress import advance, working
from didact.protocols import TargetLike
from didact.provenance import fingerprint
from didact.types import Example, Floats, Keep, Level, Prediction, Scale, Target, Units

Predict = Callable[[list[str]], object]

_ADVICE = "give load_model a name and a version that changes with it, so that stored results are never another model's"


class BlackBox:
    """A ``predict(list[str]) -> probabilities`` function; offers nothing but its predictions.

    Args:
        predict: returns one row per text, one column per label, rows adding up to 1.
        labels: names of the columns; "class 0", "class 1", ... when not given.
        batch_size: how many texts one call of the function gets.
        name: what it is called in results; the function's own name when not given.
        version: the user's word that name and version identify it. Where it is not given, its identity is looked for
            in its code, its state and its answers to a few texts.
    """

    default_absence = "delete"
    inputs = "text"
    levels: tuple[Level, ...] = ("word",)
    precision = 1e-3

    def __init__(
        self,
        predict: Predict,
        *,
        labels: Sequence[str] | None = None,
        batch_size: int = 64,
        name: str | None = None,
        version: str | None = None,
    ) -> None:
        self.function = predict
        self.name = str(getattr(predict, "__name__", type(predict).__name__)) if name is None else name
        self.version = version
        self._identity = FunctionIdentity(predict, self._call)
        self._owner = predict if _is_weak_key(predict) else self
        self._warned = False
        self.scales: tuple[Scale, ...] = ("probability", "log_probability")
        self.capabilities: frozenset[str] = frozenset()
        self.batch_size = batch_size
        self.labels = tuple(labels) if labels is not None else ()
        if not self.labels:
            self.labels = tuple(f"class {i}" for i in range(self._call(["a short probe"]).shape[1]))

    def fingerprint(self) -> str:
        """Hash of name and version where a version was given, else of code, state and answers to a few texts."""
        if self.version is not None:
            return fingerprint(["version", self.name, self.version, self.labels])
        with exclusive(self._owner):
            made = fingerprint([self.name, self.labels, self._identity.digest()])
            if self._identity.limits and not self._warned:
                self._warned = True
                warnings.warn(f"the model {self.name} is {self._identity.limits}; {_ADVICE}", stacklevel=2)
            return made

    @property
    def identity_limits(self) -> str:
        """What the fingerprint cannot see of the function, as a clause; empty where that is nothing."""
        if self.version is not None:
            return ""
        with exclusive(self._owner):
            return self._identity.limits

    def units(self, examples: Sequence[Example], level: Level | None = None) -> list[Units]:
        """The words of each text; a function shows no tokens."""
        if level not in (None, "word"):
            raise ParameterError("a predict function shows no tokens; use level='word'")
        units = []
        for example in examples:
            if example.text_pair is not None:
                raise InputError(f"{self.name} takes single texts, but a pair was given")
            spans = word_spans(example.text)
            if not spans:
                raise InputError(f"there is no word to explain in {example.text!r:.80}")
            units.append(Units(example, "word", tuple(spans)))
        return units

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """What the function returns for the whole texts."""
        rows = self._evaluate("predicting", [example.text for example in examples])
        count(forwards=len(examples), evaluated=len(examples))
        logs = np.log(np.maximum(rows, 1e-300))
        return [
            Prediction(self.labels, tuple(log.tolist()), tuple(row.tolist()))
            for log, row in zip(logs, rows, strict=True)
        ]

    def target(self, given: TargetLike, prediction: Prediction, scale: Scale) -> Target:
        """A label by its name or index; nothing means the predicted one."""
        return labelled(self.labels, given, prediction, scale)

    def score(
        self, units: Sequence[Units], targets: Sequence[Target], keep: Sequence[Keep], absence: str | None = None
    ) -> list[Floats]:
        """The target under each keep mask, by rewriting the text; equal texts are evaluated once."""
        operator = self._absence(absence)
        texts: dict[str, int] = {}
        rows: list[list[int]] = []
        for unit, masks in zip(units, keep, strict=True):
            if masks.shape[1] != len(unit):
                raise ParameterError(f"keep masks must have shape (variants, {len(unit)}), got {masks.shape}")
            if operator.kind == "sample":
                distinct, inverse = masks, np.arange(len(masks))
            else:
                distinct, inverse = unique_rows(masks)
            written = rewritten(unit, operator, distinct)
            numbers = [texts.setdefault(text, len(texts)) for text in written]
            rows.append([numbers[i] for i in inverse])
        outputs = torch.from_numpy(np.log(np.maximum(self._evaluate("evaluating variants", list(texts)), 1e-300)))
        count(forwards=sum(len(masks) for masks in keep), evaluated=len(texts))
        head = ClassesHead(self.labels)
        return [
            head.values(outputs[own], [target] * len(own)).numpy() for own, target in zip(rows, targets, strict=True)
        ]

    def _evaluate(self, what: str, texts: list[str]) -> Floats:
        parts = []
        with working(what, len(texts)):
            for start in range(0, len(texts), self.batch_size):
                part = texts[start : start + self.batch_size]
                parts.append(self._call(part))
                advance(len(part))
        return np.concatenate(parts)

    def _call(self, texts: list[str]) -> Floats:
        """Call the function and check what it returns."""
        try:
            with exclusive(self._owner):
                returned = self.function(list(texts))
        except Exception as problem:
            raise ModelError(
                f"the predict function {self.name} raised {type(problem).__name__}: {problem} (called with "
                f"{len(texts)} texts, the first {texts[0]!r:.60})"
            ) from problem
        try:
            rows = np.asarray(returned, dtype=np.float64)
        except (TypeError, ValueError):
            raise ModelError(
                f"the predict function {self.name} must return an array of probabilities, got {type(returned).__name__}"
            ) from None
        wanted = f"({len(texts)}, {len(self.labels) or 'number of labels, at least 2'})"
        if rows.ndim != 2 or len(rows) != len(texts) or rows.shape[1] != (len(self.labels) or max(rows.shape[1], 2)):
            raise ModelError(f"the predict function {self.name} returned shape {rows.shape}; expected {wanted}")
        if not np.isfinite(rows).all():
            bad = texts[int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])]
            raise ModelError(f"the predict function {self.name} returned NaN or infinity for {bad!r:.60}")
        wrong = (rows < -1e-6).any(axis=1) | (np.abs(rows.sum(axis=1) - 1) > 1e-3)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise ModelError(
                f"the predict function {self.name} must return probabilities: row {first} is {rows[first].tolist()} "
                f"and adds up to {rows[first].sum():.4g}; apply softmax first if these are logits"
            )
        return rows

    def _absence(self, text: str | None) -> Absence:
        operator = Absence.parse(text or self.default_absence)
        if operator.kind not in ("delete", "token", "sample"):
            raise ParameterError(
                f"a predict function sees only text; use absence 'delete', 'token:X' or 'sample:SEED', not {text!r}"
            )
        return operator


def _is_weak_key(function: object) -> bool:
    """Whether threads can be made to wait for each other at the function itself, and not at its adapter alone."""
    try:
        hash(function)
        weakref.ref(function)
    except TypeError:
        return False
    return True


def rewritten(units: Units, operator: Absence, keep: Keep) -> Iterator[str]:
    """The text of each variant, with absent units replaced; a deleted unit takes the blanks before it along."""
    text = units.example.text
    ends = [0, *(span.end for span in units.spans)]
    gaps = [text[end : span.start] for end, span in zip(ends, units.spans, strict=False)]
    pieces = [text[end : span.end] for end, span in zip(ends, units.spans, strict=False)]  # with the gaps before them
    for kept, words in zip(keep.tolist(), _replacements(units, operator, len(keep)), strict=True):
        if words is None:
            shown = "".join(itertools.compress(pieces, kept))
        else:
            shown = "".join(
                piece if own else gap + word for piece, own, gap, word in zip(pieces, kept, gaps, words, strict=True)
            )
        yield text if all(kept) else (shown + text[ends[-1] :]).strip()


def _replacements(units: Units, operator: Absence, rows: int) -> Iterator[Sequence[str] | None]:
    """What stands for each unit when it is absent, variant by variant; None takes absent units out."""
    if operator.kind == "sample":
        pool = word_pool(operator.token)
        for row in draws(operator, units.example, np.arange(rows), len(units), len(pool)):
            yield [pool[i] for i in row]
    else:
        words = None if operator.token is None else [operator.token] * len(units)
        yield from itertools.repeat(words, rows)
