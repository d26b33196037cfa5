"""Adapter for a plain function from texts or images to probabilities."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from didact.errors import ModelError, ParameterError
from didact.meter import count
from didact.models.batch import EncodedBatch
from didact.models.exclusive import exclusive
from didact.models.functions.identity import FunctionIdentity
from didact.models.functions.inputs import FunctionInputs, TextInputs
from didact.models.heads.classes import ClassesHead
from didact.models.outputs import described, labelled
from didact.ops.masking import unique_rows
from didact.progress import advance, working
from didact.protocols import TargetLike
from didact.provenance import fingerprint
from didact.types import Example, Floats, Keep, Level, Prediction, Scale, Target, Units

Predict = Callable[[list[Any]], object]

BATCH_BYTES = 2**29
"""Of the inputs that are made at once: 64 images of 2.8 megapixels."""

SHOWN = 5
"""Probabilities of a row that a message quotes."""

_ADVICE = "give load_model a name and a version that changes with it, so that stored results are never another model's"


class BlackBox:
    """A ``predict(list) -> probabilities`` function of texts or images; offers nothing but its predictions.

    Args:
        predict: returns one row per input, one column per label, rows adding up to 1.
        view: what it is called with: ``TextInputs()``, or ``ImageInputs()`` for arrays (height, width, 3) of bytes.
        labels: names of the columns; "class 0", "class 1", ... when not given.
        batch_size: how many inputs one call of the function gets; fewer where they are images of together more than
            ``BATCH_BYTES``.
        name: what it is called in results; the function's own name when not given.
        version: the user's word that name and version identify it. Where it is not given, its identity is looked for
            in its code, its state and its answers to a few inputs.
    """

    precision = 1e-3
    __repr__ = described

    def __init__(
        self,
        predict: Predict,
        view: FunctionInputs | None = None,
        *,
        labels: Sequence[str] | None = None,
        batch_size: int = 64,
        name: str | None = None,
        version: str | None = None,
    ) -> None:
        self.function = predict
        self.name = str(getattr(predict, "__name__", type(predict).__name__)) if name is None else name
        self.version = version
        self.view: FunctionInputs = view or TextInputs()
        self.inputs = self.view.kind
        self.levels = self.view.levels
        self.default_absence = self.view.default_absence
        self._identity = FunctionIdentity(predict, self._call, self.view)
        self._owner = predict if _is_weak_key(predict) else self
        self._warned = False
        self.scales: tuple[Scale, ...] = ("probability", "log_probability")
        self.capabilities: frozenset[str] = frozenset()
        self.batch_size = batch_size
        self.labels = tuple(labels) if labels is not None else ()
        if not self.labels:
            self.labels = tuple(f"class {i}" for i in range(self._call([self.view.trial]).shape[1]))

    def fingerprint(self) -> str:
        """Hash of name and version where a version was given, else of code, state and answers to a few inputs."""
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
        """The parts of each example that the function can be shown without."""
        chosen = self.levels[0] if level is None else level
        if chosen not in self.levels:
            offered = " or ".join(map(repr, self.levels))
            raise ParameterError(f"a predict function of {self.inputs}s shows no {chosen}s; use level={offered}")
        return [self.view.units(example, chosen) for example in examples]

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """What the function returns for whole examples."""
        rows = self._evaluate("predicting", [self.view.whole(example) for example in examples])
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
        """The target under each keep mask, by changing the input; equal inputs are evaluated once."""
        operator = self.view.absence(absence or self.default_absence)
        variants: dict[Hashable, int] = {}
        rows: list[list[int]] = []
        for unit, masks in zip(units, keep, strict=True):
            if masks.shape[1] != len(unit):
                raise ParameterError(f"keep masks must have shape (variants, {len(unit)}), got {masks.shape}")
            if operator.kind == "sample":
                distinct, inverse = masks, np.arange(len(masks))
            else:
                distinct, inverse = unique_rows(masks)
            shown = self.view.variants(unit, operator, distinct)
            numbers = [variants.setdefault(variant, len(variants)) for variant in shown]
            rows.append([numbers[i] for i in inverse])
        outputs = torch.from_numpy(np.log(np.maximum(self._evaluate("evaluating variants", list(variants)), 1e-300)))
        count(forwards=sum(len(masks) for masks in keep), evaluated=len(variants))
        head, batch = ClassesHead(self.labels), EncodedBatch({}, ())
        return [
            head.explained(outputs[own], [target] * len(own), batch).numpy()
            for own, target in zip(rows, targets, strict=True)
        ]

    def _evaluate(self, what: str, variants: Sequence[Hashable]) -> Floats:
        parts = []
        with working(what, len(variants)):
            for part in self._batches(variants):
                parts.append(self._call(part))
                advance(len(part))
        return np.concatenate(parts)

    def _batches(self, variants: Sequence[Hashable]) -> Iterator[Sequence[Hashable]]:
        """Variants in the batches that the function is called with: fewer than usual where they are large."""
        start = held = 0
        for place, variant in enumerate(variants):
            size = self.view.size(variant)
            if place - start == self.batch_size or (place > start and held + size > BATCH_BYTES):
                yield variants[start:place]
                start, held = place, 0
            held += size
        yield variants[start:]

    def _call(self, variants: Sequence[Hashable]) -> Floats:
        """Call the function and check what it returns."""
        try:
            with exclusive(self._owner):
                returned = self.function([self.view.made(variant) for variant in variants])
        except Exception as problem:
            raise ModelError(
                f"the predict function {self.name} raised {type(problem).__name__}: {problem} (called with "
                f"{len(variants)} {self.inputs}s, the first {self.view.preview(variants[0])})"
            ) from problem
        try:
            rows = np.asarray(returned, dtype=np.float64)
        except (TypeError, ValueError):
            raise ModelError(
                f"the predict function {self.name} must return an array of probabilities, got {type(returned).__name__}"
            ) from None
        wanted = f"({len(variants)}, {len(self.labels) or 'number of labels, at least 2'})"
        if rows.ndim != 2 or len(rows) != len(variants) or rows.shape[1] != (len(self.labels) or max(rows.shape[1], 2)):
            raise ModelError(f"the predict function {self.name} returned shape {rows.shape}; expected {wanted}")
        if not np.isfinite(rows).all():
            bad = variants[int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])]
            raise ModelError(f"the predict function {self.name} returned NaN or infinity for {self.view.preview(bad)}")
        wrong = (rows < -1e-6).any(axis=1) | (np.abs(rows.sum(axis=1) - 1) > 1e-3)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            row = rows[first].tolist()
            more = f" and {len(row) - SHOWN} more" if len(row) > SHOWN else ""
            raise ModelError(
                f"the predict function {self.name} must return probabilities: row {first} is {row[:SHOWN]}{more} "
                f"and adds up to {rows[first].sum():.4g}; apply softmax first if these are logits"
            )
        return rows


def _is_weak_key(function: object) -> bool:
    """Whether threads can be made to wait for each other at the function itself, and not at its adapter alone."""
    try:
        hash(function)
        weakref.ref(function)
    except TypeError:
        return False
    return True
