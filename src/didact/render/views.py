"""Explanations shown, saved, and as a table of numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from didact import disk
from didact.errors import InputError
from didact.render import notebook
from didact.render.formats import encoded
from didact.settings import checked, shown
from didact.types import Explanation, Span

if TYPE_CHECKING:
    import pandas


def show(explanations: Explanation | Sequence[Explanation]) -> None:
    """Draw explanations in the notebook or the terminal; those of one text stand side by side."""
    several = _listed(explanations)
    if not notebook.display(several):
        from didact.render.terminal import show_in_terminal

        show_in_terminal(several)


@checked
def save(explanations: Explanation | Sequence[Explanation], path: str | Path) -> Path:
    """Write explanations as .json, .html, .tex, .svg or .txt, or one of an image as .png, by the file's ending."""
    several = _listed(explanations)
    place = Path(path)
    disk.write_bytes(place, encoded(several, place.suffix.removeprefix(".") or "json"))
    return place


def to_dataframe(explanations: Explanation | Sequence[Explanation]) -> pandas.DataFrame:
    """A row per unit of every explanation, as a pandas DataFrame.

    Columns: "example" (its number in the order given; several explanations of one example share it), "id" where
    examples have one, "method", "target", "scale", "predicted", "probability" of the target (missing where there is
    none), "unit" (its number), "text", "field", the place ("start" and "end", or the corners of a box), "score" and
    "error" (missing where the method estimates none).
    """
    several = _listed(explanations)
    try:
        import pandas
    except ImportError:
        raise InputError("to_dataframe needs the library pandas: pip install 'didact[frames]'") from None
    numbers: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    for explanation in several:
        number = numbers.setdefault(explanation.example.fingerprint, len(numbers))
        rows += [{"example": number, **row} for row in _rows(explanation)]
    if not any(explanation.example.id is not None for explanation in several):
        rows = [{name: value for name, value in row.items() if name != "id"} for row in rows]
    return pandas.DataFrame(rows)


def _rows(explanation: Explanation) -> list[dict[str, Any]]:
    target, shares = explanation.target, explanation.prediction.probabilities
    about = {
        "id": explanation.example.id,
        "method": explanation.method,
        "target": target.name,
        "scale": target.scale,
        "predicted": explanation.prediction.answer if shares else explanation.prediction.outputs[0],
        "probability": shares[target.index] if shares else None,
    }
    errors = explanation.errors or [None] * len(explanation.scores)
    units = zip(explanation.units.texts, explanation.units.regions, explanation.scores, errors, strict=True)
    return [
        {**about, "unit": number, "text": text, **_place(region), "score": score, "error": error}
        for number, (text, region, score, error) in enumerate(units)
    ]


def _place(region: Any) -> dict[str, int]:
    """Where a unit stands: characters of a text, or a box round a part of an image."""
    if isinstance(region, Span):
        return {"field": region.field, "start": region.start, "end": region.end}
    corners = dataclasses.asdict(getattr(region, "bounds", region))
    return {name: corners[name] for name in ("field", "left", "top", "right", "bottom")}


def _listed(given: object) -> list[Explanation]:
    """One explanation or several as a list; anything else is refused."""
    several = [given] if isinstance(given, Explanation) else given
    if not isinstance(several, Sequence) or not all(isinstance(each, Explanation) for each in several):
        raise InputError(f"an explanation or a list of explanations is needed, got {shown(given)}")
    return list(several)
