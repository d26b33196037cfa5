"""What takes long: events while it is computed, and jobs that outlive the service."""

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from didact.api import load_explainer, load_model
from didact.service.app import create_app
from didact.service.config import ServedModel, ServiceLimits
from didact.service.jobs import JobStore
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Explanation
from tests.service.conftest import TEXT, reached, tiny_config


def events(text: str) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def test_a_stream_has_progress_estimates_and_the_result_of_python(asked: Any) -> None:
    async def use(client: httpx2.AsyncClient) -> str:
        body = {"inputs": [TEXT], "method": "shapley_sampling"}
        return (await client.post("/v1/explain/stream", json=body)).text

    seen = events(asked(use))
    names = [name for name, _ in seen]
    assert names[0] == "queued"
    assert names[-1] == "result"
    assert "progress" in names
    partial = [Explanation.from_dict(data["explanations"][0]) for name, data in seen if name == "partial"]
    (alone,) = load_explainer("shapley_sampling").explain(load_model(tiny_model()), [TEXT])
    (final,) = [Explanation.from_dict(plain) for plain in seen[-1][1]["explanations"]]
    np.testing.assert_allclose(final.scores, alone.scores, atol=1e-5)
    assert partial
    assert partial[0].cost.forwards <= final.cost.forwards


def test_a_stream_ends_with_the_error(asked: Any) -> None:
    async def use(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        bodies = ({"inputs": [TEXT], "target": "neutral"}, {"inputs": [TEXT], "method": "nothing"})
        return [await client.post("/v1/explain/stream", json=body) for body in bodies]

    late, early = asked(use)
    assert events(late.text)[-1][0] == "error"
    assert early.status_code == 422


async def ended(client: httpx2.AsyncClient, place: str) -> Any:
    for _ in range(1_000):
        plain = (await client.get(place, params={"results": "true"})).json()
        if plain["state"] in ("done", "failed"):
            return plain
        await asyncio.sleep(0.02)
    raise AssertionError(f"the job did not end: {plain}")


def test_a_job_has_the_explanations_in_order_and_errors_of_its_inputs(asked: Any, tmp_path: Path) -> None:
    limits = ServiceLimits(request_cost=10)

    async def use(client: httpx2.AsyncClient) -> Any:
        body = {"inputs": [*TEXTS, "?"], "method": "occlusion"}
        assert (await client.post("/v1/explain", json=body)).json()["error"]["code"] == "too_costly"
        response = await client.post("/v1/jobs", json=body)
        assert response.status_code == 202, response.text
        made = await ended(client, response.headers["location"])
        deleted = await client.delete(response.headers["location"])
        gone = await client.get(response.headers["location"])
        return made, deleted.status_code, gone.json()["error"]["code"]

    made, deleted, gone = asked(use, tiny_config(jobs=tmp_path / "jobs.db", limits=limits))
    assert (made["done"], made["total"], made["state"]) == (5, 5, "done")
    texts = [each["explanation"]["units"]["example"]["text"] for each in made["results"]]
    assert texts == [*TEXTS, "?"]
    assert (deleted, gone) == (200, "unknown_job")


def test_a_job_of_every_class_has_them_by_input(asked: Any, tmp_path: Path) -> None:
    async def use(client: httpx2.AsyncClient) -> Any:
        body = {"inputs": list(TEXTS[:2]), "method": "occlusion", "target": "all"}
        return await ended(client, (await client.post("/v1/jobs", json=body)).headers["location"])

    made = asked(use, tiny_config(jobs=tmp_path / "jobs.db"))
    assert [sorted(each["target"]["index"] for each in own["explanations"]) for own in made["results"]] == [[0, 1]] * 2


def test_jobs_need_a_file(asked: Any) -> None:
    async def use(client: httpx2.AsyncClient) -> httpx2.Response:
        return await client.post("/v1/jobs", json={"inputs": [TEXT]})

    assert asked(use).json()["error"]["code"] == "no_jobs"


class Stalling:
    """A classifier that stops answering after some texts, until it is let go."""

    def __init__(self, first: int) -> None:
        self.left = first
        self.go = threading.Event()
        self.stalled = threading.Event()

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.left -= len(texts)
        if self.left < 0:
            self.stalled.set()
            assert self.go.wait(20)
        return np.array([[0.3, 0.7]] * len(texts))

    def served(self) -> ServedModel:
        return ServedModel("stalling", self, {"labels": ["no", "yes"], "name": "stalling", "version": "1"})


def test_a_job_goes_on_after_a_restart_and_computes_nothing_twice(tmp_path: Path) -> None:
    texts = [f"text number {number}" for number in range(6)]
    limits = ServiceLimits(batch_cost=1)  # one input at a time
    first, second = Stalling(20), Stalling(10_000)

    file = tmp_path / "jobs.db"

    async def start() -> str:
        config = tiny_config(models=(first.served(),), jobs=file, limits=limits)
        async with reached(create_app(config)) as client:
            response = await client.post("/v1/jobs", json={"inputs": texts, "method": "occlusion"})
            while not first.stalled.is_set():
                await asyncio.sleep(0.01)
            threading.Timer(0.2, first.go.set).start()  # the app ends while an input is computed
            return str(response.headers["location"])

    async def go_on(place: str) -> Any:
        async with reached(create_app(tiny_config(models=(second.served(),), jobs=file, limits=limits))) as client:
            return await ended(client, place)

    place = asyncio.run(start())
    between = JobStore(file).status(place.rpartition("/")[2])
    assert between is not None
    assert between.state == "running"
    assert 0 < between.done < 6
    made = asyncio.run(go_on(place))
    taken = 10_000 - second.left
    assert made["done"] == 6
    (alone,) = load_explainer("occlusion").explain(load_model(first, labels=["no", "yes"]), texts[:1])
    assert alone.cost.evaluated is not None
    assert taken == (6 - between.done) * alone.cost.evaluated
