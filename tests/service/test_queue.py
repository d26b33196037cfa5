"""The queue: requests computed together, refused when it is full, stopped when nobody waits."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx2
import numpy as np
import pytest

from didact.api import load_explainer, load_model
from didact.service.app import create_app
from didact.service.batches import compute
from didact.service.config import ServedModel, ServiceLimits
from didact.service.problems import Refusal
from didact.service.rates import Rates
from didact.service.tasks import Explaining, Predicting
from didact.service.tickets import GRACE, Tickets
from didact.service.waiting import Waiting
from didact.service.work import Work
from didact.testing.tiny import TEXTS, tiny_model
from didact.types import Example, Explanation
from tests.service.conftest import TEXT, reached, tiny_config


class Held:
    """A classifier that waits at a gate before each answer."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.calls: list[int] = []

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.calls.append(len(texts))
        assert self.gate.wait(20)
        share = np.array([len(text) % 7 / 7 for text in texts])
        return np.stack([1 - share, share], axis=1)

    def served(self) -> ServedModel:
        return ServedModel("held", self, {"labels": ["no", "yes"], "name": "held", "version": "1"})


async def until(holds: Callable[[], object]) -> None:
    for _ in range(2_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen within 20 seconds")


def work(text: str, method: str = "occlusion", cost: float = 10.0, **given: Any) -> Work:
    return Work(Explaining(load_explainer(method)), [Example(text)], [None], cost, **given)


def test_works_computed_together_have_the_results_of_each_alone() -> None:
    model = load_model(tiny_model())
    for method in ("integrated_gradients", "kernel_shap", "occlusion", "lime"):
        works = [work(text, method) for text in TEXTS]
        compute(model, works)
        for one, text in zip(works, TEXTS, strict=True):
            (made,) = one.result.result()
            (alone,) = load_explainer(method).explain(model, [text])
            assert isinstance(made, Explanation)
            assert made.units == alone.units
            np.testing.assert_allclose(made.scores, alone.scores, atol=1e-5)


def test_the_fault_of_one_request_is_not_anothers() -> None:
    good, bad = work(TEXT), work(TEXT)
    bad.targets = ["neutral"]
    compute(load_model(tiny_model()), [good, bad])
    assert len(good.result.result()) == 1
    with pytest.raises(Exception, match="unknown label"):
        bad.result.result()


def test_a_batch_holds_works_of_one_kind_up_to_its_cost() -> None:
    waiting = Waiting(ServiceLimits(batch_cost=25), Rates())
    works = [work(TEXT), work(TEXT, "lime"), work(TEXT), work(TEXT)]
    waiting.accept(works)
    assert waiting.take() == [works[0], works[2]]
    waiting.finished()
    assert waiting.take() == [works[1]]
    waiting.finished()
    assert waiting.take() == [works[3]]


def test_quick_work_overtakes_slow_work_and_background_work_waits_for_both() -> None:
    waiting = Waiting(ServiceLimits(queued_seconds=1e9), Rates())
    behind = work(TEXT, background=True)
    slow = work(TEXT, "lime", cost=1e6)
    quick = work(TEXT)
    for each in (behind, slow, quick):
        waiting.accept([each])
    assert [waiting.take()[0] for _ in range(3)] == [quick, slow, behind]


def test_a_full_queue_refuses_with_the_time_until_there_is_room() -> None:
    rates = Rates()
    rates.learn("occlusion", cost=100, seconds=10)
    waiting = Waiting(ServiceLimits(queued_seconds=5), rates)
    waiting.accept([work(TEXT, cost=45)])
    with pytest.raises(Refusal) as refused:
        waiting.accept([work(TEXT, cost=45)])
    assert refused.value.status_code == 429
    assert refused.value.headers is not None
    assert refused.value.headers["Retry-After"] == "4"  # 4.5 s wait, 4.5 s come: room for them after 4 s


def refused_with(waiting: Waiting, cost: float, ticket: str = "") -> tuple[float, str]:
    with pytest.raises(Refusal) as refused:
        waiting.accept([work(TEXT, cost=cost)], ticket)
    assert refused.value.status_code == 429
    return float(str(refused.value.more["retry_after"])), str(refused.value.more["ticket"])


def test_a_refused_request_finds_room_when_it_comes_back_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = Rates()
    rates.learn("occlusion", cost=1, seconds=1)
    waiting = Waiting(ServiceLimits(queued_seconds=20), rates)
    waiting.accept([work(TEXT, cost=15)])
    waiting.accept([work(TEXT, cost=4)])
    first_wait, ticket = refused_with(waiting, cost=10)
    second_wait, _ = refused_with(waiting, cost=10)
    assert second_wait >= first_wait + 9, "promised work is done one after the other"
    refused_with(waiting, cost=0.5)  # there is room for it, but that is promised
    refused_with(waiting, 10, ticket)  # it comes long before its time
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + first_wait)
    waiting.accept([work(TEXT, cost=10)], ticket)
    refused_with(waiting, 10, ticket)  # a ticket is good for one request


