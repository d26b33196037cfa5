"""Results on held-out texts as flat numbers, written to and read from the configuration of an explainer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar, Self, cast

from didact.errors import FormatError


@dataclasses.dataclass(frozen=True)
class HeldOutNumbers:
    """A result whose fields are numbers; those annotated as ``int`` are counts."""

    title: ClassVar[str] = "a result on held-out texts"

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values; None for NaN."""
        values = dataclasses.asdict(self)
        return {name: None if math.isnan(value) else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """Inverse of ``to_dict``."""
        try:
            values = {item.name: data[item.name] for item in dataclasses.fields(cls)}
            numbers = {name: math.nan if v is None else float(cast("float", v)) for name, v in values.items()}
            counts = [item.name for item in dataclasses.fields(cls) if item.type == "int"]
            return cls(**numbers | {name: int(numbers[name]) for name in counts})
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise FormatError(f"not {cls.title}: {problem}") from None


def ends(low: float, high: float, digits: int = 2) -> str:
    """Both ends of an interval for a sentence."""
    return "no interval" if math.isnan(low) else f"{low:.{digits}f}, {high:.{digits}f}"
