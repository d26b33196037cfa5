"""Hostile requests to the pages of a study: none may fail, run as markup, or store what does not fit its page.

Usage:
    python -m fuzz.study_pages --seed 0 --requests 10000 --out docs/results/study/hostile.json

The pages run in this process without a socket. Half of the requests carry a rater's session and stamp, so that some are
answers that count. A request is made from the seed and its number alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote_from_bytes, urlencode

import httpx2

from didact.service.config import ServiceConfig, ServiceLimits
from didact.service.studies.app import create_study_app
from didact.study import pages
from didact.study.design import StudyDesign
from didact.study.material import StudyMaterial
from didact.study.responses import checked
from didact.study.rows import read_answers
from didact.study.session import CODES, Study
from didact.study.simulated import made_up_explanations
from fuzz.service import SECONDS, HostileRequest, Tally

KEY = "the-key-of-the-owner"
MARKUP = "<script>alert(1)</script>"
PATHS = ("/join", "/page", "/page", "/page", "/delete", "/pause", "/owner", "/owner/invite", "/owner/out")
ODD_PATHS = (
    "/page?again=x",
    "/?code=%ff",
    "/owner/export/answers.",
    "/owner/export/answers.%00",
    "//",
    "/assets/%2e%2e/app.py",
)
VALUES = (
    "",
    "yes",
    "no",
    "next",
    "1",
    "2",
    "3",
    "0",
    "-1",
    "9" * 400,
    "NaN",
    "maybe",
    MARKUP,
    "\x00",
    "😀" * 50,
    "x" * 3000,
)
FIELDS = ("answer", "rank-A", "rank-B", "rank-C", "rank-", "rank-__class__", "code", "key", "raters", "sure", MARKUP)
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Session:
    """A rater's cookie, and the stamp of the rater's forms."""

    cookie: str
    stamp: str


def main() -> int:
    """Send the requests; exit 1 where any failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        study = hostile_study(Path(place))
        tally = asyncio.run(send_some(study, options.seed, options.requests))
        stored = len(read_answers(study))
    record = {
        "command": f"python -m fuzz.study_pages --seed {options.seed} --requests {options.requests}",
        "requests": sum(tally.statuses.values()) + tally.unanswered,
        "unanswered": tally.unanswered,
        "slowest_seconds": round(tally.slowest, 2),
        "statuses": {str(status): count for status, count in sorted(tally.statuses.items())},
        "answers stored": stored,
        "failures": tally.failures,
    }
    print(json.dumps(record, indent=1))
    if options.out is not None:
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if tally.failures else 0


def hostile_study(folder: Path) -> Study:
    """A study that many raters can join."""
    design = StudyDesign(protocol="rank", explainers=("lime", "attention", "random"), items=6, repeats=1, raters=40)
    explained = made_up_explanations(("lime", "attention"), 12)
    return Study.create(folder / "study", design, StudyMaterial.chosen(explained, design))


async def send_some(study: Study, seed: int, requests: int) -> Tally:
    """Send requests, eight at a time; then look at what is stored."""
    tally = Tally()
    app = create_study_app(study, ServiceConfig(token=KEY, limits=ServiceLimits(body=20_000)), lambda results: "")
    transport = httpx2.ASGITransport(app=app)
    waiting = iter(range(requests))
    tokens = [_agreed(study, code) for code in (study.folder / CODES).read_text(encoding="utf-8").split()]
    sessions = [Session(f"{app.state.site.cookies.rater}={token}", study.stamp(token)) for token in tokens]

    async def sender() -> None:
        for number in waiting:
            client = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400")  # without old cookies
            await _send(client, tally, number, hostile(seed, number, sessions))

    async with app.router.lifespan_context(app):
        await asyncio.gather(*(sender() for _ in range(8)))
    tally.failures += [(-1, problem) for problem in faults(study)]
    return tally


def hostile(seed: int, number: int, sessions: list[Session]) -> HostileRequest:
    """A request from the seed and its number."""
    draw = random.Random(f"{seed}:{number}")
    headers = {
        "content-type": FORM if draw.random() < 0.95 else "text/plain",
        "accept": draw.choice(("text/html", "*/*")),
    }
    fields = {draw.choice(FIELDS): draw.choice(VALUES) for _ in range(draw.randrange(5))}
    if draw.random() < 0.5:
        session = draw.choice(sessions)
        headers["cookie"] = session.cookie
        fields |= {"stamp": session.stamp, "page": f"p{draw.randrange(6):03d}"}
        if draw.random() < 0.5:
            fields |= {f"rank-{letter}": str(draw.randrange(1, 5)) for letter in "ABC"}
    if draw.random() < 0.1:
        headers |= draw.choice(
            ({"host": "evil.example"}, {"origin": "null"}, {"authorization": "Bearer x"}, {"cookie": "a=b;" * 50})
        )
    if draw.random() < 0.15:
        return HostileRequest(
            draw.choice(("GET", "POST", "PUT", "HEAD")), draw.choice((*ODD_PATHS, *PATHS)), headers, b""
        )
    return HostileRequest("POST", draw.choice(PATHS), headers, _damaged(draw, urlencode(fields).encode()))


def faults(study: Study) -> list[str]:
    """Answers that are stored twice, or that do not fit their pages."""
    rows = read_answers(study)
    problems = (
        [f"{len(rows)} answers to fewer pages"] if len({(row.rater, row.page) for row in rows}) < len(rows) else []
    )
    raters = study.raters()
    for row in rows:
        page = pages.shown(raters[row.rater][1][row.page], study.design, study.material)
        if checked(page, row.answer) != row.answer:
            problems.append(f"page {row.page} of {row.rater} has the answer {row.answer!r:.80}")
    return problems


def _agreed(study: Study, code: str) -> str:
    """The session of a rater who has read the instructions."""
    token = study.join(code).token
    study.answer(token, "p000", "yes")
    study.answer(token, "p001", "next")
    return token


def _damaged(draw: random.Random, body: bytes) -> bytes:
    kind = draw.randrange(20)
    if kind == 0:
        return draw.randbytes(30)
    if kind == 1:
        return body + b"&answer=" + quote_from_bytes(draw.randbytes(9)).encode()
    if kind == 2:
        return body + b"&x=1" * draw.choice((90, 20_000))
    return body + b"&answer=yes" if kind == 3 else body


async def _send(client: httpx2.AsyncClient, tally: Tally, number: int, request: HostileRequest) -> None:
    start, problem = time.monotonic(), ""
    try:
        sent = client.request(request.verb, request.path, headers=request.headers, content=request.body)
        response = await asyncio.wait_for(sent, SECONDS)
        tally.statuses[response.status_code] += 1
        if response.status_code >= 500 or "<script" in response.text:
            problem = f"status {response.status_code}: {response.text[:200]}"
    except Exception as raised:
        problem = f"{type(raised).__name__}: {raised}"
        tally.unanswered += 1
    tally.slowest = max(tally.slowest, time.monotonic() - start)
    if problem:
        tally.failures.append((number, problem))


if __name__ == "__main__":
    raise SystemExit(main())