def test_tickets_that_do_not_come_back_keep_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    tickets = Tickets()
    ticket = tickets.issue(1.0, 5.0)
    assert tickets.promised(2.0) == 5.0
    assert tickets.promised(0.5) == 0.0
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 1.0 + GRACE + 0.1)
    assert tickets.promised(2.0) == 0.0
    assert not tickets.use(ticket.name)


def test_a_batch_waits_for_requests_that_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("didact.service.waiting.PAUSE", 20.0)
    monkeypatch.setattr("didact.service.waiting.GATHERING", 1e9)
    waiting = Waiting(ServiceLimits(), Rates())
    works = [work(TEXT) for _ in range(5)]
    waiting.accept(works[:1])
    assert waiting.take() == works[:1], "a single request does not wait"
    waiting.finished()
    waiting.accept(works[1:3])
    assert waiting.take() == works[1:3]
    waiting.finished()
    waiting.accept(works[3:4])
    threading.Timer(0.02, waiting.forget, [works[0]]).start()  # an answer that is sent is no reason to go on
    threading.Timer(0.05, waiting.accept, [works[4:]]).start()
    assert waiting.take() == works[3:]


def test_a_batch_takes_no_longer_than_its_seconds() -> None:
    rates = Rates()
    rates.learn("occlusion", cost=100, seconds=1)
    waiting = Waiting(ServiceLimits(batch_seconds=0.35), rates)
    waiting.accept([work(TEXT) for _ in range(5)])  # a tenth of a second each
    assert len(waiting.take()) == 3


def test_an_empty_queue_takes_any_request() -> None:
    rates = Rates()
    rates.learn("occlusion", cost=1, seconds=100)
    waiting = Waiting(ServiceLimits(queued_seconds=5), rates)
    waiting.accept([work(TEXT, cost=10)])
    assert waiting.size == (1, 10)


def test_what_is_closed_finishes_what_it_accepted_and_takes_nothing_new() -> None:
    waiting = Waiting(ServiceLimits(), Rates())
    kept, dropped = work(TEXT), work(TEXT, background=True)
    waiting.accept([kept])
    waiting.accept([dropped])
    waiting.close()
    with pytest.raises(Refusal, match="shutting down"):
        waiting.accept([work(TEXT)])
    assert waiting.take() == [kept]
    waiting.finished()
    assert waiting.take() == []
    assert dropped.result.cancelled()


def test_requests_at_the_same_time_share_a_call() -> None:
    held = Held()

    limits = ServiceLimits(batch_seconds=1e9)  # how long the gate is shut is no measure of the model

    async def main() -> list[httpx2.Response]:
        app = create_app(tiny_config(models=(held.served(),), limits=limits))
        held.gate.set()
        async with reached(app) as client:
            held.gate.clear()
            held.calls.clear()
            bodies = [{"inputs": [f"text number {number}"]} for number in range(6)]
            sent = [asyncio.create_task(client.post("/v1/predict", json=bodies[0]))]
            await until(lambda: held.calls)
            sent += [asyncio.create_task(client.post("/v1/predict", json=body)) for body in bodies[1:]]
            await until(lambda: app.state.service.workers["held"].waiting.size[0] == 5)
            held.gate.set()
            return await asyncio.gather(*sent)

    responses = asyncio.run(main())
    assert [response.status_code for response in responses] == [200] * 6
    assert held.calls == [1, 5]


