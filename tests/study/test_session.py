"""Joining, pages and answers: blind, once each, and durable."""

import json
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from didact.errors import AccessError, DidactError, FormatError, InputError
from didact.study.rows import read_answers
from didact.study.session import Study
from didact.study.simulated import PlantedRaters, go_through
from tests.study.conftest import Make, codes_of

RATERS = PlantedRaters(worths={"lime": 1.0, "random": -1.0})


def through(study: Study, token: str, until: str) -> None:
    """Answer pages until one of this kind is open."""
    page = study.next(token)
    while page.kind != until:
        plan, arm = study.key(token, page.id)
        page = study.answer(token, page.id, RATERS.respond(plan, 0, arm, study.material.labels()))


def test_a_rater_goes_through_consent_practice_items_and_survey(make_study: Make) -> None:
    study = make_study()
    session = study.join(codes_of(study)[0])
    page = study.next(session.token)
    assert (page.kind, page.choices) == ("consent", ("yes", "no"))
    assert study.answer(session.token, page.id, "yes").kind == "instructions"
    assert len(list(go_through(study, codes_of(study)[0], RATERS, 0))) == page.total - 1
    last = study.next(session.token)
    assert (last.kind, last.id, last.done) == ("end", "", last.total)
    phases = [row.phase for row in read_answers(study)]
    assert phases.count("main") == 6
    assert phases.count("repeat") == phases.count("attention") == phases.count("practice") == 2


@pytest.mark.parametrize("protocol", ["rank", "simulate"])
def test_no_page_tells_methods_gold_answers_or_what_is_expected(make_study: Make, protocol: str) -> None:
    study = make_study(protocol)
    for number, code in enumerate(codes_of(study)):
        token = study.join(code).token
        page = study.next(token)
        while page.id:
            plan, arm = study.key(token, page.id)
            shown = json.dumps({**page.to_dict(), "text": "", "question": ""})
            assert not any(name in shown for name in ("lime", "attention", "integrated", 'rationale": ['))
            assert all(each.example.label is None and not each.versions for each in page.explanations)
            if plan.kind == "predict":
                assert page.prediction is None
                assert not page.explanations
            page = study.answer(token, page.id, RATERS.respond(plan, number, arm, study.material.labels()))


def test_practice_gives_feedback_on_the_next_page_and_items_do_not(make_study: Make) -> None:
    study = make_study()
    token = study.join(codes_of(study)[0]).token
    through(study, token, "rank")
    page = study.next(token)
    best = study.key(token, page.id)[0].expected[0]
    wrong = {name: 1 + (name == best) for name in page.choices}
    after = study.answer(token, page.id, wrong)
    assert f"most people would put {best} first" in after.feedback
    assert not after.feedback.startswith("Practice: right")
    assert study.next(token).feedback == after.feedback  # also when the page is loaded again
    after = study.answer(
        token, after.id, {name: 1 + (name != study.key(token, after.id)[0].expected[0]) for name in "ABC"}
    )
    assert after.feedback.startswith("Practice: right")
    assert study.answer(token, after.id, {"A": 1, "B": 2, "C": 3}).feedback == ""


def test_an_answer_counts_once_whatever_is_sent_again(make_study: Make) -> None:
    study = make_study()
    code = codes_of(study)[0]
    first, second = study.join(code), study.join(code.lower().replace("-", " "))
    assert (first.resumed, second.resumed) == (False, True)
    page = study.next(first.token)
    assert study.next(second.token).id == page.id
    after = study.answer(first.token, page.id, "yes")
    assert study.answer(second.token, page.id, "no").id == after.id  # another tab, later: the first answer stays
    assert study.answer(first.token, page.id, "yes").id == after.id
    assert [row.answer for row in read_answers(study)] == ["yes"]


