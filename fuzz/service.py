"""Hostile requests to a service: none may be answered with 500 or more, or not at all.

Usage:
    python -m fuzz.service --seed 0 --requests 10000 --out docs/results/service/hostile.json

The service runs in this process without a socket, with tiny random models of texts and images, and with jobs, which it
computes meanwhile. A request is made from the seed and its number alone, so that ``--only NUMBER`` makes it again.
Deadlines below five seconds are not among them: 504 is what they are meant to bring.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from fastapi import FastAPI

from didact.attribution.base import ATTRIBUTIONS
from didact.service.app import create_app
from didact.service.config import ServedModel, ServiceConfig, ServiceLimits
from didact.testing.tiny import tiny_image_model, tiny_model

LIMITS = ServiceLimits(
    body=50_000,
    inputs=6,
    characters=1_500,
    pixels=10_000,
    request_cost=3_000,
    queued_seconds=1e6,
    job_inputs=8,
    job_cost=3_000,
    jobs=100,
)
SECONDS = 30.0
"""An answer that takes longer counts as none."""
WORDS = ("film", "dull", "warm", "plot", "heart", "<script>alert(1)</script>", "\u202e", "'; DROP TABLE jobs;--", "😀")
BROKEN = ("\x00", "\ud800", "{{7*7}}", "", " ")
VALUES: tuple[object, ...] = (None, True, -1, 0, 2, 10**30, 1e308, float("nan"), float("-inf"), "", "x", [], {}, [[]])
PAIRS: tuple[object, ...] = ("all", ["positive", "negative"], [0, 0], [None, 1], ["positive"], [[0], 1], [10**30, 0])
SPANS: tuple[object, ...] = ({"start": 0, "end": 3}, {"start": -1, "end": 10**20})
PATHS = ("/v1/explain", "/v1/predict", "/v1/compare", "/v1/cost", "/v1/explain/stream", "/v1/jobs")
ODD_PATHS = (
    "/v1/jobs/x?results=maybe",
    "/v1/jobs/x' OR 1=1",
    "/v1/jobs/../../etc/passwd",
    "/v1/jobs/%00",
    "/v1/methods?model=%ff",
    "//",
    "/v1/explain/",
    "/..%2f..%2f",
)


@dataclass(frozen=True)
class HostileRequest:
    """What is sent."""

    verb: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Tally:
    """What came back, and the requests that must not be answered so."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    slowest: float = 0.0
    unanswered: int = 0


