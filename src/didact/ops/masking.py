"""How an absent unit is shown to the model: the absence operators, applied to token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from didact.errors import ParameterError
from didact.types import Example, Keep, Units

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

KINDS = {
    "mask": "replace by the tokenizer's mask token",
    "token:X": "replace by the token (or, for a black box, the string) X",
    "delete": "take out and close the gap, as if it had not been written",
    "drop": "take out but leave the others at their positions, as attention mask 0 does",
    "blend": "mix the embedding with the mask token's; keep masks may be weights in [0, 1]",
    "sample:SEED:FILE": "replace by what is drawn for each variant from a text file, or from common words without one",
}


COLOURS = {
    "mean": "paint over with the mean colour of the image",
    "zero": "paint over with 0 in the model's input, which is mostly the mean colour of its training images",
    "blur:S": "show blurred by S pixels of the model's input, or by the size of a patch without S",
}
"""Operators for parts of images."""


@dataclass(frozen=True)
class Absence:
    """A parsed absence operator.

    Attributes:
        kind: what is done.
        token: what stands for an absent unit ("token"), the file that replacements are drawn from ("sample"), or the
            pixels to blur by ("blur").
        seed: decides the draws ("sample").
    """

    kind: str
    token: str | None = None
    seed: int = 0

    @classmethod
    def parse(cls, text: str, allowed: Iterable[str] = (*KINDS, *COLOURS)) -> Absence:
        """Read ``mask``, ``token:X``, ``delete``, ``drop``, ``blend``, ``sample``, ``sample:7``, ``sample:7:a.txt``.

        Of images ``mean``, ``zero``, ``blur`` and ``blur:8``. What is not among the allowed ones, which are named as in
        ``KINDS`` and ``COLOURS``, is refused.
        """
        menu = list(allowed)
        kind, _, rest = text.partition(":")
        if kind in [name.partition(":")[0] for name in menu]:
            seed, _, file = rest.partition(":")
            if kind == "token" and rest:
                return cls("token", rest)
            if kind == "sample" and (seed.isdecimal() or text == "sample"):
                return cls("sample", file or None, int(seed or 0))
            if kind == "blur" and (text == "blur" or _is_width(rest)):
                return cls("blur", rest or None)
            if text in menu and ":" not in text:
                return cls(kind)
        raise ParameterError(f"unknown perturbation {text!r}; allowed: {', '.join(menu)}")

    @property
    def removes(self) -> bool:
        """Whether absent tokens are physically taken out."""
        return self.kind in ("delete", "drop")


def _is_width(text: str) -> bool:
    """Whether an image can be blurred by this."""
    try:
        return 0 < float(text) < 1e6
    except ValueError:
        return False


def unit_of_position(units: Units, length: int) -> Ints:
    """Per token position the unit that covers it, -1 for what is always present."""
    owner: Ints = units_of_positions([units], length)[0]
    return owner


def units_of_positions(units: Sequence[Units], length: int) -> Ints:
    """The same for several examples, a row each: (examples, positions)."""
    rows = [[-1] * length for _ in units]  # lists are quicker than arrays here: most units have a position or two
    for row, own in zip(rows, units, strict=True):
        for number, positions in enumerate(own.positions):
            for position in positions:
                row[position] = number
    return np.array(rows, dtype=np.int64).reshape(len(units), length)


def present_tokens(keep: Keep, owner: Ints) -> Keep:
    """Spread keep masks over tokens: (variants, units) -> (variants, tokens); uncovered positions stay present."""
    padded = np.concatenate([keep, np.ones((len(keep), 1), dtype=keep.dtype)], axis=1)
    return padded[:, owner]  # owner -1 picks the added column of ones


def replace(ids: Ints, present: Bools, token_id: int) -> Ints:
    """Put ``token_id`` where a token is absent: (variants, tokens)."""
    return np.where(present, ids, token_id)


def draws(operator: Absence, example: Example, rows: Ints, places: int, choices: int) -> Ints:
    """Which of ``choices`` stands at each place of a variant, by seed, text and row number: (rows, places)."""
    key = [operator.seed, int(example.fingerprint, 16)]
    drawn = [np.random.default_rng([*key, int(row)]).integers(choices, size=places) for row in rows]
    return np.array(drawn, dtype=np.int64).reshape(len(rows), places)


def to_front(present: Bools, width: int) -> tuple[Bools, Ints]:
    """Shift the present entries of each row to the front: which of ``width`` places they fill, and with which entries.

    ``filled`` (variants, width) and ``taken`` fit together: ``out[filled] = row[taken]`` moves a row's entries.
    """
    filled: Bools = np.arange(width) < present.sum(axis=1, keepdims=True)
    return filled, np.nonzero(present)[1]


def unique_rows(keep: Keep) -> tuple[Keep, Ints]:
    """Distinct keep masks in order of first appearance, and for every row which of them it is."""
    packed = np.packbits(keep, axis=1) if keep.dtype == np.bool_ else np.ascontiguousarray(keep)
    keys = packed.view([("", np.void, packed.shape[1] * packed.dtype.itemsize)]).ravel() if packed.shape[1] else None
    if keys is None:
        return keep[:1], np.zeros(len(keep), dtype=np.int64)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return keep[first[order]], rank[inverse.ravel()]


def names_file(operator: str) -> bool:
    """Whether an absence operator reads a file of this machine, as ``sample:7:a.txt`` does."""
    kind, _, rest = operator.partition(":")
    return kind == "sample" and bool(rest.partition(":")[2])
