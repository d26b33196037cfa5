"""Any app behind a socket: its address is announced, and a signal ends it."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from didact.service.config import ServiceConfig

GRACE = 60
"""Seconds for answers under way once the socket is closed."""


def uvicorn_config(app: ASGIApp, config: ServiceConfig) -> uvicorn.Config:
    """How uvicorn serves an app: no access log, no header that names the server."""
    return uvicorn.Config(
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


class AnnouncingServer(uvicorn.Server):
    """Announces its address, and ends with what was accepted; a second signal ends it at once.

    Args:
        config: of uvicorn.
        announce: called with the address once there is one.
    """

    def __init__(self, config: uvicorn.Config, announce: Callable[[str], None]) -> None:
        super().__init__(config)
        self.announce = announce

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what was accepted."""
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # an end that was asked for is no failure

    async def startup(self, sockets: object = None) -> None:
        """Listen, and announce where."""
        await super().startup(sockets)  # type: ignore[arg-type] # uvicorn's own type
        for server in self.servers:
            for listener in server.sockets:
                host, port = listener.getsockname()[:2]
                self.announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