def test_many_tabs_at_once_store_one_answer(make_study: Make) -> None:
    study = make_study()
    token = study.join(codes_of(study)[0]).token
    page = study.next(token)
    problems: list[Exception] = []

    def answer() -> None:
        try:
            study.answer(token, page.id, "yes")
            study.join(codes_of(study)[1])
        except Exception as problem:
            problems.append(problem)
        finally:
            study.ledger.close()

    threads = [threading.Thread(target=answer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(read_answers(study)) == 1
    assert len(study.raters()) == 2


KILLED = """
import sys
from didact.study.session import Study
from didact.study.simulated import PlantedRaters, go_through
study = Study(sys.argv[1])
for number, code in enumerate(sys.argv[2:]):
    for page, _ in go_through(study, code, PlantedRaters(), number):
        print(number, page, flush=True)
"""


def test_a_killed_process_loses_and_doubles_nothing(make_study: Make) -> None:
    study = make_study()
    codes = codes_of(study)
    acknowledged: list[str] = []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(study.folder), *codes], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        acknowledged += [process.stdout.readline().strip() for _ in range(17)]
        process.kill()
        acknowledged += [line.strip() for line in process.stdout]
        process.wait()
        process.stdout.close()
    for number, code in enumerate(codes):
        list(go_through(study, code, PlantedRaters(), number))
    rows = read_answers(study)
    assert len({(row.rater, row.page) for row in rows}) == len(rows) == 4 * len(next(iter(study.raters().values()))[1])
    assert len(acknowledged) == len(set(acknowledged))
    by_number = {joined.body["number"]: rater for rater, (joined, _) in study.raters().items()}
    stored = {(row.rater, row.page) for row in rows}
    assert all((by_number[int(line.split()[0])], line.split()[1]) in stored for line in acknowledged)


def test_a_pause_is_not_counted_and_the_same_page_comes_back(make_study: Make) -> None:
    study = make_study()
    code = codes_of(study)[0]
    token = study.join(code).token
    page = study.next(token)
    time.sleep(0.3)
    again = Study(study.folder)
    token = again.join(code).token
    assert again.next(token).id == page.id
    again.answer(token, page.id, "yes")
    (row,) = read_answers(again)
    assert row.seconds is not None
    assert row.seconds < 0.25


def test_who_does_not_agree_is_asked_nothing_more(make_study: Make) -> None:
    study = make_study()
    token = study.join(codes_of(study)[0]).token
    page = study.answer(token, study.next(token).id, "no")
    assert (page.kind, page.id) == ("end", "")
    assert read_answers(study) == []
    with pytest.raises(InputError, match="not open yet; the current one is the last"):
        study.answer(token, "p001", "next")


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("consent", "perhaps", "one of yes, no; got str 'perhaps'"),
        ("consent", True, "one of yes, no; got bool True"),
        ("rank", {"A": 1, "B": 2}, "a rank from 1 for each of A, B, C"),
        ("rank", {"A": 1, "B": 2, "C": 0}, "a rank from 1"),
        ("rank", {"A": 1, "B": 2, "C": 1.5}, "a rank from 1"),
        ("rank", {"A": True, "B": 2, "C": 3}, "a rank from 1"),
        ("rank", ["A", "B", "C"], "a rank from 1"),
        ("rank", {"A": 1, "B": 2, "C": 3, "D": 4}, "a rank from 1"),
        ("survey", "x" * 2001, "2,000 characters"),
        ("survey", "\ud800", "not valid Unicode"),
        ("survey", None, "must be text"),
    ],
)
def test_answers_that_do_not_fit_are_refused_and_not_stored(
    make_study: Make, kind: str, value: object, message: str
) -> None:
    study = make_study(items=2, repeats=0, practice=1)
    token = study.join(codes_of(study)[0]).token
    through(study, token, kind)
    before = len(read_answers(study))
    with pytest.raises(InputError, match=message):
        study.answer(token, study.next(token).id, value)
    assert len(read_answers(study)) == before


def test_unknown_codes_sessions_and_pages_are_refused(make_study: Make) -> None:
    study = make_study()
    token = study.join(codes_of(study)[0]).token
    for call in (
        lambda: study.join("AAAA-AAAA"),
        lambda: study.join(""),
        lambda: study.next("x"),
        lambda: study.forget("x"),
    ):
        with pytest.raises(AccessError):
            call()
    with pytest.raises(InputError, match="there is no page 'p999'"):
        study.answer(token, "p999", "yes")
    with pytest.raises(InputError, match="page p003 is not open yet; the current one is p000"):
        study.answer(token, "p003", {"A": 1, "B": 2, "C": 3})


