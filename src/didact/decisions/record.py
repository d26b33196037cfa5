"""The record of one decision as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from didact import disk
from didact.counterfactuals.flip import Flip, find_flip
from didact.decisions.page import page
from didact.decisions.trust import Trust, measure_trust
from didact.errors import FormatError, InputError
from didact.protocols import Explainer, Model
from didact.render.notebook import framed
from didact.types import Example, Explanation
from didact.validation import dump_json, object_value, text_value

FORMAT, VERSION = "didact-decision-record", 1


@dataclass(frozen=True)
class DecisionRecord:
    """One prediction with all that is needed to justify or contest it.

    Attributes:
        explanation: which words support and oppose what is predicted; with the model's hash, versions and cost.
        flip: the smallest change that flips the prediction, or what came nearest to one.
        trust: how faithful the method is on this model, measured.
        made: when, as an ISO 8601 time.
        command: the command line that made it; empty where it was made in Python.
    """

    explanation: Explanation
    flip: Flip
    trust: Trust
    made: str
    command: str = ""

    def to_html(self) -> str:
        """One page that needs nothing but itself, and prints on one sheet where the text is short."""
        return page(self.explanation, self.flip, self.trust, self.made, self.command)

    def _repr_html_(self) -> str:
        return framed(self.to_html())

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        parts = {name: getattr(self, name).to_dict() for name in ("explanation", "flip", "trust")}
        return {"format": FORMAT, "version": VERSION, **parts, "made": self.made, "command": self.command}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DecisionRecord:
        """Inverse of ``to_dict``."""
        names = ("format", "version", "explanation", "flip", "trust", "made", "command")
        data = cast("Mapping[str, Any]", object_value(data, "a decision record", names))
        if (data["format"], data["version"]) != (FORMAT, VERSION):
            raise FormatError(f"not a decision record of version {VERSION}: {data['format']!r}, {data['version']!r}")
        return cls(
            Explanation.from_dict(data["explanation"]),
            Flip.from_dict(data["flip"]),
            Trust.from_dict(data["trust"]),
            text_value(data["made"], "made"),
            text_value(data["command"], "command"),
        )

    def save(self, path: str | Path) -> tuple[Path, ...]:
        """Write the page (.html) with its data beside it (.json), or the data alone (.json).

        Returns:
            The files written.
        """
        place = Path(path)
        if place.suffix.lower() not in (".html", ".htm", ".json"):
            raise InputError(
                f"a decision record is written as .html, with .json beside it, or .json; got {place.name!r}"
            )
        beside = place.with_suffix(".json")
        disk.write_bytes(beside, (dump_json(self.to_dict(), indent=2) + "\n").encode())
        if place == beside:
            return (place,)
        disk.write_bytes(place, self.to_html().encode("utf-8", "backslashreplace"))
        return place, beside


def make_record(
    model: Model, explainer: Explainer, example: Example, texts: Sequence[Example] = (), *, budget: int
) -> DecisionRecord:
    """Explain a prediction, look for what flips it, and measure how far the explanation can be trusted.

    Args:
        model: a classifier of texts.
        explainer: any method.
        example: what was decided on.
        texts: further texts on which the method is measured; none measures it on this text alone.
        budget: plain passes of the flip search.
    """
    flip = find_flip(model, example, budget=budget)  # first: it refuses what has no classes
    (explanation,) = explainer.explain(model, [example])
    measured = explainer.explain(model, texts) if texts else [explanation]
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return DecisionRecord(explanation, flip, measure_trust(model, measured), made)
