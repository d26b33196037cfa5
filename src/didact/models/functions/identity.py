"""What identifies a plain function: its code and state as far as they can be looked into, and what it answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from didact.code_identity import Inventory
from didact.errors import ModelError
from didact.models.functions.inputs import TEXTS, FunctionInputs
from didact.types import Floats

PROBES = TEXTS
"""Texts whose answers are part of a function's identity."""

DECIMALS = 3
"""Of the answers that count: far above the rounding of another machine."""


@dataclass(frozen=True)
class _Known:
    """What was found at the last look.

    Attributes:
        state: hash of code and state.
        answers: to the probes.
        opaque: parts that cannot be looked into.
    """

    state: str
    answers: str
    opaque: tuple[str, ...]


class FunctionIdentity:
    """Looks at a function when asked, and asks it again when its code or state changed.

    A function is called with a few inputs and then with one that it has never seen. What this last call changes, such
    as a counter or a cache of answers, is left out of its identity; what the first one made it load is part of it.

    Args:
        function: the user's.
        call: evaluates it; raises ``ModelError`` where it fails.
        view: the inputs that it takes.
    """

    def __init__(self, function: object, call: Callable[[Sequence[Hashable]], Floats], view: FunctionInputs) -> None:
        self.function = function
        self.call = call
        self.view = view
        self.changing: frozenset[str] = frozenset()
        self._known: _Known | None = None

    def digest(self) -> str:
        """Hash of code, state and answers."""
        known = self._look()
        return hashlib.sha256(f"{known.state} {known.answers}".encode()).hexdigest()

    @property
    def limits(self) -> str:
        """What the identity cannot see, as a clause; empty where code and state are known completely."""
        opaque = self._look().opaque
        if not opaque:
            return ""
        probes = f"{len(self.view.probes)} {self.view.kind}s"
        return f"identified by its answers to {probes} where it cannot be looked into: {', '.join(opaque)}"

    def _look(self) -> _Known:
        now = self._inventory()
        if self._known is None or now.digest(self.changing) != self._known.state:
            answers = self._answers()
            before = self._inventory().parts
            self._tried([self.view.fresh()])
            now = self._inventory()
            named = before.keys() | now.parts.keys()
            self.changing |= {name for name in named if before.get(name) != now.parts.get(name)}
            opaque = tuple(f"{name} ({kind})" for name, kind in now.opaque.items())
            self._known = _Known(now.digest(self.changing), answers, opaque)
        return self._known

    def _inventory(self) -> Inventory:
        return Inventory(self.function, str(getattr(self.function, "__name__", type(self.function).__name__)))

    def _answers(self) -> str:
        return json.dumps(self._tried(self.view.probes))

    def _tried(self, variants: Sequence[Hashable]) -> object:
        """Rounded answers; of a function that cannot answer these inputs, that it cannot."""
        try:
            return [[round(float(share), DECIMALS) + 0.0 for share in row] for row in self.call(variants)]
        except ModelError as problem:
            return type(problem.__cause__ or problem).__name__
