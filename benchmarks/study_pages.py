"""Simulated raters use the pages of a study over HTTP while its server is killed: is every answer there exactly once?

Usage:
    python -m benchmarks.study_pages --out docs/results/study/pages.json
    python -m benchmarks.study_pages --raters 3 --items 8 --kills 1

``didact study serve`` runs as a process of its own. Raters with planted preferences read the forms of its pages and
send them as a browser does, four at a time. Some send an answer twice, some send another one from a second window. The
server is killed (SIGKILL) after shares of the answers that depend on the seed, and started again; a rater whose request
got no reply sends it again, as a person does who reloads the page. Afterwards the database is compared with what raters
gave: every answer must be there once and as it was first given, and none that was acknowledged may be missing.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

from didact.provenance import versions
from didact.study.design import StudyDesign
from didact.study.material import StudyMaterial
from didact.study.plan import planned
from didact.study.responses import Response
from didact.study.results import StudyResults, study_results
from didact.study.rows import read_answers
from didact.study.session import CODES, Study
from didact.study.simulated import PlantedRaters, made_up_explanations

EXPLAINERS = ("integrated_gradients", "lime", "attention", "random")
WORTHS = {"integrated_gradients": 0.9, "lime": 0.45, "attention": 0.0, "random": -1.35}
CLIENTS = 4
TWICE, SECOND_WINDOW = 0.2, 0.1
"""Shares of answers that are sent twice, and that are followed by another answer from a second window."""
PATIENCE = 60.0
"""Seconds that a rater waits for a server that does not answer."""


def main() -> None:
    """Run it and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", choices=("rank", "simulate"), default="rank")
    parser.add_argument("--raters", type=int, default=20)
    parser.add_argument("--items", type=int, default=60)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    command = " ".join(f"--{name} {value}" for name, value in vars(options).items() if name != "out")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        study = planned_study(Path(place), options.protocol, options.raters, options.items)
        record: dict[str, object] = {"command": f"python -m benchmarks.study_pages {command}"}
        record |= rehearse(study, options.kills, options.seed)
    record |= {
        "seconds": round(time.monotonic() - began, 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": dict(versions()),
    }
    text = json.dumps(record, indent=1, ensure_ascii=False)
    print(text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n", encoding="utf-8")


def planned_study(place: Path, protocol: str, raters: int, items: int) -> Study:
    """A study on disk whose explanations are made up."""
    design = StudyDesign(
        protocol=protocol,  # type: ignore[arg-type] # one of the choices
        explainers=EXPLAINERS,
        items=items,
        learning=min(20, items),
        repeats=min(6, items // 2),
        raters=raters,
    )
    explained = made_up_explanations(EXPLAINERS[:-1], 2 * design.needed)
    return Study.create(place / "study", design, StudyMaterial.chosen(explained, design))


def rehearse(study: Study, kills: int, seed: int) -> dict[str, object]:
    """Let all raters answer everything while the server is killed; what is stored, and what the analysis shows."""
    raters = PlantedRaters(worths=WORTHS, gains={"integrated_gradients": 0.25, "lime": 0.15}, seed=seed)
    codes = (study.folder / CODES).read_text(encoding="utf-8").split()
    expected = len(codes) * len(planned(study.design, study.material, 0, study.design.arms[0]))
    shares = np.sort(np.random.default_rng(seed).uniform(0.1, 0.9, kills)).tolist()
    sent = Sent()
    with Server(study.folder) as server, ThreadPoolExecutor(CLIENTS) as pool:
        work = [
            pool.submit(answer_all, Browser(server.port, sent), Rater(study, code, number, raters))
            for number, code in enumerate(codes)
        ]
        killed = [server.killed_at(int(share * expected), sent, work) for share in shares]
        for each in work:
            each.result()
    return {
        "raters": len(codes),
        "items": study.design.items,
        "answers acknowledged when the server was killed": killed,
        "answers expected": expected,
        **compared(study, codes, sent),
        "requests sent again for want of a reply": sent.again,
        **analysed(study_results(study, resamples=400)),
    }


@dataclass
class Sent:
    """What raters did, from all their threads.

    Attributes:
        first: by rater's number and page, the answer that was given first.
        acknowledged: those whose reply arrived.
        again: requests that were sent again because no reply came.
    """

    first: dict[tuple[int, str], Response] = field(default_factory=dict)
    acknowledged: set[tuple[int, str]] = field(default_factory=set)
    again: int = 0


class Server:
    """``didact study serve`` as a process, started again on the same port.

    Args:
        folder: of the study.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process = self._started()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *problem: object) -> None:
        self._process.kill()
        self._process.wait()

    def killed_at(self, answers: int, sent: Sent, work: Sequence[Future[None]]) -> int:
        """Wait for so many acknowledged answers, kill the server and start it again; how many there were."""
        while len(sent.acknowledged) < answers and not all(each.done() for each in work):
            time.sleep(0.002)
        self._process.kill()
        self._process.wait()
        count = len(sent.acknowledged)
        print(f"killed after {count} acknowledged answers", file=sys.stderr, flush=True)
        self._process = self._started()
        return count

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "didact", "study", "serve", str(self._folder), "--port", str(self.port)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)


class Browser:
    """Keeps cookies and follows redirects; a request without a reply is sent again.

    Args:
        port: of the server.
        sent: counts what is sent again.
    """

    def __init__(self, port: int, sent: Sent) -> None:
        self.sent = sent
        self.cookie = ""
        self.port = port

    @property
    def token(self) -> str:
        """The session in the cookie."""
        return self.cookie.partition("=")[2]

    def post(self, path: str, fields: Mapping[str, str]) -> str:
        """Send a form; the page that follows."""
        return self._opened("POST", path, urlencode(fields))

    def _opened(self, method: str, path: str, body: str = "") -> str:
        status, headers, text = self._reply(method, path, body)
        self.cookie = headers.get("Set-Cookie", self.cookie).partition(";")[0]
        if status == 303:
            return self._opened("GET", headers["Location"])
        if status != 200:
            raise SystemExit(f"{method} {path} was answered with {status}: {text[:500]}")
        return text

    def _reply(self, method: str, path: str, body: str) -> tuple[int, http.client.HTTPMessage, str]:
        end, tries = time.monotonic() + PATIENCE, 0
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if method == "POST" else {}
        headers |= {"Cookie": self.cookie} if self.cookie else {}
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            try:
                connection.request(method, path, body or None, headers)
                reply = connection.getresponse()
                return reply.status, reply.headers, reply.read().decode()
            except (OSError, http.client.HTTPException):
                if time.monotonic() > end:
                    raise
                tries += 1
                self.sent.again += tries == 1
                time.sleep(0.05)
            finally:
                connection.close()


class AnswerForm(HTMLParser):
    """The form for the answer to a page.

    Args:
        html: of the page.

    Attributes:
        fields: what it sends whatever is chosen.
        options: by field, the values to choose from; "" for a text.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.options: dict[str, list[str]] = {}
        self._inside = False
        self.feed(html)

    @property
    def page(self) -> str:
        """Id of the page; "" where there is no form."""
        return self.fields.get("page", "")

    def filled_in(self, answer: Response) -> dict[str, str]:
        """What a browser sends for an answer; a choice that the form does not have cannot be sent."""
        chosen = {f"rank-{name}": str(rank) for name, rank in answer.items()} if isinstance(answer, dict) else {}
        chosen = chosen or {"answer": str(answer)}
        for name, value in chosen.items():
            if value not in self.options[name] and self.options[name] != [""]:
                raise SystemExit(f"{name} of page {self.page} cannot be {value}, only {self.options[name]}")
        return self.fields | chosen

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what has a name inside the form."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("action") == "/page"
        if self._inside and given.get("type") == "hidden":
            self.fields[given["name"]] = given["value"]
        elif self._inside and given.get("name"):
            self.options.setdefault(given["name"], []).append(given.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        """Notice the end of the form."""
        self._inside = self._inside and tag != "form"


@dataclass(frozen=True)
class Rater:
    """One simulated rater.

    Attributes:
        study: on disk, where the rater looks up what a page does not show, to answer by planted preferences.
        code: of the invitation.
        number: decides the answers, with the seed of ``raters``.
        raters: preferences.
    """

    study: Study
    code: str
    number: int
    raters: PlantedRaters

    def answer(self, token: str, page: str) -> Response:
        """To a page."""
        plan, arm = self.study.key(token, page)
        return self.raters.respond(plan, self.number, arm, self.study.material.labels())


def answer_all(browser: Browser, rater: Rater) -> None:
    """Go through all pages, as an impatient person with two windows does."""
    rng, sent = np.random.default_rng(rater.number), browser.sent
    form = AnswerForm(browser.post("/join", {"code": rater.code}))
    while form.page:
        place = rater.number, form.page
        answer = rater.answer(browser.token, form.page)
        sent.first[place] = answer
        following = AnswerForm(browser.post("/page", form.filled_in(answer)))
        sent.acknowledged.add(place)
        if rng.random() < TWICE:
            browser.post("/page", form.filled_in(answer))
        if rng.random() < SECOND_WINDOW and isinstance(answer, dict):
            other = Browser(browser.port, sent)
            other.post("/join", {"code": rater.code})
            other.post("/page", form.filled_in(dict.fromkeys(answer, 1)))
        form = following
    rater.study.ledger.close()


def compared(study: Study, codes: Sequence[str], sent: Sent) -> dict[str, object]:
    """How many answers are stored, and how many of them doubled, changed, or acknowledged and missing."""
    numbers = {study._code_hash(code): number for number, code in enumerate(codes)}
    people = {event.rater: numbers[event.key] for event in study.ledger.reading().all("joined")}
    stored = [((people[row.rater], row.page), row.answer) for row in read_answers(study)]
    known = dict(stored)
    return {
        "answers stored": len(stored),
        "doubled": len(stored) - len(known),
        "missing": len(sent.first.keys() - known.keys()),
        "changed": sum(known[place] != answer for place, answer in sent.first.items() if place in known),
        "acknowledged and lost": len(sent.acknowledged - known.keys()),
    }


def analysed(results: StudyResults) -> dict[str, object]:
    """The planted order and the one that the analysis shows; for *simulate* the gains."""
    if results.rank is not None:
        return {
            "planted order": sorted(WORTHS, key=lambda name: -WORTHS[name]),
            "recovered order": [each.name for each in results.rank.explainers],
        }
    arms = results.gains.arms if results.gains is not None else ()
    return {"gains": {arm.arm: round(arm.gain.value, 3) for arm in arms}}


if __name__ == "__main__":
    main()
