"""A client of ``didact serve`` that needs nothing but the standard library.

>>> from didact.client import Client
>>> client = Client("http://127.0.0.1:8300")
>>> client.explain(["A warm, funny film."], method="kernel_shap")  # doctest: +SKIP
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from didact.errors import DidactError, InputError
from didact.types import Explanation, Prediction
from didact.validation import dump_json, parse_json

InputLike = str | Mapping[str, str]
"""A text, or an object as the service takes it: text and text_pair, question and passage, or image."""


class ServiceError(DidactError):
    """The service refused a request, or cannot be reached.

    Attributes:
        status: of the response; 0 where there was none.
        code: short name of the reason.
        retry_after: seconds after which there is room; None where that is not the reason.
        ticket: what a request sends as ``Retry-Ticket`` when it comes back, to find room kept for it; else empty.
        partial: explanations so far, where the time was up.
    """

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error.get('message', 'no message')} (status {status}, {error.get('code', 'error')})")
        self.status = status
        self.code = str(error.get("code", "error"))
        self.retry_after: float | None = error.get("retry_after")
        self.ticket = str(error.get("ticket", ""))
        self.partial = [Explanation.from_dict(plain) for plain in error.get("partial", ())]


@dataclass(frozen=True)
class StreamEvent:
    """Something that happened while a request was computed: "queued", "progress", "partial" or "result".

    Attributes:
        name: which.
        data: plain values.
        explanations: of "partial" and "result".
    """

    name: str
    data: Mapping[str, Any]
    explanations: tuple[Explanation, ...] = ()


@dataclass(frozen=True)
class Client:
    """Calls a service.

    Attributes:
        url: such as "http://127.0.0.1:8300".
        token: bearer token, where the service needs one.
        timeout: seconds to wait for an answer.
        retries: how often a request is sent again that was refused with 429 or 503, each after the time that the
            service names.
    """

    url: str
    token: str | None = None
    timeout: float = 120.0
    retries: int = 0

    def explain(self, inputs: Sequence[InputLike], **options: Any) -> list[Explanation]:
        """Explanations of inputs; options are the other fields of the request: model, method, settings, target, ..."""
        answer = self._call("POST", "/v1/explain", {"inputs": list(inputs), **options})
        return [Explanation.from_dict(plain) for plain in answer["explanations"]]

    def predict(self, inputs: Sequence[InputLike], **options: Any) -> list[Prediction]:
        """Plain predictions of inputs."""
        answer = self._call("POST", "/v1/predict", {"inputs": list(inputs), **options})
        return [Prediction.from_dict(plain) for plain in answer["predictions"]]

    def compare(self, given: InputLike, methods: Sequence[str], **options: Any) -> list[Explanation]:
        """Explanations of one input by several methods, those left out that cannot explain it."""
        answer = self._call("POST", "/v1/compare", {"input": given, "methods": list(methods), **options})
        return [Explanation.from_dict(plain) for plain in answer["explanations"]]

    def cost(self, inputs: Sequence[InputLike], **options: Any) -> dict[str, Any]:
        """What ``explain`` would take."""
        return self._call("POST", "/v1/cost", {"inputs": list(inputs), **options})

    def models(self) -> list[dict[str, Any]]:
        """Served models."""
        return list(self._call("GET", "/v1/models")["models"])

    def methods(self, model: str | None = None) -> list[dict[str, Any]]:
        """Cards of the methods that work with a model."""
        query = "" if model is None else "?" + urlencode({"model": model})
        return list(self._call("GET", f"/v1/methods{query}")["methods"])

    def submit(self, inputs: Sequence[InputLike], **options: Any) -> str:
        """Start a job; returns its id."""
        return str(self._call("POST", "/v1/jobs", {"inputs": list(inputs), **options})["id"])

    def job(self, job: str, *, results: bool = False) -> dict[str, Any]:
        """How far a job is; with ``results`` an explanation, an error or None per input."""
        return self._call("GET", f"/v1/jobs/{quote(job, safe='')}" + ("?results=true" if results else ""))

    def delete(self, job: str) -> None:
        """Stop a job and remove it."""
        self._call("DELETE", f"/v1/jobs/{quote(job, safe='')}")

    def stream(self, inputs: Sequence[InputLike], **options: Any) -> Iterator[StreamEvent]:
        """Events while inputs are explained, the last one with the result; closing the iterator stops the work."""
        connection, response = self._send("POST", "/v1/explain/stream", {"inputs": list(inputs), **options})
        try:
            if response.status != 200:
                raise _refused(response)
            yield from _events(response)
        finally:
            connection.close()

    def _call(self, verb: str, path: str, body: object = None) -> dict[str, Any]:
        ticket = ""
        for attempt in range(self.retries + 1):
            connection, response = self._send(verb, path, body, ticket)
            try:
                if response.status < 300:
                    return _object(response.read())
                problem = _refused(response)
            finally:
                connection.close()
            wait = response.headers.get("Retry-After", "1")
            if response.status not in (429, 503) or attempt == self.retries:
                raise problem
            ticket = problem.ticket
            time.sleep(float(wait) if wait.isdigit() else 1.0)
        raise AssertionError("unreachable")

    def _send(
        self, verb: str, path: str, body: object, ticket: str = ""
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        place = urlsplit(self.url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise InputError(f"the service's address must be like http://127.0.0.1:8300, got {self.url!r:.80}")
        kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
        connection = kind(place.hostname, place.port, timeout=self.timeout)
        headers = {"Content-Type": "application/json"} | ({"Retry-Ticket": ticket} if ticket else {})
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else dump_json(body).encode()
        try:
            connection.request(verb, place.path.rstrip("/") + path, data, headers)
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            raise ServiceError(
                0, {"code": "unreachable", "message": f"{self.url} does not answer: {problem}"}
            ) from None


def _events(response: http.client.HTTPResponse) -> Iterator[StreamEvent]:
    name = ""
    for line in response:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            data = _object(text.removeprefix("data: ").encode())
            if name == "error":
                raise ServiceError(int(data.get("status", 0)), data)
            made = tuple(Explanation.from_dict(plain) for plain in data.get("explanations", ()))
            yield StreamEvent(name, data, made)


def _refused(response: http.client.HTTPResponse) -> ServiceError:
    try:
        error = _object(response.read()).get("error", {})
    except DidactError:
        error = {"message": response.reason}
    return ServiceError(response.status, error if isinstance(error, Mapping) else {})


def _object(text: bytes) -> dict[str, Any]:
    value = parse_json(text, "the service's answer")
    if not isinstance(value, dict):
        raise ServiceError(
            0, {"code": "no_service", "message": "the answer is no JSON object; is this a didact service?"}
        )
    return value
