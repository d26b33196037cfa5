"""Refusals in one shape: a status, a short code for programs, a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi.responses import Response
from starlette.exceptions import HTTPException

from didact.errors import CapabilityError, DidactError, InputError, ModelError, UnknownNameError
from didact.validation import dump_json

CODES = {
    400: "bad_request",
    401: "unauthorised",
    403: "forbidden_origin",
    404: "not_found",
    405: "method_not_allowed",
    408: "slow_body",
    413: "too_large",
    415: "unsupported_media_type",
    421: "unknown_host",
    422: "invalid",
    429: "queue_full",
    500: "internal_error",
    503: "not_ready",
    504: "deadline",
}
"""Code of each status where a refusal names none of its own."""

LONGEST = 600
"""Characters of a message; what was sent may be far longer."""


class Refusal(HTTPException):
    """An answer other than the one that was wanted.

    Args:
        status: of the response.
        message: what was sent, what is allowed, what to do.
        code: for programs; the status's own when not given.
        headers: further ones, such as Retry-After.
        more: further entries of the error.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.code = code or CODES.get(status, "error")
        self.more = dict(more or {})

    @property
    def message(self) -> str:
        """The sentence, shortened."""
        message = str(self.detail)
        return message if len(message) <= LONGEST else message[: LONGEST - 1] + "…"

    def body(self) -> dict[str, object]:
        """The error as plain values."""
        return {"error": {"status": self.status_code, "code": self.code, "message": self.message, **self.more}}


def refusal_of(problem: Exception) -> Refusal:
    """The refusal that an exception means: a mistake of the sender, or a defect, about which nothing is given away."""
    if isinstance(problem, Refusal):
        return problem
    if isinstance(problem, UnknownNameError):
        return Refusal(422, str(problem), "unknown_name")
    if isinstance(problem, CapabilityError):
        return Refusal(422, str(problem), "method_needs_more")
    if isinstance(problem, InputError):
        return Refusal(422, str(problem), "bad_input")
    if isinstance(problem, ModelError):
        return Refusal(422, str(problem), "model_failed")
    if isinstance(problem, DidactError):
        return Refusal(422, str(problem))
    return Refusal(500, "the service failed on this request; its log has the details")


class Json(Response):
    """Plain values as JSON that any client can read, whatever texts are in it."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """The document."""
        return dump_json(content).encode()


def answer(refusal: Refusal) -> Json:
    """A refusal as a response."""
    return Json(refusal.body(), refusal.status_code, refusal.headers)
