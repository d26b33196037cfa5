"""The pages of a study, without a socket: raters answer once each, and texts stay texts."""

import asyncio
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from benchmarks.study_pages import AnswerForm, planned_study, rehearse
from didact.cli import parser
from didact.errors import DidactError, ParameterError, StorageError
from didact.service.config import ServiceConfig, ServiceLimits
from didact.service.studies.app import create_study_app
from didact.study.design import StudyDesign
from didact.study.ledger import Ledger
from didact.study.material import StudyMaterial
from didact.study.results import StudyResults
from didact.study.rows import read_answers
from didact.study.session import Study
from didact.study.simulated import made_up_explanations
from didact.types import Box, Example, Explanation, Image, Prediction, Target, Units
from tests.service.conftest import reached

KEY = "the-key-of-the-owner"
SCRIPT = "<script>alert(1)</script>"
Use = Callable[[httpx2.AsyncClient, Study], Coroutine[Any, Any, Any]]
Visit = Callable[..., Any]


def codes_of(study: Study) -> list[str]:
    return (study.folder / "codes.txt").read_text(encoding="utf-8").split()


def small_study(folder: Path, protocol: str = "rank", **settings: Any) -> Study:
    usual: dict[str, Any] = {"items": 3, "learning": 2, "repeats": 1, "check_every": 2, "raters": 3, "practice": 1}
    design = StudyDesign(
        protocol=protocol,  # type: ignore[arg-type]
        explainers=("lime", "attention", "random"),
        **(usual | settings),
    )
    explained = made_up_explanations(("lime", "attention"), 12)
    return Study.create(folder / protocol, design, StudyMaterial.chosen(explained, design))


def hostile_study(folder: Path) -> Study:
    """Its texts and classes are markup."""
    explained = {}
    for name, several in made_up_explanations(("lime", "attention"), 12).items():
        explained[name] = [_with_script(each) for each in several]
    design = StudyDesign(
        protocol="simulate",
        explainers=("lime", "attention"),
        items=2,
        learning=1,
        practice=0,
        check_every=0,
        raters=3,
        title=SCRIPT,
        consent=SCRIPT,
        instructions=f'"{SCRIPT}',
    )
    return Study.create(folder / "hostile", design, StudyMaterial.chosen(explained, design))


def plain_report(results: StudyResults) -> str:
    return f"<p>{len(results.raters)} raters</p>"


def first_answers(form: AnswerForm) -> dict[str, str]:
    """What a browser sends when the first of all choices is taken."""
    return form.fields | {name: values[0] for name, values in form.options.items()}


async def joined(client: httpx2.AsyncClient, code: str) -> AnswerForm:
    """The first open page after joining with a code."""
    response = await client.post("/join", data={"code": code}, follow_redirects=True)
    assert response.status_code == 200, response.text
    return AnswerForm(response.text)


async def sent(client: httpx2.AsyncClient, form: dict[str, str]) -> httpx2.Response:
    """What follows an answer."""
    return await client.post("/page", data=form, follow_redirects=True)


@pytest.fixture
def visit(tmp_path: Path) -> Visit:
    """Runs a coroutine function on a client of a study's pages."""

    def run(use: Use, study: Study | None = None, **options: Any) -> Any:
        shown = study or small_study(tmp_path)
        config = ServiceConfig(token=KEY, limits=ServiceLimits(body=64 << 10))
        app = create_study_app(shown, config, plain_report)

        async def main() -> Any:
            async with reached(app, ready=False, **options) as client:
                return await use(client, shown)

        return asyncio.run(main())

    return run


@pytest.mark.parametrize("protocol", ["rank", "simulate"])
def test_a_rater_goes_through_all_pages(visit: Visit, tmp_path: Path, protocol: str) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> list[str]:
        form, pages = await joined(client, codes_of(study)[0]), []
        while form.fields:
            pages.append(form.fields["page"])
            response = await sent(client, first_answers(form))
            assert "Content-Security-Policy" in response.headers
            assert not any(name in response.text for name in ("lime", "attention", "integrated"))
            form = AnswerForm(response.text)
        assert "this was the last page" in response.text
        assert "Practice" in " ".join(row.phase.title() for row in read_answers(study))
        return pages

    study = small_study(tmp_path, protocol)
    pages = visit(use, study)
    rows = read_answers(study)
    assert [row.page for row in rows] == pages
    assert all(row.seconds is not None for row in rows)
    assert {row.phase for row in rows} >= (
        {"main", "repeat", "attention"} if protocol == "rank" else {"pre", "learn", "post"}
    )


