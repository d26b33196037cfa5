"""What every request passes before it is read: who sends it, from which page, how much, how fast."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from didact.service.config import ServiceConfig
from didact.service.pages.signing import SignIn
from didact.service.problems import Refusal, answer, refusal_of

LOG = logging.getLogger("didact.service")
OPEN = ("/livez", "/readyz")
"""Paths that need no token: a supervisor asks for them."""

SAFE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # with none at all, browsers send forms with the origin "null"
    (b"cache-control", b"no-store"),
    (b"x-frame-options", b"DENY"),
]


class Guard:
    """ASGI middleware: Host, Origin, token, size and speed of the body; counts what was answered.

    Args:
        app: what comes behind it.
        config: what is accepted.
        observe: called with path, status and seconds of every answer.
        is_open: whether a path needs no token.
        sign_in: lets browsers in that carry a cookie in place of the token.
    """

    def __init__(
        self,
        app: ASGIApp,
        config: ServiceConfig,
        observe: Callable[[Scope, int, float], None],
        is_open: Callable[[str], bool] = OPEN.__contains__,
        sign_in: SignIn | None = None,
    ) -> None:
        self.app = app
        self.config = config
        self.observe = observe
        self.is_open = is_open
        self.sign_in = sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] != "http":
            await (self.app(scope, receive, send) if scope["type"] == "lifespan" else _closed(send))
            return
        start, status = time.monotonic(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *SAFE_HEADERS]
            await send(message)

        try:
            self._check(scope)
        except Refusal as refusal:
            response = answer(refusal) if self.sign_in is None else self.sign_in.refuse(scope, refusal)
            await response(scope, receive, sending)
        else:
            try:
                await self.app(scope, self._limited(receive), sending)
            except Exception as problem:
                LOG.exception("%s %s failed", scope["method"], scope["path"])
                if not status:
                    await answer(refusal_of(problem))(scope, receive, sending)
        finally:
            self.observe(scope, status, time.monotonic() - start)

    def _check(self, scope: Scope) -> None:
        headers = _Headers(scope)
        host = headers.single("host")
        if _host_name(host) not in self.config.accepted_hosts:
            raise Refusal(421, f"Host is {host!r:.80}, which is not served here; add it to the service's hosts")
        origin = headers.single("origin")
        if origin and urlsplit(origin).netloc.lower() != host.lower() and origin not in self.config.origins:
            raise Refusal(403, f"pages of {origin!r:.80} may not call this service")
        admitted = self.is_open(scope["path"]) or (self.sign_in is not None and self.sign_in.admits(scope))
        if self.config.token is not None and not admitted:
            _check_token(headers.single("authorization"), self.config.token)
        length = headers.single("content-length")
        if length and not (length.isascii() and length.isdigit()):
            raise Refusal(400, "Content-Length is not a number")
        if length and int(length[:18]) > self.config.limits.body:
            raise _too_large(self.config.limits.body)

    def _limited(self, receive: Receive) -> Receive:
        """The body as far as it is small and quick enough."""
        limits = self.config.limits
        taken, complete = 0, False
        end = time.monotonic() + limits.body_seconds

        async def receiving() -> Message:
            nonlocal taken, complete
            if complete:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(0.001, end - time.monotonic()))
            except TimeoutError:
                raise Refusal(408, f"the body did not arrive within {limits.body_seconds:g} seconds") from None
            taken += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if taken > limits.body:
                raise _too_large(limits.body)
            return message

        return receiving


class _Headers:
    def __init__(self, scope: Scope) -> None:
        self._pairs: list[tuple[bytes, bytes]] = scope["headers"]

    def single(self, name: str) -> str:
        """A header that may stand there once; nothing where it is absent."""
        values = [value for key, value in self._pairs if key.lower() == name.encode()]
        if len(values) > 1:
            raise Refusal(400, f"the header {name} was sent {len(values)} times")
        return values[0].decode("latin-1") if values else ""


def _host_name(host: str) -> str:
    """The name in ``Host`` without its port, in small letters."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _check_token(given: str, token: str) -> None:
    kind, _, value = given.partition(" ")
    if kind.lower() != "bearer" or not hmac.compare_digest(value.strip().encode(), token.encode()):
        raise Refusal(
            401,
            "this service needs its bearer token: send the header 'Authorization: Bearer TOKEN'",
            headers={"WWW-Authenticate": "Bearer"},
        )


def _too_large(limit: int) -> Refusal:
    return Refusal(413, f"the body is larger than {limit:,} bytes; send fewer or shorter inputs")


async def _closed(send: Send) -> None:
    """There are no web sockets here."""
    await send({"type": "websocket.close", "code": 1000})
