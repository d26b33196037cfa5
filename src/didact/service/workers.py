"""One thread per model: it loads the model, then computes what waits, a batch at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

from didact.api import load_model
from didact.errors import DidactError
from didact.protocols import Explainer, Model
from didact.service.batches import compute
from didact.service.config import ServedModel, ServiceLimits
from didact.service.problems import Refusal
from didact.service.rates import Rates
from didact.service.waiting import Waiting
from didact.service.work import Work

LOG = logging.getLogger("didact.service")
State = Literal["loading", "ready", "failed"]
Observer = Callable[[str, Sequence[Work], float], None]
"""Called after each batch with the model's name, its works and the seconds that it took."""


class ModelWorker:
    """A served model with its queue and its thread.

    Args:
        served: what is loaded.
        limits: of its queue.
        observe: is told of each batch.

    Attributes:
        state: whether it can compute.
        failure: why it could not be loaded; empty where it could.
    """

    def __init__(self, served: ServedModel, limits: ServiceLimits, observe: Observer) -> None:
        self.served = served
        self.rates = Rates()
        self.waiting = Waiting(limits, self.rates)
        self.state: State = "loading"
        self.failure = ""
        self._observe = observe
        self._model: Model | None = None
        self._explainers: dict[str, Explainer] = {}
        self._thread = threading.Thread(target=self._run, name=f"didact-{served.name}", daemon=True)

    def start(self) -> None:
        """Begin to load."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Finish what was accepted, then end the thread."""
        self.waiting.close()
        self._thread.join(seconds)

    @property
    def model(self) -> Model:
        """The loaded model; refused with 503 until there is one."""
        if self._model is None or self.state != "ready":
            reason = "could not be loaded" if self.state == "failed" else "is being loaded; try again in a moment"
            headers = {} if self.state == "failed" else {"Retry-After": "2"}
            raise Refusal(503, f"the model {self.served.name} {reason}", "loading", headers)
        return self._model

    @property
    def explainers(self) -> dict[str, Explainer]:
        """Saved explainers by name."""
        return dict(self._explainers)

    def _run(self) -> None:
        try:
            self._model = load_model(self.served.source, **self.served.options)
            self._explainers = {name: _saved(place, self._model) for name, place in self.served.explainers.items()}
            self._model.fingerprint()
        except Exception as problem:
            self.failure = str(problem) if isinstance(problem, DidactError) else type(problem).__name__
            self.state = "failed"
            LOG.exception("the model %s cannot be loaded", self.served.name)
            return
        self.state = "ready"
        while works := self.waiting.take():
            self._compute(self._model, works)

    def _compute(self, model: Model, works: Sequence[Work]) -> None:
        start = time.monotonic()
        for work in works:
            work.started = True
        try:
            compute(model, works)
        finally:
            seconds = time.monotonic() - start
            if all(work.result.done() and not work.result.cancelled() for work in works):
                self.rates.learn(works[0].task.method, sum(work.cost for work in works), seconds)
            self.waiting.finished()
        self._observe(self.served.name, works, seconds)


def _saved(place: object, model: Model) -> Explainer:
    """A saved explainer from its folder; one that is loaded as it is."""
    if isinstance(place, Explainer):
        return place
    import warnings

    from didact.trained.explainer import LearnedExplainer
    from didact.trained.held_out import FidelityWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FidelityWarning)  # each explanation carries it
        learned = LearnedExplainer.from_pretrained(str(place), model=model)
    learned.reads_all = False
    return learned