def main() -> int:
    """Send the requests; exit 1 where any failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no request after so many (default: 60)")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="send this one alone and print the answer")
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.only is not None:
        print(hostile(options.seed, options.only), asyncio.run(send_some(options.seed, [options.only])))
        return 0
    tally = asyncio.run(send_some(options.seed, range(options.requests), options.minutes))
    sent = sum(tally.statuses.values()) + tally.unanswered
    command = f"python -m fuzz.service --seed {options.seed} --requests {options.requests}"
    record = {"command": command, "seed": options.seed, "requests": sent, "unanswered": tally.unanswered}
    record |= {"slowest_seconds": round(tally.slowest, 2)}
    record |= {"statuses": {str(status): count for status, count in sorted(tally.statuses.items())}}
    record |= {"failures": tally.failures}
    print(json.dumps(record, indent=1))
    if options.out is not None:
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if tally.failures else 0


async def send_some(seed: int, numbers: range | list[int], minutes: float = 60.0) -> Tally:
    """Send requests, sixteen at a time, and begin none after so many minutes."""
    tally = Tally()
    end = time.monotonic() + 60 * minutes
    waiting = iter(numbers)
    async with _client() as client:

        async def sender() -> None:
            for number in waiting:
                if time.monotonic() > end:
                    return
                await _send(client, tally, number, hostile(seed, number))

        await asyncio.gather(*(sender() for _ in range(16)))
    return tally


def hostile(seed: int, number: int) -> HostileRequest:
    """A request from the seed and its number."""
    draw = random.Random(f"{seed}:{number}")
    headers = {"content-type": "application/json"}
    if draw.random() < 0.1:
        headers |= draw.choice(_HEADERS)
    if draw.random() < 0.1:
        return HostileRequest(
            draw.choice(("GET", "PUT", "DELETE", "POST", "HEAD")), draw.choice(ODD_PATHS), headers, b""
        )
    path = draw.choice(PATHS)
    body = _encoded(_body(draw, path))
    return HostileRequest("POST" if draw.random() < 0.97 else "PATCH", path, headers, _damaged(draw, body))


_HEADERS: list[dict[str, str]] = [
    {"host": "evil.example"},
    {"origin": "http://evil.example"},
    {"content-type": "text/plain"},
    {"content-type": "application/json; charset=utf-16"},
    {"content-length": "-5"},
    {"authorization": "Bearer x"},
    {"x-forwarded-for": "::1" * 500},
    {"retry-ticket": "x" * 5_000},
]


def _body(draw: random.Random, path: str) -> dict[str, object]:
    many = draw.choice((1, 1, 1, 1, 1, 1, 2, 5, 7, 40))
    body: dict[str, object] = {"inputs": [_input(draw) for _ in range(many)]}
    if path == "/v1/compare":
        body = {"input": _input(draw), "methods": [_method(draw) for _ in range(draw.choice((1, 2, 14)))]}
    elif path != "/v1/predict" and draw.random() < 0.8:
        body["method"] = _method(draw)
        if draw.random() < 0.5:
            body["settings"] = {_setting(draw, str(body["method"])): draw.choice(VALUES)}
    if draw.random() < 0.3:
        body["model"] = draw.choice(("texts", "images", "../x", 5, None))
    if draw.random() < 0.3:
        body["target"] = draw.choice((*VALUES, "positive", 1, *SPANS, *PAIRS))
    if draw.random() < 0.1:
        body[draw.choice(("seconds", "explainer", "trust_remote_code", "settings", "inputs"))] = draw.choice(VALUES)
    return body


def _input(draw: random.Random) -> object:
    kind = draw.randrange(10)
    if kind < 5:
        return " ".join(draw.choice(WORDS) for _ in range(draw.choice((1, 3, 9, 9, 9, 400))))
    if kind == 5:
        return f"{draw.choice(WORDS)} {draw.choice(BROKEN)}"
    if kind == 6:
        return {"text": draw.choice(WORDS), "text_pair": draw.choice((*WORDS, None))}
    if kind == 7:
        return {"question": draw.choice(WORDS), "passage": draw.choice(WORDS)}
    if kind == 8:
        return {"image": base64.b64encode(draw.randbytes(draw.choice((0, 20, 900)))).decode()[: draw.choice((5, 2000))]}
    return draw.choice(VALUES)


def _method(draw: random.Random) -> object:
    return draw.choice(ATTRIBUTIONS.names()) if draw.random() < 0.9 else draw.choice((*VALUES, "../../x", "__init__"))


def _setting(draw: random.Random, method: str) -> str:
    known: tuple[str, ...] = ("level", "scale", "nonsense", "\ud800")
    if method in ATTRIBUTIONS.names():
        known += tuple(ATTRIBUTIONS.get(method).__dataclass_fields__)
    return draw.choice(known)


def _encoded(body: object) -> bytes:
    return json.dumps(body).encode()


def _damaged(draw: random.Random, body: bytes) -> bytes:
    """Mostly as it is; else cut, with other bytes, nested deeply, or far too long."""
    kind = draw.randrange(20)
    if kind == 0:
        return body[: draw.randrange(len(body))]
    if kind == 1:
        place = draw.randrange(len(body))
        return body[:place] + draw.randbytes(3) + body[place:]
    if kind == 2:
        return b"[" * 20_000
    if kind == 3:
        return body + b" " * 60_000
    return body


async def _send(client: httpx2.AsyncClient, tally: Tally, number: int, request: HostileRequest) -> None:
    start = time.monotonic()
    try:
        sent = client.request(request.verb, request.path, headers=request.headers, content=request.body)
        response = await asyncio.wait_for(sent, SECONDS)
        tally.statuses[response.status_code] += 1
        problem = _wrong(response)
    except TimeoutError:
        problem = f"no answer within {SECONDS:g} seconds"
        tally.unanswered += 1
    except Exception as raised:
        problem = f"{type(raised).__name__}: {raised}"
        tally.unanswered += 1
    tally.slowest = max(tally.slowest, time.monotonic() - start)
    if problem:
        tally.failures.append((number, problem))


def _wrong(response: httpx2.Response) -> str:
    """What is wrong with an answer; empty where nothing is."""
    if response.status_code >= 500:
        return f"status {response.status_code}: {response.text[:200]}"
    if response.status_code >= 400 and response.request.method != "HEAD":
        error = json.loads(response.text).get("error", {})
        if error.get("status") != response.status_code or not error.get("message"):
            return f"status {response.status_code} in another shape: {response.text[:200]}"
    if "event: error" in response.text and '"status": 5' in response.text:
        return f"an event with a failure: {response.text[-200:]}"
    return ""


@contextlib.asynccontextmanager
async def _client() -> AsyncIterator[httpx2.AsyncClient]:
    models = (ServedModel("texts", tiny_model()), ServedModel("images", tiny_image_model()))
    with tempfile.TemporaryDirectory() as place:
        app = create_app(ServiceConfig(models=models, limits=LIMITS, jobs=Path(place) / "jobs.db"))
        async with _reached(app) as client:
            yield client


@contextlib.asynccontextmanager
async def _reached(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8300", timeout=60) as client,
    ):
        while (await client.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.05)
        yield client


if __name__ == "__main__":
    raise SystemExit(main())
