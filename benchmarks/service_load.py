"""Clients that put a service under load: one request after the other, or at fixed times."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

Mix = Sequence[tuple[str, str, Mapping[str, Any]]]
"""Kinds of requests: name, path, and what the body has besides the text; one stands there several times to be sent
more often."""


@dataclass
class Load:
    """What was answered, by kind of request.

    Attributes:
        seconds: of each answer, by kind where it was computed, by status where it was not.
        statuses: how often each came.
        returned: of refused requests that came back at their time, how often each status came.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)
    returned: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, status: int, seconds: float, *, again: bool = False) -> None:
        """Count an answer."""
        with self.lock:
            (self.returned if again else self.statuses)[str(status)] += 1
            self.seconds.setdefault(kind if status == 200 else str(status), []).append(seconds)

    def record(self) -> dict[str, Any]:
        """Counts, and times in milliseconds."""
        times = {kind: percentiles(values) for kind, values in sorted(self.seconds.items())}
        counts = {"statuses": dict(sorted(self.statuses.items())), "returned": dict(sorted(self.returned.items()))}
        return {**counts, "milliseconds": times}


class Sender:
    """A client with a connection of its own that stays open.

    Args:
        url: of the service.
        load: where answers are counted.
    """

    def __init__(self, url: str, load: Load) -> None:
        place = urlsplit(url)
        self.load = load
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=120)

    def send(self, kind: str, path: str, body: Mapping[str, Any], ticket: str | None = None) -> dict[str, Any]:
        """Send and count; the error where the service was full, else nothing.

        Args:
            kind: of the request.
            path: on the service.
            body: plain values.
            ticket: of an earlier refusal, where the request comes back.
        """
        headers = {"Content-Type": "application/json"} | ({"Retry-Ticket": ticket} if ticket else {})
        start = time.monotonic()
        try:
            self._connection.request("POST", path, json.dumps(body).encode(), headers)
            response = self._connection.getresponse()
            status, text = response.status, response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request opens it again
            status, text = 0, b""
        self.load.add(kind, status, time.monotonic() - start, again=ticket is not None)
        return dict(json.loads(text)["error"]) if status == 429 else {}


def closed_loop(url: str, seconds: float, clients: int, mix: Mix, texts: Sequence[str]) -> Load:
    """Clients that send one request after the other, and wait as long as they are told to where the service is full."""
    load, end = Load(), time.monotonic() + seconds

    def client(number: int) -> None:
        draw, sender = random.Random(number), Sender(url, load)
        while time.monotonic() < end:
            kind, path, body = draw.choice(mix)
            refused = sender.send(kind, path, {"inputs": [draw.choice(texts)], **body})
            if refused:
                time.sleep(min(float(refused["retry_after"]), max(0.0, end - time.monotonic())))

    in_threads([lambda number=number: client(number) for number in range(clients)])  # type: ignore[misc]
    return load


def open_loop(url: str, rate: float, seconds: float, mix: Mix, texts: Sequence[str]) -> Load:
    """Requests at fixed times, whatever became of those before; a refused one comes back once, at its time."""
    load, start = Load(), time.monotonic()
    kind, path, body = mix[0]

    def request(number: int) -> None:
        sender, text = Sender(url, load), texts[number % len(texts)]
        time.sleep(max(0.0, start + number / rate - time.monotonic()))
        refused = sender.send(kind, path, {"inputs": [text], **body})
        if refused:
            time.sleep(float(refused["retry_after"]))
            Sender(url, load).send(kind, path, {"inputs": [text], **body}, str(refused.get("ticket", "")))

    in_threads([lambda number=number: request(number) for number in range(max(4, int(rate * seconds)))])  # type: ignore[misc]
    return load


def in_threads(works: Sequence[Callable[[], None]]) -> None:
    """Do all at the same time."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """How many, and percentiles in milliseconds."""
    values = [round(1000 * float(value), 1) for value in np.percentile(seconds, (50, 95, 99))]
    return {"count": float(len(seconds)), "p50": values[0], "p95": values[1], "p99": values[2]}
