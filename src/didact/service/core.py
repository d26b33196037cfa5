"""The service without its web side: workers by model, and what requests become."""

from __future__ import annotations

import time
from collections.abc import Sequence

from didact.errors import DidactError
from didact.protocols import Explainer, TargetLike
from didact.registry import close_names
from didact.service.config import ServiceConfig
from didact.service.monitoring import Monitor
from didact.service.problems import Refusal, refusal_of
from didact.service.reading import check_fit, read_examples, read_explainer, read_method, read_targets
from didact.service.schemas import CompareBody, ExplainBody, PredictBody
from didact.service.tasks import Explaining, Predicting, Task
from didact.service.work import Work
from didact.service.workers import ModelWorker
from didact.types import Estimate, Example

Prepared = tuple[ModelWorker, list[Work]]


class Service:
    """Models, their queues and threads.

    Args:
        config: what is served and within which limits.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self.config = config
        self.monitor = Monitor()
        self.draining = False
        self.workers = {served.name: ModelWorker(served, config.limits, self.monitor.batch) for served in config.models}

    def start(self) -> None:
        """Begin to load all models."""
        for worker in self.workers.values():
            worker.start()

    def drain(self) -> None:
        """Accept nothing more; what was accepted is finished."""
        self.draining = True
        for worker in self.workers.values():
            worker.waiting.close()

    def stop(self, seconds: float) -> None:
        """Drain, and wait for the threads at most so long."""
        self.drain()
        end = time.monotonic() + seconds
        for worker in self.workers.values():
            worker.stop(max(0.0, end - time.monotonic()))

    @property
    def idle(self) -> bool:
        """Whether nothing is left to compute."""
        return all(worker.waiting.idle for worker in self.workers.values())

    @property
    def ready(self) -> bool:
        """Whether every model is loaded and requests are accepted."""
        return not self.draining and all(worker.state == "ready" for worker in self.workers.values())

    def worker(self, name: str | None) -> ModelWorker:
        """The worker of a model; of the first one where none is named."""
        chosen = self.config.models[0].name if name is None else name
        if chosen not in self.workers:
            known = list(self.workers)
            raise Refusal(
                404,
                f"no model {chosen!r:.80} is served{close_names(chosen[:80], known)}; known: {', '.join(known)}",
                "unknown_model",
            )
        return self.workers[chosen]

    def predicting(self, body: PredictBody) -> Prepared:
        """A request for predictions as work."""
        worker = self.worker(body.model)
        examples = read_examples(body.inputs, self.config.limits)
        return worker, [self.work(worker, Predicting(), examples, [None] * len(examples), body.seconds)]

    def explaining(self, body: ExplainBody) -> Prepared:
        """A request for explanations as work."""
        worker = self.worker(body.model)
        examples = read_examples(body.inputs, self.config.limits)
        task = self.task(worker, body, examples)
        wanted, targets = read_targets(body.target, worker.model, examples)
        return worker, [self.work(worker, task, wanted, targets, body.seconds, len(wanted) // len(examples))]

    def comparing(self, body: CompareBody) -> tuple[ModelWorker, dict[str, Work | Refusal]]:
        """A comparison as one work per method; a method that cannot explain the input has its refusal instead."""
        worker = self.worker(body.model)
        if len(body.methods) > self.config.limits.methods or len(set(body.methods)) < len(body.methods):
            raise Refusal(422, f"a comparison takes at most {self.config.limits.methods} methods, each once")
        unknown = sorted(set(body.settings) - set(body.methods))
        if unknown:
            raise Refusal(422, f"settings were sent for {unknown[0]!r:.80}, which is not among the methods")
        examples = read_examples([body.input], self.config.limits)
        made: dict[str, Work | Refusal] = {}
        for name in body.methods:
            try:
                explainer = read_method(name, dict(body.settings.get(name, {})), worker.model)
                check_fit(explainer, worker.model, examples)
                wanted, targets = read_targets(body.target, worker.model, examples)
                made[name] = self.work(worker, Explaining(explainer), wanted, targets, body.seconds, len(wanted))
            except DidactError as problem:
                made[name] = refusal_of(problem)
        return worker, made

    def estimating(self, body: ExplainBody) -> tuple[ModelWorker, Estimate, float]:
        """What a request would take: the estimate with seconds by the measured rate, and its cost."""
        worker = self.worker(body.model)
        examples = read_examples(body.inputs, self.config.limits)
        task = self.task(worker, body, examples)
        wanted, _ = read_targets(body.target, worker.model, examples)
        made = task.estimate(worker.model, wanted)
        return worker, made, worker.rates.seconds(task.method, made.seconds)

    def task(self, worker: ModelWorker, body: ExplainBody, examples: Sequence[Example]) -> Explaining:
        """What a request wants computed, by a method that fits model and inputs."""
        explainer: Explainer = read_explainer(body, worker.model, worker.explainers)
        check_fit(explainer, worker.model, examples)
        return Explaining(explainer, body.explainer)

    def work(
        self,
        worker: ModelWorker,
        task: Task,
        examples: Sequence[Example],
        targets: Sequence[TargetLike],
        seconds: float | None,
        classes: int = 1,
    ) -> Work:
        """A task on examples with its cost; refused where it is more than a request may take."""
        cost = task.estimate(worker.model, examples).seconds
        most = self.config.limits.request_cost
        if cost > most:
            raise Refusal(
                413,
                f"this takes {cost:,.0f} model evaluations x tokens, and a request may take {most:,.0f}; send it to "
                "/v1/jobs, or send fewer or shorter inputs or cheaper settings",
                "too_costly",
                more={"cost": cost, "limit": most},
            )
        return Work(task, examples, targets, cost, classes, timed=seconds is not None)
