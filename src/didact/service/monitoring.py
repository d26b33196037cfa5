"""Counters and gauges for Prometheus, in a registry of their own so that several services can live in one process."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from didact.service.work import Work

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Monitor:
    """What the service did and does."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests by path and status.", ("path", "status"))
        self.seconds = self._histogram("request_seconds", "Time to answer.", SECONDS, ("path",))
        self.batches = self._histogram("batch_requests", "Requests computed together.", SIZES, ("model", "method"))
        self.busy = self._counter("compute_seconds", "Time spent computing.", ("model", "method"))
        self.cost = self._counter("cost", "Model evaluations x tokens that were computed.", ("model", "method"))
        self.waiting = self._gauge("waiting_requests", "Requests in the queue.", ("model",))
        self.expected = self._gauge("waiting_seconds", "Expected time until the queue is empty.", ("model",))
        self.memory = self._gauge("memory_peak_bytes", "Most memory that the process had.", ())

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer; 0 stands for a client that went away."""
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def batch(self, model: str, works: Sequence[Work], seconds: float) -> None:
        """Count what was computed together."""
        method = works[0].task.method
        self.batches.labels(model, method).observe(len(works))
        self.busy.labels(model, method).inc(seconds)
        self.cost.labels(model, method).inc(sum(work.cost for work in works))

    def text(self, queues: Mapping[str, tuple[int, float]]) -> bytes:
        """The exposition, with how many requests wait for each model and for how long."""
        for model, (count, seconds) in queues.items():
            self.waiting.labels(model).set(count)
            self.expected.labels(model).set(seconds)
        scale = 1 if sys.platform == "darwin" else 1024
        self.memory.set(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale)
        return generate_latest(self._registry)

    def _counter(self, name: str, about: str, labels: Sequence[str]) -> Counter:
        return Counter(f"didact_{name}", about, labels, registry=self._registry)

    def _gauge(self, name: str, about: str, labels: Sequence[str]) -> Gauge:
        return Gauge(f"didact_{name}", about, labels, registry=self._registry)

    def _histogram(self, name: str, about: str, buckets: Sequence[float], labels: Sequence[str]) -> Histogram:
        return Histogram(f"didact_{name}", about, labels, buckets=buckets, registry=self._registry)
