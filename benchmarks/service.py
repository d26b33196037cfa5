"""A service under load, all on this machine.

Usage:
    python -m benchmarks.service mixed --minutes 5
    python -m benchmarks.service together --minutes 1.5
    python -m benchmarks.service overload --minutes 2
    python -m benchmarks.service kills --kills 3

``didact serve`` runs as a process of its own with the embedded model and an explainer that learned occlusion's scores;
clients are threads here, each with a connection that stays open. Each part writes docs/results/service/PART.json.

mixed      64 clients send predictions (6 of 10), the learned explainer (3 of 10) and KernelSHAP with 50 evaluations (1
           of 10), one request after the other; memory of the service every five seconds
together   64 clients of the learned explainer: a service that computes waiting requests together and one that computes
           one at a time run side by side and are loaded in turns; and one client alone
overload   KernelSHAP: first the rate that the service manages with 8 clients, then requests at fixed times at 0.8, 1
           and 2 times that rate; a refused request comes back once, after the time that it was given
kills      a job of 60 texts while the service is killed (-9) and started again
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.service_load import Mix, closed_loop, open_loop
from didact.client import Client
from didact.data.corpus import generate

OUT = Path(__file__).resolve().parents[1] / "docs" / "results" / "service"
CLIENTS = 64
ROUNDS = 3
LOADS = (0.8, 1.0, 2.0)
PREDICT: tuple[str, str, dict[str, object]] = ("predict", "/v1/predict", {})
LEARNED = ("learned", "/v1/explain", {"explainer": "fast"})
SHAP = ("kernel_shap", "/v1/explain", {"method": "kernel_shap", "settings": {"evaluations": 50}})
MIX: Mix = (*[PREDICT] * 6, *[LEARNED] * 3, SHAP)


def main() -> None:
    """Measure one part, and write its record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--minutes", type=float, default=2.0, help="of load (default: 2)")
    parser.add_argument("--kills", type=int, default=3, help="how often the service is killed (default: 3)")
    parser.add_argument("--texts", type=int, default=120, help="texts that the explainer learns from")
    parser.add_argument("--explainer", type=Path, metavar="DIR", help="a saved one in place of training it")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the record")
    options = parser.parse_args()
    bound = f"--kills {options.kills}" if options.part == "kills" else f"--minutes {options.minutes:g}"
    record = {
        "command": f"python -m benchmarks.service {options.part} {bound}",
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "as torch chooses"),
        "load_before": round(os.getloadavg()[0], 2),
    }
    with tempfile.TemporaryDirectory() as place:
        folder = options.explainer or Path(place) / "explainer"
        if options.explainer is None and options.part in ("mixed", "together"):
            train(folder, options.texts)
        record |= PARTS[options.part](folder, options.kills if options.part == "kills" else 60 * options.minutes)
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{options.part}.json"
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(file.read_text(encoding="utf-8"))


def train(folder: Path, texts: int) -> None:
    """An explainer of the embedded model that learned occlusion's scores."""
    from didact.api import load_model
    from didact.experimenting import train as learn

    learn("l2e", generate(texts, seed=1), load_model(), "occlusion", out=folder)


def mixed(folder: Path, seconds: float) -> dict[str, Any]:
    """Times by kind of request, and memory."""
    with served(folder, queued_seconds=120) as (client, process):
        sizes, ended = [], threading.Event()

        def watch() -> None:
            while not ended.wait(5.0):
                sizes.append(round(megabytes(process), 1))

        watcher = threading.Thread(target=watch)
        watcher.start()
        load = closed_loop(client.url, seconds, CLIENTS, MIX, _texts(1_000))
        ended.set()
        watcher.join()
    return {"clients": CLIENTS, "seconds": seconds, "megabytes": sizes, **load.record()}


def together(folder: Path, seconds: float) -> dict[str, Any]:
    """Requests per second in turns."""
    rates: dict[str, list[float]] = {"together": [], "one at a time": [], "one client": []}
    sizes: list[float] = []
    texts, turn = _texts(1_000), seconds / (3 * ROUNDS)
    with (
        served(folder, queued_seconds=600) as (many, _),
        served(folder, queued_seconds=600, batch_cost=1.0) as (single, _),
    ):
        for _ in range(ROUNDS):
            for name, client, clients in (
                ("together", many, CLIENTS),
                ("one at a time", single, CLIENTS),
                ("one client", many, 1),
            ):
                start, before = time.monotonic(), _batches(client)
                load = closed_loop(client.url, turn, clients, [LEARNED], texts)
                rates[name].append(round(load.statuses["200"] / (time.monotonic() - start), 2))
                if name == "together":
                    requests, batches = np.subtract(_batches(client), before)
                    sizes.append(round(float(requests / batches), 1))
    ratios = [many / alone for many, alone in zip(rates["together"], rates["one at a time"], strict=True)]
    return {
        "clients": CLIENTS,
        "seconds": turn,
        "rates": rates,
        "ratio": float(np.median(ratios)),
        "requests_per_batch": sizes,
    }