def test_feedback_follows_practice(visit: Visit) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> str:
        form = await joined(client, codes_of(study)[0])
        for _ in range(3):
            response = await sent(client, first_answers(form))
            form = AnswerForm(response.text)
        return response.text

    assert "Practice: most people would put" in visit(use)


def test_an_answer_counts_once_from_two_tabs_and_two_devices(visit: Visit) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> None:
        code = codes_of(study)[0]
        form = await joined(client, code)
        form = AnswerForm((await sent(client, first_answers(form))).text)
        form = AnswerForm((await sent(client, first_answers(form))).text)
        ranks = {name: values for name, values in form.options.items() if name.startswith("rank-")}
        first = form.fields | {name: values[0] for name, values in ranks.items()}
        other = form.fields | {name: values[-1] for name, values in list(ranks.items())[:-1]} | {"rank-C": "1"}
        await joined(client, code)  # another session of the same rater: the old window still counts
        both = await asyncio.gather(sent(client, first), sent(client, other), sent(client, first))
        assert all(response.status_code == 200 for response in both)
        again = await sent(client, other)
        assert "the first answer counts" in again.text
        answers = [row for row in read_answers(study) if row.page == form.fields["page"]]
        (answer,) = [row.answer for row in answers]
        assert isinstance(answer, dict)
        assert set(answer.values()) in ({1}, {1, 2})

    visit(use)


def test_a_window_of_another_rater_stores_nothing(visit: Visit) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> httpx2.Response:
        first, second = codes_of(study)[:2]
        form = await joined(client, first)
        await joined(client, second)
        response = await sent(client, first_answers(form))
        assert read_answers(study) == []
        return response

    response = visit(use)
    assert response.status_code == 409
    assert "another code" in response.text


def test_pause_and_resume_with_the_code(visit: Visit) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> None:
        form = await joined(client, codes_of(study)[0])
        await sent(client, first_answers(form))
        assert "You can close this window" in (await client.post("/pause")).text
        assert not client.cookies
        assert (await client.get("/page")).headers["location"] == "/"
        lost = await client.post("/page", data=first_answers(form))
        assert lost.status_code == 401
        form = await joined(client, codes_of(study)[0].lower().replace("-", " "))
        assert form.fields["page"] == "p001"
        assert (await client.get("/")).headers["location"] == "/page"

    visit(use)


def test_declining_ends_the_study(visit: Visit) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> str:
        form = await joined(client, codes_of(study)[0])
        assert form.options["answer"] == ["yes", "no"]
        response = await sent(client, form.fields | {"answer": "no"})
        assert read_answers(study) == []
        return response.text

    text = visit(use)
    assert "You did not agree" in text
    assert "<form" not in text.partition('class="foot"')[0]


def test_deleting_needs_the_code_and_leaves_nothing(visit: Visit) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> None:
        code = codes_of(study)[0]
        form = await joined(client, code)
        await sent(client, first_answers(form))
        assert (await client.post("/delete", data={"code": code})).status_code == 422
        assert (await client.post("/delete", data={"code": "WRONG", "sure": "yes"})).status_code == 403
        assert len(read_answers(study)) == 1
        done = await client.post("/delete", data={"code": code, "sure": "yes"})
        assert "deleted for good" in done.text
        assert read_answers(study) == []
        assert (await client.post("/join", data={"code": code})).status_code == 403

    visit(use)


def test_texts_labels_codes_and_comments_stay_texts(visit: Visit, tmp_path: Path) -> None:
    study = hostile_study(tmp_path)

    async def use(client: httpx2.AsyncClient, study: Study) -> list[str]:
        texts = [(await client.get("/", params={"code": f'">{SCRIPT}'})).text]
        texts.append((await client.post("/join", data={"code": f'">{SCRIPT}'})).text)
        for code in codes_of(study):
            form = await joined(client, code)
            while form.fields:
                answers = first_answers(form)
                if form.options.get("answer") == [""]:
                    refused = await sent(client, answers | {"answer": SCRIPT * 100})
                    assert refused.status_code == 422
                    texts.append(refused.text)
                    answers |= {"answer": f"</textarea>{SCRIPT}"}
                response = await sent(client, answers)
                texts.append(response.text)
                form = AnswerForm(response.text)
        client.headers["authorization"] = f"Bearer {KEY}"
        texts.append((await client.get("/owner")).text)
        return texts

    texts = visit(use, study)
    assert len(texts) > 15
    assert not any("<script" in text for text in texts)
    assert any("&lt;script&gt;" in text for text in texts)
    assert read_answers(study)[-1].answer == f"</textarea>{SCRIPT}"


