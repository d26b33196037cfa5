"""The playground without a browser: what its pages hold, for texts, questions, images, and hostile input."""

import base64
import html
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import numpy as np
import pytest

from didact.render import jsonio
from didact.render.html import read_page
from didact.render.png import png
from didact.service.config import ServedModel, ServiceLimits
from didact.service.pages.query import Query
from didact.testing.tiny import tiny_image_model, tiny_model
from fuzz.service import BROKEN, WORDS
from tests.service.conftest import TEXT, tiny_config

Asked = Callable[..., Any]
HOSTILE = 100
SCRIPT = "<script>alert(1)</script> & \"quoted\" 'film'"
PIXELS = np.random.default_rng(0).integers(0, 256, (16, 24, 3)).astype(np.uint8)


def seen(asked: Asked, path: str, config: Any = None, **fields: Any) -> httpx2.Response:
    """The answer to a GET with these fields in its address."""
    return asked(lambda client: client.get(f"{path}?{urlencode(fields, doseq=True)}"), config)  # type: ignore[no-any-return]


def document(page: str) -> str:
    """The explanations that a page carries for its exports."""
    (found,) = re.findall(r'<textarea name="document" hidden>\n(.*?)</textarea>', page, flags=re.DOTALL)
    return html.unescape(found)


def test_without_a_text_there_is_a_form_with_all_methods(asked: Asked) -> None:
    response = seen(asked, "/")
    assert response.status_code == 200
    assert "unsafe" not in response.headers["content-security-policy"]
    for part in ('value="occlusion"', 'value="integrated_gradients" checked', '<option value="negative">', "<textarea"):
        assert part in response.text
    assert "document" not in response.text


def test_a_view_is_made_again_by_its_address(asked: Asked) -> None:
    fields = {"text": TEXT, "method": ["occlusion", "attention"], "target": "negative"}
    response = seen(asked, "/", **fields)
    assert response.status_code == 200
    explanations = jsonio.load(document(response.text))
    assert [(each.method, each.target.label) for each in explanations] == [
        ("occlusion", "negative"),
        ("attention", "negative"),
    ]
    (link,) = re.findall(r'id="link" href="([^"]+)"', response.text)
    assert html.unescape(link) == Query(TEXT, methods=("occlusion", "attention"), target="negative").address()
    assert jsonio.load(document(asked(lambda client: client.get(html.unescape(link))).text))[0].scores == pytest.approx(
        explanations[0].scores, abs=1e-5
    )
    assert re.search(r' style[=>]|<script(?! type="module" src=)| on\w+=', response.text) is None


def test_every_class_is_explained_the_most_probable_first(asked: Asked) -> None:
    made = jsonio.load(document(seen(asked, "/", text=TEXT, method="occlusion", target="all").text))
    assert {each.target.label for each in made} == {"negative", "positive"}
    assert made[0].target.label == made[0].prediction.label


def test_a_class_can_be_explained_against_another(asked: Asked) -> None:
    (made,) = jsonio.load(
        document(seen(asked, "/", text=TEXT, method="occlusion", target="positive", rather="negative").text)
    )
    assert made.target.name == "positive rather than negative"


def test_an_edit_is_explained_beside_the_text_before(asked: Asked) -> None:
    response = seen(asked, "/", text="a wonderful film", before="a truly wonderful film", method="occlusion")
    assert "What the edit changed" in response.text
    assert re.search(r'<td dir="auto">truly</td><td class="number">[^<–]+</td><td class="number">–</td>', response.text)
    (now,) = jsonio.load(document(response.text))
    assert now.example.texts == ("a wonderful film",)


def test_what_flips_the_prediction_can_be_explained_next(asked: Asked) -> None:
    response = seen(asked, "/", text=TEXT, method="occlusion", flip=1)
    assert "What would change the prediction" in response.text
    assert "variants were evaluated" in response.text


@pytest.mark.parametrize("field", ["text", "second", "before", "model", "method", "target", "rather"])
def test_markup_in_any_field_stays_text(asked: Asked, field: str) -> None:
    response = seen(asked, "/", **{"text": TEXT, "method": "occlusion", field: SCRIPT})
    assert response.status_code in (200, 404, 422)
    assert "<script>" not in response.text
    assert "text/html" in response.headers["content-type"]


def test_mistakes_are_pages_that_keep_the_form(asked: Asked) -> None:
    for fields, status, words in [
        ({"text": TEXT, "model": "other"}, 404, "no model &#x27;other&#x27; is served"),
        ({"text": TEXT, "method": "sharp"}, 422, "sharp"),
        ({"text": TEXT, "target": "neutral"}, 422, "neutral"),
        ({"text": "x" * 20_001}, 413, "20,001 characters"),
        ({"text": TEXT, "method": ["occlusion"] + [f"m{number}" for number in range(12)]}, 422, "13 methods"),
    ]:
        response = seen(asked, "/", **fields)  # type: ignore[arg-type]
        assert response.status_code == status
        assert 'role="alert"' in response.text
        assert words in response.text
        assert "<textarea" in response.text