def overload(folder: Path, seconds: float) -> dict[str, Any]:
    """What the service manages, then loads in proportion to it."""
    part, texts = seconds / (1 + len(LOADS)), _texts(200)
    with served(None, queued_seconds=1.0, batch_seconds=0.5) as (client, _):
        closed_loop(client.url, min(5.0, part), 8, [SHAP], texts)  # the service learns how fast it is
        capacity = closed_loop(client.url, part, 8, [SHAP], texts).statuses["200"] / part
        loads = {}
        for factor in LOADS:
            load = open_loop(client.url, factor * capacity, part, [SHAP], texts)
            loads[f"{factor:g}"] = {"rate": round(factor * capacity, 2), **load.record()}
            time.sleep(5.0)  # what was accepted is done
    return {"seconds": part, "capacity": round(capacity, 2), "loads": loads}


def kills(folder: Path, count: float) -> dict[str, Any]:
    """A job whose service is killed and started again; its results beside those of a job that was not disturbed."""
    texts = _texts(60)
    body = {"method": "kernel_shap", "settings": {"evaluations": 50}}
    with tempfile.TemporaryDirectory() as place:
        jobs, disturbed, done = str(Path(place) / "jobs.db"), "", []
        for number in range(int(count) + 1):
            with served(None, jobs=jobs, killed=number < count) as (client, _):
                disturbed = disturbed or client.submit(texts, **body)
                wanted = len(texts) * (number + 1) // (int(count) + 1)
                done.append(_until(client, disturbed, wanted))
                results = client.job(disturbed, results=True)["results"]
                whole = client.submit(texts, **body) if number == count else ""
                plain = _whole(client, whole, len(texts)) if whole else []
    same = [np.allclose(_scores(one), _scores(other), atol=1e-4) for one, other in zip(results, plain, strict=True)]
    return {
        "kills": int(count),
        "texts": len(texts),
        "done_at_kill": done[:-1],
        "results": sum(each is not None for each in results),
        "equal": sum(map(bool, same)),
    }


PARTS: Mapping[str, Callable[[Path, float], dict[str, Any]]] = {
    "mixed": mixed,
    "together": together,
    "overload": overload,
    "kills": kills,
}


@contextlib.contextmanager
def served(
    folder: Path | None, *, jobs: str | None = None, killed: bool = False, **limits: float
) -> Iterator[tuple[Client, int]]:
    """A service as a process; its client and its number.

    Args:
        folder: of the saved explainer "fast".
        jobs: file of jobs.
        killed: end it by SIGKILL.
        limits: of the service.
    """
    with tempfile.TemporaryDirectory() as place:
        lines = [f'jobs = "{jobs}"'] if jobs else []
        lines += ["[limits]", *(f"{name} = {float(value)}" for name, value in limits.items())]
        lines += ["[[models]]", 'name = "default"']
        lines += ["[models.explainers]", f'fast = "{folder}"'] if folder is not None else []
        config = Path(place) / "service.toml"
        config.write_text("\n".join(lines), encoding="utf-8")
        command = [sys.executable, "-m", "didact", "serve", "--port", "0", "--config", str(config)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            client = Client(process.stdout.readline().split()[2], retries=10)
            while client.models()[0]["state"] == "loading":
                time.sleep(0.1)
            client.predict(["A warm film."])
            yield client, process.pid
        finally:
            process.kill() if killed else process.terminate()
            process.wait(90)


def megabytes(process: int) -> float:
    """Memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _texts(count: int) -> list[str]:
    return [str(example.text) for example in generate(count, seed=2)]


def _until(client: Client, job: str, wanted: int) -> int:
    """How many results a job has once it has as many as wanted."""
    while (done := int(client.job(job)["done"])) < wanted:
        time.sleep(0.02)
    return done


def _whole(client: Client, job: str, count: int) -> list[Any]:
    _until(client, job, count)
    return list(client.job(job, results=True)["results"])


def _scores(result: Mapping[str, Any]) -> list[float]:
    return list(result["explanation"]["scores"])


def _batches(client: Client) -> tuple[float, float]:
    """Requests to the learned explainer so far, and the batches in which they were computed."""
    with urllib.request.urlopen(f"{client.url}/metrics") as response:
        lines = response.read().decode().splitlines()
    own = [line for line in lines if 'method="fast"' in line]
    names = ("didact_batch_requests_sum", "didact_batch_requests_count")
    total, count = (sum(float(line.rpartition(" ")[2]) for line in own if line.startswith(name)) for name in names)
    return total, count


if __name__ == "__main__":
    main()