def _with_script(explanation: Explanation) -> Explanation:
    """The explanation of a text that ends in markup, with classes that are markup."""
    text = f"{explanation.example.fields[0]} {SCRIPT}"
    example = Example(fields=(text,))
    units = Units(example, "word", explanation.units.regions)
    labels = (f"neg{SCRIPT}", f'pos"{SCRIPT}')
    prediction = dataclasses.replace(explanation.prediction, labels=labels)
    target = dataclasses.replace(explanation.target, label=labels[explanation.target.index])
    return dataclasses.replace(explanation, units=units, prediction=prediction, target=target)


def test_the_owner_needs_the_key(visit: Visit) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> None:
        form = await joined(client, codes_of(study)[0])
        await sent(client, first_answers(form))
        paths = ("/owner/results", "/owner/export/answers.csv")
        for path in paths:
            refused = await client.get(path)
            assert refused.status_code == 401
            assert refused.json()["error"]["code"] == "not_owner"
        assert (await client.post("/owner/invite", data={"raters": "1"})).status_code == 401
        assert "Sign in" in (await client.get("/owner")).text
        assert (await client.post("/owner", data={"key": "wrong"})).status_code == 403
        assert "Sign in" in (await client.get("/owner")).text
        overview = await client.post("/owner", data={"key": KEY}, follow_redirects=True)
        assert "1 of" in overview.text
        assert re.search(r"r-[0-9a-f]{10}", overview.text)
        assert codes_of(study)[0] not in overview.text
        for path in paths:
            assert (await client.get(path)).status_code == 200
        assert (await client.get(paths[0])).text == "<p>1 raters</p>"
        await client.post("/owner/out")
        assert "Sign in" in (await client.get("/owner")).text

    visit(use)


def test_the_owner_exports_invites_and_sees_warnings(visit: Visit) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> None:
        client.headers["authorization"] = f"Bearer {KEY}"
        form = await joined(client, codes_of(study)[0])
        while form.fields:
            form = AnswerForm((await sent(client, first_answers(form))).text)
        files = {form: await client.get(f"/owner/export/answers.{form}") for form in ("csv", "jsonl", "parquet")}
        assert files["csv"].text.startswith("rater,arm,page")
        assert files["csv"].headers["content-disposition"] == 'attachment; filename="answers.csv"'
        assert json.loads(files["jsonl"].text.splitlines()[0])["phase"] == "practice"
        assert files["parquet"].content[:4] == b"PAR1"
        assert (await client.get("/owner/export/answers.exe")).status_code == 404
        overview = (await client.get("/owner")).text
        assert "taking less than 2 seconds" in overview
        assert "too many attention checks failed" in overview
        page = (await client.post("/owner/invite", data={"raters": "2"})).text
        assert codes_of(study)[-2:] == re.findall(r"<li>(\w{4}-\w{4})</li>", page)
        for wrong in ("0", "201", "x", "", "9" * 30):
            assert (await client.post("/owner/invite", data={"raters": wrong})).status_code == 422

    visit(use)


def test_bad_requests_are_refused_and_store_nothing(visit: Visit) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> None:
        form = first_answers(await joined(client, codes_of(study)[0]))
        page = {"content-type": "application/x-www-form-urlencoded"}
        statuses = {
            "other origin": await client.post("/page", data=form, headers={"origin": "http://evil.example"}),
            "other host": await client.post("/page", data=form, headers={"host": "evil.example"}),
            "json": await client.post("/page", json=form),
            "not UTF-8": await client.post("/page", content=b"answer=%ff", headers=page),
            "bytes": await client.post("/page", content=b"\xff\xfe", headers=page),
            "twice": await client.post("/page", content=b"answer=yes&answer=no", headers=page),
            "many": await client.post("/page", content=b"&".join(b"a%d=1" % n for n in range(200)), headers=page),
            "large": await client.post("/page", data={**form, "answer": "x" * 70_000}),
            "no choice": await client.post("/page", data={**form, "answer": "maybe"}),
            "empty": await client.post("/page", content=b"", headers=page),
            "later page": await client.post("/page", data={**form, "page": "p004"}),
            "unknown page": await client.post("/page", data={**form, "page": "../p000"}),
            "method": await client.put("/page"),
            "path": await client.get("/assets/..%2f..%2fapp.py"),
            "missing": await client.get("/nowhere", headers={"accept": "text/html"}),
        }
        assert {name: response.status_code for name, response in statuses.items()} == {
            "other origin": 403,
            "other host": 421,
            "json": 415,
            "not UTF-8": 400,
            "bytes": 400,
            "twice": 400,
            "many": 400,
            "large": 413,
            "no choice": 422,
            "empty": 409,
            "later page": 422,
            "unknown page": 422,
            "method": 405,
            "path": 404,
            "missing": 404,
        }
        assert "This did not work" in statuses["missing"].text
        assert read_answers(study) == []

    visit(use)