def test_a_method_that_fails_is_named_beside_those_that_do_not(asked: Asked) -> None:
    response = seen(asked, "/", text=TEXT, method=["occlusion", "sharp"])
    assert response.status_code == 200
    assert "Not computed" in response.text
    assert len(jsonio.load(document(response.text))) == 1


def test_exports_are_files_of_what_was_shown(asked: Asked, tmp_path: Path) -> None:
    async def use(client: httpx2.AsyncClient) -> dict[str, httpx2.Response]:
        page = (await client.get("/", params={"text": SCRIPT, "method": "occlusion"})).text
        fields = {"document": document(page)}
        made = {
            form: await client.post("/export", data={**fields, "form": form})
            for form in ("html", "json", "svg", "png-0", "exe")
        }
        made["saved"] = await client.post("/runs", data=fields)
        made["record"] = await client.get("/record", params={"text": TEXT, "method": "occlusion"})
        made["list"] = await client.get("/runs")
        made["report"] = await client.get(made["saved"].headers["location"])
        made["damaged"] = await client.post("/export", data={"document": "{}", "form": "html"})
        return made

    made = asked(use, tiny_config(runs=tmp_path / "runs"))
    (explanation,) = jsonio.load(made["json"].text)
    assert explanation.example.texts == (SCRIPT,)
    assert read_page(made["html"].text) == [explanation]
    assert all("attachment" in made[form].headers["content-disposition"] for form in ("html", "json", "svg", "record"))
    assert "Decision record" in made["record"].text
    assert made["png-0"].status_code == made["exe"].status_code == made["damaged"].status_code == 422
    assert made["saved"].status_code == 303
    assert made["saved"].headers["location"] in made["list"].text
    assert read_page(made["report"].text) == [explanation]
    assert made["report"].headers["content-security-policy"].startswith("sandbox; default-src 'none'")


