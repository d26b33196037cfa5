"""Routes that read JSON within limits, and refuse what is none in the one shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from didact.errors import FormatError
from didact.service.problems import Refusal, refusal_of
from didact.validation import parse_json


class JsonRequest(Request):
    """A request whose body is read as other JSON of didact is: not too deep, no numbers of thousands of digits."""

    async def json(self) -> Any:
        """The body's value."""
        try:
            return parse_json(await self.body(), "the body")
        except FormatError as problem:
            raise Refusal(400, str(problem), "not_json") from None


class JsonRoute(APIRoute):
    """A route whose body must be JSON."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """The handler, behind a look at the type of the body."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            if self.body_field is not None:
                kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind != "application/json":
                    raise Refusal(415, f"Content-Type is {kind!r:.80}; send JSON as application/json")
            return await handle(JsonRequest(request.scope, request.receive))

        return strict


def as_refusal(problem: Exception) -> Refusal:
    """The refusal that any exception of a route means."""
    if isinstance(problem, RequestValidationError):
        return invalid(problem)
    if isinstance(problem, HTTPException) and not isinstance(problem, Refusal):
        return Refusal(problem.status_code, str(problem.detail), headers=problem.headers)
    return refusal_of(problem)


def invalid(problem: RequestValidationError) -> Refusal:
    """What is wrong with a body: the first place, in words."""
    errors = problem.errors()
    first = errors[0] if errors else {"loc": ("body",), "msg": "is not valid"}
    place = ".".join(str(part)[:80] for part in first["loc"][1:]) or "the body"
    further = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Refusal(422, f"{place}: {first['msg']}{further}", more={"place": place})
