"""Attention over a padded batch: of every position to every other, or of each word to the words near it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import handle_torch_function, has_torch_function


@dataclass(frozen=True, eq=False)
class Sight:
    """What each position may look at.

    The first positions are seen by all and see all; the others are words, and with a band each sees the words at most
    ``reach`` away. With a band, time and memory grow linearly with the length: words go in blocks of ``reach``, and a
    block is compared with itself and its two neighbours.

    Attributes:
        keys: which positions are there: (rows, 1, 1, positions).
        band: which positions the words of a block may look at: (rows * blocks, 1, reach, first + 3 reach), or None.
        first: how many positions are not words.
        reach: how far a word sees, where there is a band.
    """

    keys: Tensor
    band: Tensor | None
    first: int
    reach: int = 0

    @classmethod
    def of(cls, present: Tensor, first: int, reach: int | None) -> Sight:
        """What the words (rows, words) that are ``present`` see, ``first`` other positions in front of them."""
        words = present.shape[1]
        keys = F.pad(present, (first, 0), value=True)[:, None, None]
        if reach is None or words <= reach + 1:  # all of them are near
            return cls(keys, None, first)
        return cls(keys, _band(present, first, reach), first, reach)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, heads: int, dropout: float = 0.0) -> Tensor:
        """Mix the values, each head its part of the width: (rows, positions, width) each."""
        if self.band is None:
            return attention(q, k, v, self.keys, heads, dropout)
        q, k, v = (_in_heads(x, heads) for x in (q, k, v))
        near = self._near(q, k, v, dropout)
        if self.first:
            front = F.scaled_dot_product_attention(q[:, :, : self.first], k, v, self.keys, dropout)
            near = torch.cat([front, near], dim=2)
        return near.transpose(1, 2).flatten(2)

    def _near(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        rows, heads, positions, size = q.shape
        words = positions - self.first
        blocks = _blocks(words, self.reach)
        queries = F.pad(q[:, :, self.first :], (0, 0, 0, blocks * self.reach - words))
        queries = queries.view(rows, heads, blocks, self.reach, size).transpose(1, 2).flatten(0, 1)
        keys, values = (_neighbourhoods(x, self.first, self.reach, blocks) for x in (k, v))
        attended = F.scaled_dot_product_attention(queries, keys, values, self.band, dropout)
        attended = attended.view(rows, blocks, heads, self.reach, size).transpose(1, 2)
        return attended.reshape(rows, heads, blocks * self.reach, size)[:, :, :words]


def attention(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, heads: int, dropout: float) -> Tensor:
    """Attention of every position to those that are ``seen`` (rows, 1, 1, positions); (rows, positions, width) each.

    Like torch's own functions it can be replaced by a ``TorchFunctionMode``: an export has one node for it.
    """
    if has_torch_function((q, k, v)):
        attended: Tensor = handle_torch_function(attention, (q, k, v), q, k, v, seen, heads, dropout)
        return attended
    q, k, v = (_in_heads(x, heads) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, seen, dropout).transpose(1, 2).flatten(2)


def _in_heads(x: Tensor, heads: int) -> Tensor:
    """(rows, positions, width) -> (rows, heads, positions, size)."""
    rows, positions, width = x.shape
    return x.view(rows, positions, heads, width // heads).transpose(1, 2)


def _blocks(words: int, reach: int) -> int:
    """Room for the words and one more: a length that needs no padding would be a case of its own to export."""
    return words // reach + 1


def _band(present: Tensor, first: int, reach: int) -> Tensor:
    words = present.shape[1]
    blocks = _blocks(words, reach)
    padded = F.pad(present, (reach, reach + blocks * reach - words))
    there = padded.unfold(1, 3 * reach, reach)  # (rows, blocks, 3 reach)
    ahead = torch.arange(3 * reach, device=present.device) - reach - torch.arange(reach, device=present.device)[:, None]
    # A padding word sees itself, since a softmax over nothing is not a number.
    band = ((ahead.abs() <= reach) & there[:, :, None]) | (ahead == 0)
    return F.pad(band, (first, 0), value=True).flatten(0, 1)[:, None]


def _neighbourhoods(x: Tensor, first: int, reach: int, blocks: int) -> Tensor:
    """Per block the positions in front, its words and those of both neighbours: (rows * blocks, heads, keys, size)."""
    words = x.shape[2] - first
    padded = F.pad(x[:, :, first:], (0, 0, reach, reach + blocks * reach - words))
    near = padded.unfold(2, 3 * reach, reach).transpose(-1, -2)  # (rows, heads, blocks, 3 reach, size)
    front = x[:, :, None, :first].expand(-1, -1, blocks, -1, -1)
    return torch.cat([front, near], dim=3).transpose(1, 2).flatten(0, 1)
