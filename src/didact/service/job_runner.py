"""The thread that computes jobs, behind all requests."""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError

from didact.errors import DidactError
from didact.service.core import Service
from didact.service.jobs import JobStore
from didact.service.problems import Refusal, refusal_of
from didact.service.reading import read_examples, read_targets
from didact.service.schemas import ExplainBody, TargetBody
from didact.service.tasks import Explaining
from didact.service.work import Work
from didact.service.workers import ModelWorker
from didact.types import Example
from didact.validation import dump_json

LOG = logging.getLogger("didact.service")
WINDOW = 32
"""Inputs of a job that wait at a time; as many are computed together as a batch takes."""


class JobRunner:
    """Takes unfinished jobs in order and computes the inputs that have no result yet.

    Args:
        service: whose workers compute.
        store: where jobs are kept.
    """

    def __init__(self, service: Service, store: JobStore) -> None:
        self.service = service
        self.store = store
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="didact-jobs", daemon=True)

    def start(self) -> None:
        """Go on with what an earlier service left."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Leave what is unfinished to the next service."""
        self._ended.set()
        self._wake.set()
        self._thread.join(seconds)
        self.store.close()

    def submit(self, body: ExplainBody) -> str:
        """Check a request and keep it as a job.

        Raises:
            Refusal: it is too large, or too many jobs wait.
        """
        limits = self.service.config.limits
        worker, task, examples = self._read(body)
        wanted, _ = read_targets(body.target, worker.model, examples)
        cost = task.estimate(worker.model, wanted).seconds
        if cost > limits.job_cost:
            message = f"this takes {cost:,.0f} model evaluations x tokens, and a job may take {limits.job_cost:,.0f}"
            raise Refusal(413, message, "too_costly", more={"cost": cost, "limit": limits.job_cost})
        if len(self.store.unfinished()) >= limits.jobs:
            raise Refusal(429, f"{limits.jobs} jobs wait already", headers={"Retry-After": "60"})
        name = self.store.add(body.model_dump_json(), len(examples))
        self._wake.set()
        return name

    def _run(self) -> None:
        while not self._ended.is_set():
            self.store.expire(self.service.config.job_days)
            for job in self.store.unfinished():
                self._guarded(job)
            self._wake.wait(5.0)
            self._wake.clear()

    def _guarded(self, job: str) -> None:
        """A job that cannot be computed ends; the next ones are computed all the same."""
        try:
            self._compute(job)
        except Exception as problem:
            LOG.exception("a job failed")
            self.store.end(job, str(refusal_of(problem).detail))

    def _compute(self, job: str) -> None:
        """All inputs without a result; one that cannot be explained has its error as the result."""
        try:
            body = ExplainBody.model_validate(json.loads(self.store.body(job)))
            worker, task, examples = self._read(body)
        except (DidactError, Refusal, ValueError) as problem:
            refusal = refusal_of(problem) if not isinstance(problem, ValueError) else Refusal(422, "it was deleted")
            if refusal.status_code != 503:  # the model is still being loaded
                self.store.end(job, str(refusal.detail))
            return
        missing = [number for number in range(len(examples)) if number not in self.store.results(job)]
        for start in range(0, len(missing), WINDOW):
            numbers = missing[start : start + WINDOW]
            works = [self._work(worker, task, examples[number], body.target) for number in numbers]
            if self._ended.is_set() or self.store.status(job) is None or not self._save(job, worker, numbers, works):
                return
        self.store.end(job)

    def _save(self, job: str, worker: ModelWorker, numbers: Sequence[int], works: Sequence[Work]) -> bool:
        """Whether all were computed before the service stopped; each result is kept as soon as it is there."""
        try:
            worker.waiting.accept(works)
            for number, work in zip(numbers, works, strict=True):
                self.store.save(job, [(number, _result(work))])
        except (Refusal, CancelledError):
            return False
        return True

    def _read(self, body: ExplainBody) -> tuple[ModelWorker, Explaining, list[Example]]:
        limits = self.service.config.limits
        worker = self.service.worker(body.model)
        examples = read_examples(body.inputs, dataclasses.replace(limits, inputs=limits.job_inputs))
        return worker, self.service.task(worker, body, examples), examples

    def _work(self, worker: ModelWorker, task: Explaining, example: Example, target: TargetBody) -> Work:
        wanted, targets = read_targets(target, worker.model, [example])
        try:
            cost = task.estimate(worker.model, wanted).seconds
        except DidactError:
            cost = 1.0  # the worker meets the same error, which becomes the input's result
        return Work(task, wanted, targets, cost, len(wanted), background=True)


def _result(work: Work) -> str:
    """What became of one input, as JSON."""
    try:
        plain = work.plain(work.result.result())
        return dump_json({"explanation": plain[0]} if work.classes == 1 else {"explanations": plain})
    except CancelledError:
        raise
    except Exception as problem:
        return dump_json(refusal_of(problem).body())
