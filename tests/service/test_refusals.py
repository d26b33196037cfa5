"""Requests that are refused: a status, a code and a sentence in one shape, and never a 5xx from input."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from didact.errors import ParameterError
from didact.service.config import ServedModel, ServiceConfig, ServiceLimits
from tests.service.conftest import TEXT, tiny_config

LIMITS = ServiceLimits(body=20_000, inputs=4, characters=1_000, request_cost=100_000, body_seconds=0.2)
JSON = {"content-type": "application/json"}

BODIES: dict[str, tuple[bytes, int, str]] = {
    "not json": (b"{", 400, "not_json"),
    "bytes that are no text": (b'{"inputs": ["\xff\xfe"]}', 400, "not_json"),
    "deep": (b"[" * 5_000 + b"]" * 5_000, 400, "not_json"),
    "a number of thousands of digits": (b'{"inputs": [%s]}' % (b"9" * 9_000), 400, "not_json"),
    "no object": (b"[1, 2]", 422, "invalid"),
    "no inputs": (b'{"inputs": []}', 422, "invalid"),
    "unknown entry": (b'{"inputs": ["a"], "trust_remote_code": true}', 422, "invalid"),
    "half a surrogate pair": (b'{"inputs": ["a \\ud800 b"]}', 422, "bad_input"),
    "half a surrogate pair as a name": (b'{"inputs": ["a"], "\\ud800": 1}', 422, "invalid"),
    "blank": (b'{"inputs": [" "]}', 422, "bad_input"),
    "nan": (b'{"inputs": ["a b"], "method": "lime", "settings": {"width": NaN}}', 422, "invalid"),
    "unknown method": (b'{"inputs": ["a b"], "method": "../../etc"}', 422, "unknown_name"),
    "unknown setting": (b'{"inputs": ["a b"], "method": "lime", "settings": {"nonsense": 1}}', 422, "invalid"),
    "unknown label": (b'{"inputs": ["a b"], "target": "neutral"}', 422, "invalid"),
    "a pair of one label": (b'{"inputs": ["a b"], "target": ["positive"]}', 422, "invalid"),
    "a pair of equal labels": (b'{"inputs": ["a b"], "target": ["positive", 1]}', 422, "invalid"),
    "a pair of spans": (b'{"inputs": ["a b"], "target": [{"start": 0, "end": 1}, "positive"]}', 422, "invalid"),
    "unknown model": (b'{"inputs": ["a b"], "model": "../../../etc/passwd"}', 404, "unknown_model"),
    "unknown explainer": (b'{"inputs": ["a b"], "explainer": "x"}', 422, "unknown_name"),
    "a file of the server": (
        b'{"inputs": ["a b"], "method": "deep_shap", "settings": {"background": "/etc/passwd"}}',
        422,
        "invalid",
    ),
    "a file in an operator": (
        b'{"inputs": ["a b"], "method": "occlusion", "settings": {"absence": "sample:1:/etc/passwd"}}',
        422,
        "invalid",
    ),
    "an image for a model of texts": (b'{"inputs": [{"image": "aGVsbG8="}]}', 422, "bad_input"),
    "many inputs": (json.dumps({"inputs": ["a b"] * 5}).encode(), 413, "too_large"),
    "a long text": (json.dumps({"inputs": ["word " * 300]}).encode(), 413, "too_large"),
    "a large body": (json.dumps({"inputs": ["word " * 9_000]}).encode(), 413, "too_large"),
}


def test_each_bad_body_is_refused_in_the_one_shape(asked: Any) -> None:
    async def use(client: httpx2.AsyncClient) -> dict[str, httpx2.Response]:
        return {
            name: await client.post("/v1/explain", content=body, headers=JSON) for name, (body, _, _) in BODIES.items()
        }

    for name, response in asked(use, tiny_config(limits=LIMITS)).items():
        _, status, code = BODIES[name]
        error = response.json()["error"]
        assert error["status"] == response.status_code, name
        assert error["message"], name
        assert (response.status_code, error["code"]) == (status, code), (name, error)


def test_costly_work_is_sent_to_the_jobs(asked: Any) -> None:
    async def use(client: httpx2.AsyncClient) -> httpx2.Response:
        settings = {"samples": 50_000}
        return await client.post("/v1/explain", json={"inputs": [TEXT], "method": "lime", "settings": settings})

    error = asked(use, tiny_config(limits=LIMITS)).json()["error"]
    assert error["code"] == "too_costly"
    assert "/v1/jobs" in error["message"]
    assert error["cost"] > error["limit"] == LIMITS.request_cost


def test_a_path_that_is_not_there_and_a_wrong_verb(asked: Any) -> None:
    async def use(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        paths = ("/v1/../../etc/passwd", "/v1/explain", "/%2e%2e/%2e%2e/etc/passwd", "/v1/models/x")
        return [await client.get(path) for path in paths]

    assert [response.json()["error"]["status"] for response in asked(use)] == [404, 405, 404, 404]


def test_other_types_than_json_are_refused(asked: Any) -> None:
    async def use(client: httpx2.AsyncClient) -> list[int]:
        kinds = ("text/plain", "application/x-www-form-urlencoded", "")
        body = json.dumps({"inputs": [TEXT]})
        responses = [await client.post("/v1/predict", content=body, headers={"content-type": kind}) for kind in kinds]
        return [response.status_code for response in responses]

    assert asked(use) == [415, 415, 415]


def test_a_body_in_pieces_counts_as_one_that_announces_its_length(asked: Any) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 1_000

    async def use(client: httpx2.AsyncClient) -> httpx2.Response:
        return await client.post("/v1/predict", content=pieces(), headers=JSON)

    assert asked(use, tiny_config(limits=LIMITS)).json()["error"]["code"] == "too_large"


def test_a_body_that_takes_too_long_is_given_up(asked: Any) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(1)
        yield b"}"

    async def use(client: httpx2.AsyncClient) -> httpx2.Response:
        return await client.post("/v1/predict", content=slow(), headers=JSON)

    assert asked(use, tiny_config(limits=LIMITS)).json()["error"]["code"] == "slow_body"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8300", "", "localhost@evil.example"])
def test_another_host_is_refused(asked: Any, host: str) -> None:
    async def use(client: httpx2.AsyncClient) -> httpx2.Response:
        return await client.get("/v1/models", headers={"host": host})

    assert asked(use, ready=False).json()["error"]["code"] == "unknown_host"


def test_pages_of_other_origins_are_refused(asked: Any) -> None:
    async def use(client: httpx2.AsyncClient) -> list[int]:
        origins = ("http://evil.example", "null", "http://127.0.0.1:8300", "https://good.example")
        return [(await client.get("/livez", headers={"origin": origin})).status_code for origin in origins]

    assert asked(use, tiny_config(origins=("https://good.example",)), ready=False) == [403, 403, 200, 200]


def test_a_token_is_needed_everywhere_but_for_health(asked: Any) -> None:
    token = "sixteen-characters"

    async def use(client: httpx2.AsyncClient) -> list[int]:
        headers = [{}, {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {token}"}]
        found = [(await client.get("/v1/models", headers=each)).status_code for each in headers]
        return [*found, *[(await client.get(path)).status_code for path in ("/livez", "/metrics", "/openapi.json")]]

    assert asked(use, tiny_config(token=token), ready=False) == [401, 401, 200, 200, 401, 401]


def test_other_hosts_than_loopback_need_a_token() -> None:
    with pytest.raises(ParameterError, match="needs a token"):
        ServiceConfig(host="0.0.0.0")
    with pytest.raises(ParameterError, match="16 ASCII characters"):
        ServiceConfig(host="0.0.0.0", token="short")
    with pytest.raises(ParameterError, match="no code that comes with a model"):
        ServedModel("x", options={"trust_remote_code": True})


def test_a_model_that_cannot_be_loaded_leaves_the_others_alone(asked: Any) -> None:
    models = (*tiny_config().models, ServedModel("broken", "/nowhere/at/all"))

    async def use(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        while "loading" in (await client.get("/readyz")).json()["models"].values():
            await asyncio.sleep(0.01)
        bodies = ({"inputs": [TEXT]}, {"inputs": [TEXT], "model": "broken"})
        return [
            await client.get("/readyz"),
            *[await client.post("/v1/predict", json=body) for body in bodies],
        ]

    ready, works, broken = asked(use, tiny_config(models=models), ready=False)
    assert ready.status_code == 503
    assert ready.json()["models"] == {"tiny": "ready", "broken": "failed"}
    assert works.status_code == 200
    assert broken.status_code == 503