def test_a_deadline_is_answered_in_time_and_the_work_dropped() -> None:
    held = Held()

    async def main() -> tuple[httpx2.Response, int]:
        app = create_app(tiny_config(models=(held.served(),)))
        held.gate.set()
        async with reached(app) as client:
            held.gate.clear()
            held.calls.clear()
            first = asyncio.create_task(client.post("/v1/predict", json={"inputs": ["a b"]}))
            await until(lambda: held.calls)
            late = await client.post("/v1/predict", json={"inputs": ["c d"], "seconds": 0.1})
            left = app.state.service.workers["held"].waiting.size[0]
            held.gate.set()
            assert (await first).status_code == 200
            return late, left

    late, left = asyncio.run(main())
    assert late.status_code == 504
    assert late.json()["error"]["code"] == "deadline"
    assert left == 0


class Slow:
    """A classifier that takes its time for every text."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.seen += len(texts)
        time.sleep(0.002 * len(texts))
        share = np.array([min(0.9, 0.1 + 0.1 * text.count("o")) for text in texts])
        return np.stack([1 - share, share], axis=1)


def test_a_deadline_brings_the_estimates_so_far() -> None:
    slow = Slow()
    model = ServedModel("slow", slow, {"labels": ["no", "yes"], "name": "slow", "version": "1"})

    async def main() -> tuple[httpx2.Response, int]:
        async with reached(create_app(tiny_config(models=(model,)))) as client:
            text = " ".join(f"word{number}o" for number in range(14))
            body = {"inputs": [text], "method": "kernel_shap", "settings": {"evaluations": 4000}, "seconds": 1.5}
            return await client.post("/v1/explain", json=body), slow.seen

    response, seen = asyncio.run(main())
    assert response.status_code == 504, response.text
    (partial,) = [Explanation.from_dict(plain) for plain in response.json()["error"]["partial"]]
    assert len(partial.errors) == len(partial.scores) == 14
    assert 30 < partial.cost.forwards < 4000
    assert slow.seen < seen + 1500, "the computation went on after its deadline"


def test_work_stops_when_its_client_goes() -> None:
    slow = Slow()
    model = ServedModel("slow", slow, {"labels": ["no", "yes"], "name": "slow", "version": "1"})

    async def main() -> None:
        app = create_app(tiny_config(models=(model,)))
        async with reached(app) as client:
            text = " ".join(f"word{number}o" for number in range(14))
            body = {"inputs": [text], "method": "kernel_shap", "settings": {"evaluations": 4000}}
            sent = asyncio.create_task(client.post("/v1/explain", json=body))
            await until(lambda: slow.seen >= 100)
            sent.cancel()
            worker = app.state.service.workers["slow"]
            await until(lambda: worker.waiting.idle)
            assert (await client.post("/v1/predict", json={"inputs": ["a"]})).status_code == 200

    asyncio.run(main())
    assert slow.seen < 3000


def test_the_end_finishes_what_was_accepted() -> None:
    held = Held()

    async def main() -> tuple[list[httpx2.Response], int]:
        app = create_app(tiny_config(models=(held.served(),)))
        held.gate.set()
        async with reached(app) as client:
            held.gate.clear()
            held.calls.clear()
            sent = [asyncio.create_task(client.post("/v1/predict", json={"inputs": ["a b"]}))]
            await until(lambda: held.calls)
            sent += [asyncio.create_task(client.post("/v1/predict", json={"inputs": ["a b"]})) for _ in range(2)]
            await until(lambda: app.state.service.workers["held"].waiting.size[0] == 2)
            app.state.service.drain()
            refused = await client.post("/v1/predict", json={"inputs": ["a b"]})
            assert (await client.get("/readyz")).status_code == 503
            held.gate.set()
            return await asyncio.gather(*sent), refused.status_code

    responses, refused = asyncio.run(main())
    assert [response.status_code for response in responses] == [200] * 3
    assert refused == 503


def test_predictions_are_counted_by_tokens() -> None:
    model = load_model(tiny_model())
    short, long = (Predicting().estimate(model, [Example(text)]).seconds for text in ("film", TEXT))
    assert 1 <= short < long