def test_what_cannot_be_written_is_said_and_can_be_sent_again(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> None:
        form = first_answers(await joined(client, codes_of(study)[0]))
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "writing", _full)
            refused = await client.post("/page", data=form, headers={"accept": "text/html"})
        assert refused.status_code == 503
        assert str(study.folder) not in refused.text
        assert (await client.post("/page", data=form)).status_code == 303
        assert len(read_answers(study)) == 1

    visit(use)


def _full(ledger: Ledger) -> Any:
    raise StorageError(f"cannot write {ledger.path}: database or disk is full")


def test_cookies_are_closed_to_scripts_and_belong_to_one_study(visit: Visit, tmp_path: Path) -> None:
    async def use(client: httpx2.AsyncClient, study: Study) -> str:
        return (await client.post("/join", data={"code": codes_of(study)[0]})).headers["set-cookie"]

    first = visit(use, small_study(tmp_path, "rank"))
    second = visit(use, small_study(tmp_path, "simulate"))
    assert first.split("=")[0] != second.split("=")[0]
    assert {"HttpOnly", "SameSite=lax"} <= set(first.split("; "))


def test_pages_need_a_key_of_the_owner(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="key of the owner"):
        create_study_app(small_study(tmp_path), ServiceConfig(), plain_report)


def test_a_killed_server_loses_and_doubles_nothing(tmp_path: Path) -> None:
    study = planned_study(tmp_path, "simulate", raters=4, items=3)
    record = rehearse(study, kills=1, seed=1)
    assert record["answers stored"] == record["answers expected"]
    faults = ("doubled", "missing", "changed", "acknowledged and lost")
    assert {name: record[name] for name in faults} == dict.fromkeys(faults, 0)


def test_the_server_announces_itself_and_ends_by_a_signal(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    command = [sys.executable, "-m", "didact", "study", "serve", str(study.folder), "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "DIDACT_TOKEN"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    raters, owner, key = (process.stdout.readline() for _ in range(3))
    address = raters.split()[2]
    assert f"{address}/owner" in owner
    answered = httpx2.get(f"{address}/owner", headers={"authorization": f"Bearer {key.split()[-1]}"})
    assert "Nobody has agreed" in answered.text
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    process.stdout.close()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--host", "0.0.0.0"], "needs a token"),
        (["--public", "study.example.org"], "such as https"),
        (["--public", "https://example.org/study"], "such as https"),
        (["--token-file", "missing.txt"], "cannot read the token"),
    ],
)
def test_what_cannot_be_served_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], problem: str
) -> None:
    monkeypatch.delenv("DIDACT_TOKEN", raising=False)
    chosen = parser().parse_args(["study", "serve", str(small_study(tmp_path).folder), *options])
    with pytest.raises(DidactError, match=problem):
        chosen.action(chosen)


def test_images_are_shown_without_styles_of_their_own(visit: Visit, tmp_path: Path) -> None:
    explained = {name: [_of_image(number, name) for number in range(6)] for name in ("lime", "attention")}
    design = StudyDesign(
        protocol="rank", explainers=("lime", "attention"), items=2, repeats=0, practice=0, check_every=0, raters=1
    )
    study = Study.create(tmp_path / "images", design, StudyMaterial.chosen(explained, design))

    async def use(client: httpx2.AsyncClient, study: Study) -> str:
        form = await joined(client, codes_of(study)[0])
        form = AnswerForm((await sent(client, first_answers(form))).text)
        return (await sent(client, first_answers(form))).text

    text = visit(use, study)
    assert text.count("<svg viewBox") == 2
    assert text.count("url(data:image/png;base64,") == 1
    assert " style=" not in text


def _of_image(number: int, method: str) -> Explanation:
    pixels = np.full((4, 4, 3), 10 * number, dtype=np.uint8)
    units = Units(Example.of(Image(pixels)), "patch", (Box(0, 0, 2, 4), Box(2, 0, 4, 4)))
    prediction = Prediction(("cat", "dog"), (1.0, 0.0), (0.7, 0.3))
    return Explanation(method, units, (1.0, 0.5), Target(0, "cat"), prediction)
