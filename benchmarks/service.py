"""A service under load: mixed traffic, requests computed together, and more than it can do. All on this machine.

Usage:
    python -m benchmarks.service --minutes 5 --out docs/results/service.json

``didact serve`` runs as a process of its own with the embedded model and an explainer that learns occlusion's scores;
64 clients are threads here. Three parts share the minutes:

mixed      each client sends predictions (6 of 10), the learned explainer (3 of 10) and KernelSHAP (1 of 10), one
           request after the other
together   the learned explainer alone, by a service that computes waiting requests together and by one that does not
overload   requests at fixed times, at the rate that the service managed and at twice that rate; a refused one is sent
           again once, after the time that it was given
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from didact.client import Client, ServiceError
from didact.data.corpus import generate
from didact.render.markup import markdown_table

CLIENTS = 64
SHAP = {"method": "kernel_shap", "settings": {"evaluations": 50}}
LEARNED = {"explainer": "fast"}
Send = Callable[[Client, str], object]


@dataclass
class Load:
    """What was answered, by kind of request."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)
    retried: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, status: int, seconds: float) -> None:
        """Count an answer."""
        with self.lock:
            self.statuses[str(status)] += 1
            self.seconds.setdefault(kind if status == 200 else str(status), []).append(seconds)

    def record(self) -> dict[str, Any]:
        """Counts, and times in milliseconds."""
        times = {kind: _percentiles(values) for kind, values in sorted(self.seconds.items())}
        return {"statuses": dict(sorted(self.statuses.items())), "milliseconds": times, "retried": dict(self.retried)}


