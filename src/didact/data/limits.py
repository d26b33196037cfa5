"""How much one file may hold, against files that unpack to more than the memory does.

A gigabyte of text and two million lines or rows by default; the environment (or ``--max-bytes`` and ``--max-texts`` on
the command line) sets other limits. What has to be in memory at once, a line or a whole .json file, may have an eighth
of the bytes. All is counted while a file is read, so that one that is too large costs no more than the limit.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, TypeVar

from didact.errors import InputError, ParameterError

MAX_BYTES, MAX_TEXTS = "DIDACT_MAX_BYTES", "DIDACT_MAX_TEXTS"
"""Environment variables that set the limits."""

_AT_ONCE = 8
T = TypeVar("T")


@dataclass(frozen=True)
class ReadLimits:
    """The most that is read from one file.

    Attributes:
        bytes: after unpacking.
        texts: lines or rows, blank ones included.
    """

    bytes: int = 2**30
    texts: int = 2_000_000

    @classmethod
    def current(cls) -> ReadLimits:
        """The limits that the environment sets, and the usual ones where it sets none."""
        return cls(_setting(MAX_BYTES, cls.bytes), _setting(MAX_TEXTS, cls.texts))


class ReadGauge:
    """Counts what is read from one source, and refuses to go on above the limits.

    Args:
        source: its name, for the message.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._limits = ReadLimits.current()
        self._bytes = self._texts = 0

    def add_bytes(self, count: int) -> None:
        """Count bytes that were unpacked."""
        self._bytes += count
        if self._bytes > self._limits.bytes:
            raise InputError(
                f"{self.source} holds more than {self._limits.bytes:,} bytes unpacked; if that is as it should be, "
                f"raise the limit with {MAX_BYTES} or --max-bytes"
            )

    def texts(self, rows: Iterable[T]) -> Iterator[T]:
        """The same rows or lines, counted."""
        for row in rows:
            self._texts += 1
            if self._texts > self._limits.texts:
                raise InputError(
                    f"{self.source} holds more than {self._limits.texts:,} lines or rows; if that is as it should be, "
                    f"raise the limit with {MAX_TEXTS} or --max-texts"
                )
            yield row

    def lines(self, stream: IO[str]) -> Iterator[str]:
        """The lines of a stream, none of them too long to be held."""
        longest = max(1, self._limits.bytes // _AT_ONCE)
        while line := stream.readline(longest + 1):
            if len(line) > longest:
                raise self._too_large("a line", longest)
            yield line

    def whole(self, stream: IO[str]) -> str:
        """All of a stream at once."""
        most = max(1, self._limits.bytes // _AT_ONCE)
        text = stream.read(most + 1)
        if len(text) > most:
            raise self._too_large("a .json file", most)
        return text

    def _too_large(self, what: str, most: int) -> InputError:
        return InputError(
            f"{self.source}: {what} of more than {most:,} characters is too large to be read at once; write one text "
            f"per line, or raise the limit with {MAX_BYTES} or --max-bytes"
        )


class CountedBytes(io.RawIOBase):
    """A binary stream whose bytes are counted as they are read."""

    def __init__(self, stream: io.RawIOBase | io.BufferedIOBase, gauge: ReadGauge) -> None:
        self._stream = stream
        self._gauge = gauge

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override] # memoryview is what is given
        """Read some bytes, and count them."""
        count = self._stream.readinto(buffer) or 0
        self._gauge.add_bytes(count)
        return count


def counted_text(
    stream: io.RawIOBase | io.BufferedIOBase, gauge: ReadGauge, newline: str | None = None
) -> io.TextIOWrapper:
    """A counted binary stream as UTF-8 text, with or without a mark at its beginning."""
    buffered = io.BufferedReader(CountedBytes(stream, gauge), buffer_size=2**16)
    return io.TextIOWrapper(buffered, encoding="utf-8-sig", newline=newline)


def _setting(variable: str, usual: int) -> int:
    given = os.environ.get(variable, "")
    if not given:
        return usual
    if not (given.isascii() and given.isdigit() and len(given) <= 18 and int(given)):
        raise ParameterError(f"{variable} must be a whole number, at least 1, got {given!r:.60}")
    return int(given)
