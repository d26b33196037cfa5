"""``didact serve`` as a process behind a socket, and the client."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from didact.cli import parser
from didact.cli.serve import configured
from didact.client import Client, ServiceError
from didact.errors import InputError, ParameterError

TEXT = "A warm, funny and wonderful film."
TOKEN = "a-token-for-the-tests"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, subprocess.Popen[str]]]:
    """The embedded model behind a socket, with a token; its process."""
    folder = tmp_path_factory.mktemp("serve")
    command = [sys.executable, "-m", "didact", "serve", "--port", "0", "--jobs", str(folder / "jobs.db")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "DIDACT_TOKEN": TOKEN}, cwd=folder
    )
    assert process.stdout is not None
    client = Client(process.stdout.readline().split()[2], TOKEN)
    for _ in range(600):
        if client.models()[0]["state"] == "ready":
            break
        time.sleep(0.05)
    yield client, process
    process.kill()
    process.wait()
    process.stdout.close()


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


def test_a_client_that_goes_away_frees_the_service(served: tuple[Client, subprocess.Popen[str]]) -> None:
    client, _ = served
    events = client.stream([" ".join([TEXT] * 6)], method="kernel_shap", settings={"evaluations": 20_000})
    assert next(events).name == "queued"
    events.close()
    start = time.monotonic()
    client.predict([TEXT])
    assert time.monotonic() - start < 10


def test_a_signal_ends_it_after_what_was_accepted(served: tuple[Client, subprocess.Popen[str]]) -> None:
    client, process = served
    host, port = client.url.removeprefix("http://").split(":")
    with ThreadPoolExecutor(4) as pool:
        options = {"method": "kernel_shap", "settings": {"evaluations": 100}}
        sent = [pool.submit(client.explain, [f"{TEXT} {number}"], **options) for number in range(4)]
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert [len(each.result()) for each in sent] == [1] * 4
    assert process.wait(30) == 0
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
