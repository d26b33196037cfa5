"""A study on disk: whoever draws its pages needs ``join``, ``next`` and ``answer``.

STUDY/design.json            what the study is; a changed one is refused
STUDY/explanations.parquet   items and explanations
STUDY/preregistration.md     completed by the owner, hashed when the first rater joins
STUDY/codes.txt              invitation codes, for the owner
STUDY/study.sqlite           events
"""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from didact import checksums, disk
from didact.errors import AccessError, InputError
from didact.study import pages, registration
from didact.study.design import StudyDesign
from didact.study.ledger import Event, Events, Ledger
from didact.study.material import StudyMaterial
from didact.study.pages import StudyPage
from didact.study.plan import PlannedPage, planned
from didact.study.responses import checked
from didact.study.wording import DECLINED, END
from didact.validation import dump_json, object_value, parse_json, text_value

DESIGN, MATERIAL, CODES, EVENTS = "design.json", "explanations.parquet", "codes.txt", "study.sqlite"
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Of invitation codes: no letter that looks like another."""
CURE = "restore the file from a copy, or create the study again"


@dataclass(frozen=True)
class StudySession:
    """A rater who has joined.

    Attributes:
        token: names the session; whoever has it can answer as this rater.
        resumed: whether the rater had joined before.
    """

    token: str
    resumed: bool


class Study:
    """A study that exists.

    Args:
        folder: of the study.

    Raises:
        InputError: there is no study.
        FormatError: its files are damaged or were changed.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        if not (self.folder / DESIGN).is_file():
            raise InputError(f"there is no study in {self.folder}; make one with 'didact study create RUN --out DIR'")
        where = f"{self.folder / DESIGN}"
        plain = object_value(
            parse_json((self.folder / DESIGN).read_bytes(), where), where, ("design", "material", "salt")
        )
        checksums.check_sealed(plain, self.folder / DESIGN, CURE)
        checksums.check_files(self.folder, [(MATERIAL, text_value(plain["material"], "material"))], CURE)
        self.design = StudyDesign.from_dict(object_value(plain["design"], "design"))
        self.salt = text_value(plain["salt"], "salt")
        self.digest = str(plain.get(checksums.ENTRY, ""))
        self.material = StudyMaterial.read(self.folder / MATERIAL)
        self.ledger = Ledger(self.folder / EVENTS)
        self._plans: dict[str, dict[str, PlannedPage]] = {}

    @classmethod
    def create(cls, folder: Path | str, design: StudyDesign, material: StudyMaterial) -> Study:
        """Make a study with an invitation code for each planned rater.

        Raises:
            InputError: the folder holds a study already, or cannot be written.
        """
        place = Path(folder)
        if (place / DESIGN).exists():
            raise InputError(f"{place} holds a study already; give another folder (--out)")
        disk.check_writable(place / DESIGN)
        material.write(place / MATERIAL)
        registration.write(place, design)
        digest = checksums.file_hash(place / MATERIAL)
        plain = {"design": design.to_dict(), "material": digest, "salt": secrets.token_hex(8)}
        disk.write_text(place / DESIGN, dump_json(checksums.sealed(plain), indent=1) + "\n")
        study = cls(place)
        study.invite(design.raters)
        return study

    def invite(self, count: int) -> list[str]:
        """Further invitation codes, which are added to the file of codes; only their hashes are in the database."""
        if not 1 <= count <= 10_000:
            raise InputError(f"codes are made 1 to 10,000 at a time, got {count}")
        codes = ["".join(secrets.choice(ALPHABET) for _ in range(8)) for _ in range(count)]
        written = [f"{code[:4]}-{code[4:]}" for code in codes]
        path = self.folder / CODES
        earlier = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        disk.write_text(path, "\n".join([*earlier, *written]) + "\n")
        with self.ledger.writing() as events:
            for code in written:
                events.append("invited", self._code_hash(code))
        return written

    def join(self, code: str) -> StudySession:
        """Begin, or go on with the same code; the plan of pages is drawn and stored when the rater begins.

        Raises:
            AccessError: there is no such code.
        """
        hashed, token = self._code_hash(code), secrets.token_urlsafe(18)
        self._check_invited(self.ledger.reading(), hashed)  # whoever tries codes keeps nobody from writing
        with self.ledger.writing() as events:
            self._check_invited(events, hashed)
            registration.register(self.folder, events, {"design": self.digest})
            joined = events.get("joined", hashed)
            rater = joined.rater if joined else self._begin(events, hashed)
            events.append("session", self._hash(token), rater=rater)
        return StudySession(token, joined is not None)

    def next(self, token: str) -> StudyPage:
        """What to show now; the same page until it is answered.

        Raises:
            AccessError: there is no such session.
        """
        events = self.ledger.reading()
        rater = self._rater(events, token)
        page = self._current(events, rater)
        key = f"{self._hash(token)}:{page.id}"
        if page.id and events.get("shown", key) is None:
            with self.ledger.writing() as writing:
                writing.append("shown", key, rater=rater, page=page.id)
        return page

    def answer(self, token: str, page: str, value: object) -> StudyPage:
        """Store an answer, once, and return what to show next.

        An answer to a page that is answered already changes nothing: the first one stays, whichever tab it came from.

        Raises:
            AccessError: there is no such session.
            InputError: there is no such page, it is not its turn, or the answer does not fit.
        """
        reading = self.ledger.reading()
        rater = self._rater(reading, token)
        plan = self._plan(reading, rater)
        if page not in plan:
            raise InputError(f"there is no page {page!r:.60} in this session; ask for the current one")
        response = checked(pages.shown(plan[page], self.design, self.material), value)
        with self.ledger.writing() as events:
            self._rater(events, token)  # who may have been deleted meanwhile
            if events.get("answered", f"{rater}:{page}") is None:
                current = self._current(events, rater).id
                if page != current:
                    raise InputError(f"page {page} is not open yet; the current one is {current or 'the last'}")
                body = {"answer": response, "seconds": self._seconds(events, token, page)}
                events.append("answered", f"{rater}:{page}", rater=rater, page=page, body=body)
        return self.next(token)

    def forget(self, code: str) -> int:
        """Delete all that the rater with this code answered, for good, and the code with it.

        Returns:
            How many events were deleted.

        Raises:
            AccessError: there is no such code, or what it stands for was deleted already.
        """
        hashed = self._code_hash(code)
        events = self.ledger.reading()
        invited, joined = events.get("invited", hashed), events.get("joined", hashed)
        if invited is None:
            raise AccessError("this code is not known, or what was answered with it is deleted already")
        kinds = ("joined", "session", "shown", "answered")
        own = [event.number for event in events.all(*kinds, rater=joined.rater)] if joined else []
        number = joined.body["number"] if joined else None
        self.ledger.erase([invited.number, *own], (secrets.token_hex(8), {"events": len(own), "number": number}))
        return len(own)

    def stamp(self, token: str) -> str:
        """A name of the session's rater for forms: the same in all tabs of the rater, another one for any other rater.

        Raises:
            AccessError: there is no such session.
        """
        return self._hash(f"stamp {self._rater(self.ledger.reading(), token)}")

    def key(self, token: str, page: str) -> tuple[PlannedPage, str]:
        """What the rater of a session is not shown: the page as it was planned, and the rater's arm."""
        events = self.ledger.reading()
        (joined,) = events.all("joined", rater=self._rater(events, token))
        return _pages(joined)[page], str(joined.body["arm"])

    def raters(self) -> dict[str, tuple[Event, dict[str, PlannedPage]]]:
        """By pseudonym: when and as what each rater joined, and the pages by their ids."""
        joined = self.ledger.reading().all("joined")
        return {event.rater: (event, _pages(event)) for event in joined}

    def registration(self) -> registration.Registration:
        """What was fixed before the first answer, and whether it still stands."""
        return registration.status(self.folder, self.ledger.reading())

    def _check_invited(self, events: Events, hashed: str) -> None:
        if events.get("invited", hashed) is None:
            raise AccessError("this code is not known; check it, or ask the person who gave it to you")

    def _begin(self, events: Events, hashed: str) -> str:
        """Give a new rater a pseudonym, a number, the arm with the fewest raters, and pages."""
        joined, erased = events.all("joined"), events.all("erased")
        numbers = [event.body["number"] for event in (*joined, *erased) if event.body["number"] is not None]
        number = max(numbers, default=-1) + 1
        counts = Counter(event.body["arm"] for event in joined)
        arms = self.design.arms
        turn = {arm: (at - number) % len(arms) for at, arm in enumerate(arms)}
        arm = min(arms, key=lambda name: (counts[name], turn[name]))
        rater = f"r-{secrets.token_hex(5)}"
        plan = planned(self.design, self.material, number, arm)
        body = {"number": number, "arm": arm, "pages": [page.to_dict() for page in plan]}
        events.append("joined", hashed, rater=rater, body=body)
        return rater

    def _current(self, events: Events, rater: str) -> StudyPage:
        """The first page without an answer."""
        plan = self._plan(events, rater)
        answers = {event.page: event.body["answer"] for event in events.all("answered", rater=rater)}
        page = self._first_open(plan, answers)
        return dataclasses.replace(page, done=len(answers), total=len(plan))

    def _first_open(self, plan: Mapping[str, PlannedPage], answers: Mapping[str, object]) -> StudyPage:
        if any(plan[page].kind == "consent" and answer == "no" for page, answer in answers.items()):
            return StudyPage("", "end", self.design.title, DECLINED)
        note = ""
        for page in plan.values():
            if page.id not in answers:
                return dataclasses.replace(pages.shown(page, self.design, self.material), feedback=note)
            note = pages.feedback(page, answers[page.id])
        return StudyPage("", "end", self.design.title, END)

    def _plan(self, events: Events, rater: str) -> dict[str, PlannedPage]:
        if rater not in self._plans:  # a plan never changes, and pages ask for it often
            (joined,) = events.all("joined", rater=rater)
            self._plans[rater] = _pages(joined)
        return self._plans[rater]

    def _rater(self, events: Events, token: str) -> str:
        session = events.get("session", self._hash(token))
        if session is None:
            raise AccessError("this session is not known, or its data were deleted; join again with your code")
        return session.rater

    def _seconds(self, events: Events, token: str, page: str) -> float | None:
        """Since the page was shown in this session: a pause before that is not counted."""
        shown = events.get("shown", f"{self._hash(token)}:{page}")
        return None if shown is None else round(time.time() - shown.time, 3)

    def _code_hash(self, code: str) -> str:
        plain = "".join(each for each in str(code).upper() if each.isalnum())
        return self._hash(f"code {plain[:100]}")

    def _hash(self, secret: str) -> str:
        return hashlib.sha256(f"{self.salt} {secret}".encode("utf-8", "replace")).hexdigest()[:32]


def _pages(joined: Event) -> dict[str, PlannedPage]:
    body: Mapping[str, Any] = joined.body
    made = [PlannedPage.from_dict(each) for each in body["pages"]]
    return {page.id: page for page in made}
