"""Running the app behind a socket until a signal ends it; what was accepted before is finished."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

import uvicorn

from didact.service.app import create_app
from didact.service.config import ServiceConfig
from didact.service.core import Service

GRACE = 60
"""Seconds for answers under way once the socket is closed."""


def serve(config: ServiceConfig, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        config: what is served.
        announce: called with the service's address once it listens.
    """
    app = create_app(config)
    options = uvicorn.Config(
        app,
        host=config.host,
        port=config.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE,
    )
    DrainingServer(options, app.state.service, announce).run()


class DrainingServer(uvicorn.Server):
    """Answers new requests with 503 while the accepted ones are computed, then ends; a second signal ends it at once.

    Args:
        config: of uvicorn.
        service: what is drained.
        announce: called with the address once there is one.
    """

    def __init__(self, config: uvicorn.Config, service: Service, announce: Callable[[str], None]) -> None:
        super().__init__(config)
        self.service = service
        self.announce = announce

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal."""
        if self.service.draining:
            super().handle_exit(sig, frame)
        else:
            self.service.draining = True  # the queues are closed by the loop: a handler must not wait for a lock

    async def startup(self, sockets: object = None) -> None:
        """Listen, and announce where."""
        await super().startup(sockets)  # type: ignore[arg-type] # uvicorn's own type
        for server in self.servers:
            for listener in server.sockets:
                host, port = listener.getsockname()[:2]
                self.announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def on_tick(self, counter: int) -> bool:
        """Look whether all that was accepted is done."""
        if self.service.draining:
            self.service.drain()
            if self.service.idle and not self.should_exit:
                super().handle_exit(signal.SIGTERM, None)
                self._captured_signals.clear()  # an end that was asked for is no failure
        return await super().on_tick(counter)