def test_events_cannot_be_changed_or_deleted(make_study: Make) -> None:
    study = make_study()
    token = study.join(codes_of(study)[0]).token
    study.answer(token, study.next(token).id, "yes")
    other = sqlite3.connect(study.folder / "study.sqlite")
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        other.execute("UPDATE events SET body = '{}'")
    with pytest.raises(sqlite3.IntegrityError, match="never deleted"):
        other.execute("DELETE FROM events WHERE kind = 'answered'")
    other.close()


def test_deleted_data_are_gone_from_the_files(make_study: Make) -> None:
    study = make_study(items=2, repeats=0, practice=0, check_every=0)
    code, other = codes_of(study)[:2]
    list(go_through(study, other, RATERS, 1))
    token = study.join(code).token
    through(study, token, "survey")
    secret = "written-by-a-rater-who-left"
    study.answer(token, study.next(token).id, secret)
    (rater,) = {row.rater for row in read_answers(study) if row.answer == secret}

    def on_disk() -> bytes:
        return b"".join(path.read_bytes() for path in sorted(study.folder.glob("study.sqlite*")))

    assert secret.encode() in on_disk()
    study.forget(code)
    assert secret.encode() not in on_disk()
    assert rater.encode() not in on_disk()
    assert rater not in study.raters()
    assert {row.rater for row in read_answers(study)} == set(study.raters())
    for call in (lambda: study.next(token), lambda: study.join(code), lambda: study.forget(code)):
        with pytest.raises(AccessError):
            call()
    numbers = [joined.body["number"] for joined, _ in study.raters().values()]
    study.join(codes_of(study)[2])
    assert sorted(joined.body["number"] for joined, _ in study.raters().values()) == [
        *numbers,
        2,
    ]  # 1 is not given again


def test_arms_are_filled_evenly_also_after_somebody_left(make_study: Make) -> None:
    study = make_study("simulate", raters=9)
    codes = codes_of(study)
    for code in codes[:4]:
        study.join(code)
    arms = [joined.body["arm"] for joined, _ in study.raters().values()]
    assert sorted(arms) == ["attention", "lime", "none", "random"]
    study.forget(codes[1])
    study.join(codes[4])
    assert sorted(joined.body["arm"] for joined, _ in study.raters().values()) == sorted(arms)


def test_the_preregistration_is_fixed_when_the_first_rater_joins(make_study: Make) -> None:
    study = make_study()
    path = study.folder / "preregistration.md"
    path.write_text(path.read_text("utf-8") + "\nH1: lime is preferred.\n", "utf-8")
    assert study.registration().unchanged is None
    study.join(codes_of(study)[0])
    fixed = study.registration()
    assert fixed.unchanged is True
    assert len(fixed.digest) == 64
    (event,) = study.ledger.reading().all("registered")
    assert "H1: lime is preferred." in event.body["text"]
    path.write_text("H1: attention is preferred.", "utf-8")
    study.join(codes_of(study)[1])
    assert study.registration().digest == fixed.digest
    assert study.registration().unchanged is False


def test_changed_files_and_folders_without_a_study_are_refused(make_study: Make, tmp_path: Path) -> None:
    study = make_study()
    with pytest.raises(InputError, match="there is no study"):
        Study(tmp_path / "none")
    with pytest.raises(InputError, match="holds a study already"):
        Study.create(study.folder, study.design, study.material)
    path = study.folder / "design.json"
    path.write_text(path.read_text("utf-8").replace('"items": 6', '"items": 5'), "utf-8")
    with pytest.raises(FormatError, match="its checksum differs"):
        Study(study.folder)


def test_a_damaged_database_is_refused_by_name(make_study: Make) -> None:
    study = make_study()
    study.ledger.close()
    (study.folder / "study.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.raises(DidactError, match=r"study\.sqlite is damaged"):
        Study(study.folder)