def test_only_reports_in_the_folder_are_shown(asked: Asked, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    (folder / "demo").mkdir(parents=True)
    (folder / "demo" / "a report.html").write_text("<p>report</p>")
    (folder / "notes.txt").write_text("notes")
    (tmp_path / "secret.html").write_text("secret")
    (folder / "link.html").symlink_to(tmp_path / "secret.html")

    async def use(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        names = ["demo/a%20report.html", "notes.txt", "link.html", "../secret.html", "..%2fsecret.html", "%00", "demo"]
        return [await client.get(f"/runs/{name}") for name in names] + [await client.get("/runs")]

    report, *others, listed = asked(use, tiny_config(runs=folder))
    assert report.text == "<p>report</p>"
    assert [response.status_code for response in others] == [404] * len(others)
    assert listed.text.count("<li>") == 1
    assert asked(lambda client: client.get("/runs")).status_code == 200


def test_images_are_uploaded_and_exported(asked: Asked) -> None:
    async def use(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        form = await client.get("/")
        file = {"image": ("cat.png", png(PIXELS), "image/png")}
        page = await client.post("/", files=file, data={"method": ["occlusion", "lime"]})
        fields = {"document": document(page.text), "form": "png-1"}
        broken = await client.post("/", files={"image": ("cat.png", b"no image", "image/png")})
        return [form, page, await client.post("/export", data=fields), broken]

    form, page, picture, broken = asked(use, tiny_config(models=(ServedModel("eyes", tiny_image_model()),)))
    assert 'type="file"' in form.text
    assert page.status_code == 200
    nonce = re.findall(r"'nonce-([^']+)'", page.headers["content-security-policy"])[0]
    assert f'<style nonce="{nonce}">' in page.text
    assert base64.b64encode(png(PIXELS)).decode() in page.text
    assert (jsonio.load(document(page.text))[0].example.fields[0].pixels == PIXELS).all()  # type: ignore[union-attr]
    assert picture.content.startswith(b"\x89PNG")
    assert broken.status_code == 422
    assert 'role="alert"' in broken.text


def test_questions_have_a_passage(asked: Asked) -> None:
    model = tiny_model(auto_class="AutoModelForQuestionAnswering")
    config = tiny_config(models=(ServedModel("answers", model),))
    response = seen(asked, "/", config, text="what film", second=TEXT, method="occlusion")
    assert response.status_code == 200
    assert ">Passage<" in response.text
    assert len(jsonio.load(document(response.text))[0].example.texts) == 2


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/plain", b"text=x"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=x", b"nothing of it"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\n" * 300),
        ("application/x-www-form-urlencoded", b"a=1&" * 300),
        ("application/x-www-form-urlencoded", b"text=%ff%00%ed%a0%80&method=occlusion&flip=1"),
        ("application/x-www-form-urlencoded", b"\xff\xfe&=&text=\xff"),
    ],
)
def test_hostile_forms_are_refused_or_answered(asked: Asked, kind: str, body: bytes) -> None:
    async def use(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        headers = {"content-type": kind}
        return [await client.post(path, content=body, headers=headers) for path in ("/", "/export", "/runs")]

    assert all(200 <= response.status_code < 500 for response in asked(use))


def test_hostile_pages_are_refused_or_answered(asked: Asked, tmp_path: Path) -> None:
    drawn = random.Random(0)
    values = [
        *WORDS,
        *BROKEN,
        "all",
        "-1",
        "1e308",
        "x" * 1_600,
        "../../x",
        "saved:x",
        "png-999999999999",
        "{}",
        "[" * 5_000,
    ]
    names = ["text", "second", "before", "model", "method", "target", "rather", "flip", "form", "document", "next", "x"]
    places = [
        ("GET", "/"),
        ("GET", "/record"),
        ("GET", "/runs/"),
        ("POST", "/"),
        ("POST", "/export"),
        ("POST", "/runs"),
    ]

    async def use(client: httpx2.AsyncClient) -> list[tuple[int, str]]:
        answers = []
        for number in range(HOSTILE):
            verb, path = drawn.choice([*places, ("POST", "/login"), ("GET", "/login")])
            chosen = [(drawn.choice(names), drawn.choice(values)) for _ in range(drawn.choice((0, 1, 3, 6)))]
            fields = urlencode(
                [("text", TEXT), ("method", "occlusion"), *chosen][drawn.choice((0, 2)) :], errors="replace"
            )
            body, kind = (
                (fields.encode(), "application/x-www-form-urlencoded") if drawn.random() < 0.7 else upload(drawn)
            )
            if verb == "GET":
                response = await client.get(f"{path}{drawn.choice(('?', '', '%00', '../'))}{fields}")
            else:
                response = await client.post(path, content=body, headers={"content-type": kind})
            answers.append((response.status_code, f"{number}: {verb} {path} {fields[:200]} {response.text[:200]}"))
            assert "<script>alert" not in response.text or response.headers["content-type"] == "application/json"
        return answers

    answers = asked(use, tiny_config(runs=tmp_path / "runs", limits=ServiceLimits(request_cost=3_000, body=50_000)))
    assert [about for status, about in answers if status >= 500] == []
    assert {200, 422} <= {status for status, _ in answers}


def upload(drawn: random.Random) -> tuple[bytes, str]:
    """A form with a file, damaged somewhere."""
    part = b'--x\r\nContent-Disposition: form-data; name="%b"; filename="a"\r\n\r\n%b\r\n'
    name = drawn.choice([b"image", b"text", b"method", b"\xff"])
    body = part % (name, drawn.randbytes(drawn.choice((0, 30, 900)))) * drawn.choice((1, 3)) + b"--x--\r\n"
    return body[: drawn.choice((5, 5_000))], drawn.choice(
        ("multipart/form-data; boundary=x", "multipart/form-data", "x")
    )


def test_pages_of_other_sites_may_link_here_and_not_load(asked: Asked) -> None:
    async def use(client: httpx2.AsyncClient) -> list[int]:
        address = Query(TEXT, methods=("occlusion",)).address()
        part = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        return [(await client.get(address, headers=headers)).status_code for headers in (part, link)]

    assert asked(use) == [403, 200]


def test_a_page_while_the_model_is_loaded_comes_again(asked: Asked) -> None:
    async def use(client: httpx2.AsyncClient) -> httpx2.Response:
        return await client.get("/", params={"text": TEXT})

    response = asked(use, tiny_config(models=(ServedModel("slow", "default"),)), ready=False)
    assert response.status_code == 503
    assert response.headers["refresh"] == "2"


def test_browsers_sign_in_with_the_token(asked: Asked) -> None:
    token = "a-token-for-the-tests"
    address = Query(TEXT, methods=("occlusion",)).address()

    async def use(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        closed = await client.get(address, headers={"accept": "text/html"})
        program = await client.get("/v1/models")
        wrong = await client.post("/login", data={"token": "wrong", "next": address})
        abroad = await client.post("/login", data={"token": token, "next": "//elsewhere.org"})
        client.cookies.clear()
        form = await client.get(closed.headers["location"])
        entered = await client.post("/login", data={"token": token, "next": address})
        return [closed, program, wrong, abroad, form, entered, await client.get(entered.headers["location"])]

    config = tiny_config(token=token)
    closed, program, wrong, abroad, form, entered, page = asked(use, config)
    assert (closed.status_code, program.status_code, wrong.status_code) == (303, 401, 401)
    assert abroad.headers["location"] == "/"
    assert html.escape(address) in form.text
    assert "HttpOnly" in entered.headers["set-cookie"]
    assert token not in entered.headers["set-cookie"]
    assert page.status_code == 200
    assert "document" in page.text