def main() -> None:
    """Measure, and write the record and its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="of load in all (default: 5)")
    parser.add_argument("--texts", type=int, default=120, help="texts that the explainer learns from")
    parser.add_argument("--out", type=Path, default=Path("docs/results/service.json"))
    options = parser.parse_args()
    seconds = 60 * options.minutes
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "explainer"
        _train(folder, options.texts)
        record = {
            "command": f"python -m benchmarks.service --minutes {options.minutes:g}",
            "cores": os.cpu_count(),
            "load_before": os.getloadavg()[0],
            "minutes": options.minutes,
            "clients": CLIENTS,
            "mixed": _mixed(folder, 0.4 * seconds),
            "together": _together(folder, 0.15 * seconds),
            "overload": _overload(folder, 0.15 * seconds),
        }
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(page(record), encoding="utf-8")
    print(page(record))


def page(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    mixed, together, overload = record["mixed"], record["together"], record["overload"]
    rows = [[kind, *map(_shown, times.values())] for kind, times in mixed["milliseconds"].items()]
    loads = [
        [name, f"{part['rate']:.1f}", json.dumps(part["statuses"]), _shown(part["accepted"]["p95"]), str(part["held"])]
        for name, part in overload.items()
    ]
    head = ["requests", "answered", "p50 ms", "p95 ms", "p99 ms"]
    return "\n".join(
        [
            "# The service under load",
            "",
            f"Made by `{record['command']}`: {record['clients']} clients on the machine of the service, "
            f"{record['cores']} cores, load average {record['load_before']:.1f} before the start.",
            "",
            "## Mixed traffic",
            f"{mixed['seconds']:.0f} seconds; statuses {json.dumps(mixed['statuses'])}; memory of the service "
            f"{mixed['megabytes'][0]:.0f} MB after the first tenth, {mixed['megabytes'][1]:.0f} MB at the end.",
            "",
            markdown_table(head, rows),
            "",
            "## Requests computed together",
            f"Learned explainer: {together['together']:.1f} requests per second where waiting requests are computed "
            f"together, {together['alone']:.1f} one at a time: {together['ratio']:.2f} times as many.",
            "",
            "## More than it can do",
            markdown_table(["load", "requests/s", "statuses", "p95 ms of accepted", "retries accepted"], loads),
            "",
        ]
    )


def _train(folder: Path, texts: int) -> None:
    from didact.api import load_model
    from didact.experimenting import train

    train("l2e", generate(texts, seed=1), load_model(), "occlusion", out=folder)


@contextlib.contextmanager
def _served(folder: Path, **limits: float) -> Iterator[tuple[Client, int]]:
    """A service as a process; its client and its number."""
    with tempfile.TemporaryDirectory() as place:
        lines = ["[limits]", *(f"{name} = {value}" for name, value in limits.items())]
        lines += ["[[models]]", 'name = "default"', "[models.explainers]", f'fast = "{folder}"']
        config = Path(place) / "service.toml"
        config.write_text("\n".join(lines), encoding="utf-8")
        command = [sys.executable, "-m", "didact", "serve", "--port", "0", "--config", str(config)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            client = Client(process.stdout.readline().split()[2])
            while client.models()[0]["state"] == "loading":
                time.sleep(0.1)
            for send in (_predict, _learned, _shap):
                send(client, "A warm film.")
            yield client, process.pid
        finally:
            process.terminate()
            process.wait(90)


def _predict(client: Client, text: str) -> object:
    return client.predict([text])


def _learned(client: Client, text: str) -> object:
    return client.explain([text], **LEARNED)


def _shap(client: Client, text: str) -> object:
    return client.explain([text], **SHAP)


MIX: tuple[tuple[str, Send], ...] = (*[("predict", _predict)] * 6, *[("learned", _learned)] * 3, ("kernel_shap", _shap))


def _closed_loop(client: Client, seconds: float, mix: Sequence[tuple[str, Send]]) -> Load:
    """Clients that send one request after the other."""
    load, end = Load(), time.monotonic() + seconds
    texts = [str(example.text) for example in generate(200, seed=2)]

    def one(number: int) -> None:
        draw = random.Random(number)
        while time.monotonic() < end:
            kind, send = draw.choice(mix)
            _timed(load, kind, lambda send=send: send(client, draw.choice(texts)))  # type: ignore[misc]

    _threads([lambda number=number: one(number) for number in range(CLIENTS)])  # type: ignore[misc]
    return load


def _mixed(folder: Path, seconds: float) -> dict[str, Any]:
    with _served(folder, queued_seconds=120) as (client, process):
        sizes: list[float] = []
        threading.Timer(0.1 * seconds, lambda: sizes.append(_megabytes(process))).start()
        load = _closed_loop(client, seconds, MIX)
        sizes.append(_megabytes(process))
    return {"seconds": seconds, "megabytes": sizes, **load.record()}


def _together(folder: Path, seconds: float) -> dict[str, float]:
    rates = {}
    for name, cost in (("together", 65_536.0), ("alone", 1.0)):
        with _served(folder, batch_cost=cost, queued_seconds=120) as (client, _):
            load = _closed_loop(client, seconds, [("learned", _learned)])
            rates[name] = load.statuses["200"] / seconds
    return {**rates, "ratio": rates["together"] / max(rates["alone"], 1e-9)}


def _overload(folder: Path, seconds: float) -> dict[str, Any]:
    """The rate that the service manages, then that rate and twice as much at fixed times."""
    with _served(folder, queued_seconds=3.0) as (client, _):
        managed = _closed_loop(client, seconds / 2, [("kernel_shap", _shap)]).statuses["200"] / (seconds / 2)
        return {f"{factor} x capacity": _open_loop(client, factor * managed, seconds / 2) for factor in (0.8, 2.0)}


def _open_loop(client: Client, rate: float, seconds: float) -> dict[str, Any]:
    """Requests at fixed times, whatever became of those before."""
    load = Load()
    texts = [str(example.text) for example in generate(50, seed=3)]
    count = max(4, int(rate * seconds))
    start = time.monotonic()

    def one(number: int) -> None:
        time.sleep(max(0.0, start + number / rate - time.monotonic()))
        wait = _timed(load, "accepted", lambda: _shap(client, texts[number % len(texts)]))
        if wait is not None:
            time.sleep(wait)
            again = _timed(Load(), "accepted", lambda: _shap(client, texts[number % len(texts)]))
            with load.lock:
                load.retried["accepted" if again is None else "refused"] += 1

    _threads([lambda number=number: one(number) for number in range(count)])  # type: ignore[misc]
    made = load.record()
    held = made["retried"].get("accepted", 0) / max(1, sum(made["retried"].values()))
    accepted = made["milliseconds"].get("accepted", _percentiles([float("nan")]))
    return {"rate": rate, "accepted": accepted, "held": round(held, 3), **made}


def _timed(load: Load, kind: str, send: Callable[[], object]) -> float | None:
    """Send and count; the seconds to wait where the service was full."""
    start, status, wait = time.monotonic(), 200, None
    try:
        send()
    except ServiceError as problem:
        status, wait = problem.status, problem.retry_after
    load.add(kind, status, time.monotonic() - start)
    return wait


def _threads(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _megabytes(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _percentiles(seconds: list[float]) -> dict[str, float]:
    values = [round(1000 * float(value), 1) for value in np.percentile(seconds, (50, 95, 99))]
    return {"count": float(len(seconds)), "p50": values[0], "p95": values[1], "p99": values[2]}


def _shown(value: float) -> str:
    return f"{value:,.0f}"


if __name__ == "__main__":
    main()
