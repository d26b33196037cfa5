"""``didact serve`` as a process behind a socket, and the client."""

import json
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from didact.cli import parser
from didact.cli.serve import configured
from didact.client import Client, ServiceError
from didact.errors import InputError, ParameterError
from didact.service.jobs import JobStore
from tests.service.conftest import TOKEN, process

TEXT = "A warm, funny and wonderful film."


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, subprocess.Popen[str]]]:
    """The embedded model behind a socket, with a token; its process."""
    with process(tmp_path_factory.mktemp("serve"), "body_seconds = 1") as started:
        yield started


def test_the_client_has_what_the_service_offers(served: tuple[Client, subprocess.Popen[str]]) -> None:
    client, _ = served
    (explanation,) = client.explain([TEXT], method="occlusion", target="positive")
    assert explanation.target.label == "positive"
    assert explanation.top(1)[0][0] in ("warm", "funny", "wonderful")
    assert client.predict([TEXT])[0].label == "positive"
    assert [each.method for each in client.compare(TEXT, ["occlusion", "attention"])] == ["occlusion", "attention"]
    assert client.cost([TEXT], method="occlusion")["forwards"] == explanation.cost.forwards
    assert "lime" in [card["name"] for card in client.methods()]
    *_, last = client.stream([TEXT], method="occlusion")
    assert last.explanations[0].scores == pytest.approx(explanation.scores, abs=1e-5)
    job = client.submit([TEXT, TEXT], method="occlusion")
    while client.job(job)["state"] != "done":
        time.sleep(0.02)
    assert len(client.job(job, results=True)["results"]) == 2
    client.delete(job)


def test_refusals_reach_the_caller_as_errors(served: tuple[Client, subprocess.Popen[str]]) -> None:
    client, _ = served
    with pytest.raises(ServiceError, match="did you mean lime") as refused:
        client.explain([TEXT], method="limes")
    assert refused.value.status == 422
    with pytest.raises(ServiceError, match="bearer token"):
        Client(client.url).models()
    with pytest.raises(ServiceError, match="does not answer"):
        Client("http://127.0.0.1:1").models()
    with pytest.raises(InputError, match="must be like"):
        Client("ftp://x").models()


def opened(client: Client, path: str, body: bytes, length: int | None = None) -> socket.socket:
    """A connection on which a request was begun; ``length`` announces more than is sent."""
    host, port = client.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    head = [f"POST {path} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {TOKEN}"]
    head += ["Content-Type: application/json", f"Content-Length: {length or len(body)}", "", ""]
    connection.sendall("\r\n".join(head).encode() + body)
    return connection


COSTLY = {"inputs": [" ".join([TEXT] * 6)], "method": "kernel_shap", "settings": {"evaluations": 20_000}}


def test_clients_that_go_away_free_the_service(served: tuple[Client, subprocess.Popen[str]]) -> None:
    client, _ = served
    events = client.stream(**COSTLY)
    assert next(events).name == "queued"
    events.close()
    gone = [opened(client, "/v1/explain", json.dumps(COSTLY).encode()) for _ in range(3)]
    time.sleep(0.2)
    for connection in gone:
        connection.close()
    start = time.monotonic()
    client.predict([TEXT])
    assert time.monotonic() - start < 10, "the work of clients that went away was computed"


def test_slow_clients_are_given_up_and_hold_up_nobody(served: tuple[Client, subprocess.Popen[str]]) -> None:
    client, _ = served
    slow = [opened(client, "/v1/predict", b'{"inputs"', length=500) for _ in range(20)]
    deaf = opened(client, "/v1/explain/stream", json.dumps({"inputs": [TEXT], "method": "kernel_shap"}).encode())
    assert len(client.predict([TEXT])) == 1
    for connection in slow:
        with connection:
            assert b"408" in connection.recv(100).partition(b"\r\n")[0]
    deaf.close()
    assert len(client.predict([TEXT])) == 1


def test_a_killed_service_goes_on_with_its_job_and_a_signal_finishes_what_was_accepted(tmp_path: Path) -> None:
    texts = [f"{TEXT} {number}" for number in range(16)]
    options = {"method": "kernel_shap", "settings": {"evaluations": 40}}
    with process(tmp_path, "batch_cost = 1") as (client, started):
        job = client.submit(texts, **options)
        while client.job(job)["done"] < 2:
            time.sleep(0.01)
        started.kill()
        started.wait()
    before = JobStore(tmp_path / "jobs.db")
    kept = before.results(job)
    before.close()
    assert 2 <= len(kept) < 16
    with process(tmp_path) as (client, started):
        while client.job(job)["state"] != "done":
            time.sleep(0.05)
        results = client.job(job, results=True)["results"]
        assert [each["explanation"]["units"]["example"]["text"] for each in results] == texts
        assert {number: results[number] for number in kept} == {n: json.loads(text) for n, text in kept.items()}
        _ends_under_load(client, started)


def _ends_under_load(client: Client, started: subprocess.Popen[str]) -> None:
    """At SIGTERM what was accepted is answered, while other clients go on sending."""
    statuses: Counter[int] = Counter()

    def hammer() -> None:
        while started.poll() is None:
            try:
                client.predict([TEXT])
                statuses[200] += 1
            except ServiceError as problem:
                statuses[problem.status] += 1

    with ThreadPoolExecutor(12) as pool:
        options = {"method": "kernel_shap", "settings": {"evaluations": 100}}
        sent = [pool.submit(client.explain, [f"{TEXT} {number}"], **options) for number in range(8)]
        others = [pool.submit(hammer) for _ in range(4)]
        time.sleep(1.0)
        started.send_signal(signal.SIGTERM)
        assert [len(each.result()) for each in sent] == [1] * 8
        assert started.wait(60) == 0
        for each in others:
            each.result()
    assert set(statuses) <= {200, 503, 0}, "0: it does not listen any more"
    assert statuses[200] > 0
    host, port = client.url.removeprefix("http://").split(":")
    with socket.socket() as after:
        assert after.connect_ex((host, int(port))) != 0


def test_options_become_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIDACT_TOKEN", raising=False)
    file = tmp_path / "service.toml"
    file.write_text(
        'port = 9\n[limits]\ninputs = 3\n[[models]]\nname = "a"\nsource = "default"\ninputs = "text"\n', "utf-8"
    )
    made = configured(parser().parse_args(["serve", "--config", str(file), "--port", "7"]))
    assert (made.port, made.limits.inputs, made.models[0].options) == (7, 3, {"inputs": "text"})
    named = configured(parser().parse_args(["serve", "--model", "a=x", "--explainer", "a:fast=runs/l2e"]))
    assert named.models[0].explainers == {"fast": "runs/l2e"}
    for wrong in (["--host", "0.0.0.0"], ["--model", "a"], ["--explainer", "b:fast=x"]):
        with pytest.raises(ParameterError):
            configured(parser().parse_args(["serve", *wrong]))


def test_no_thread_is_left_behind() -> None:
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("didact-")]
