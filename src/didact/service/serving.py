"""Running the app behind a socket until a signal ends it; what was accepted before is finished."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

import uvicorn

from didact.service.app import create_app
from didact.service.config import ServiceConfig
from didact.service.core import Service
from didact.service.listening import AnnouncingServer, uvicorn_config


def serve(config: ServiceConfig, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        config: what is served.
        announce: called with the service's address once it listens.
    """
    app = create_app(config)
    DrainingServer(uvicorn_config(app, config), app.state.service, announce).run()


class DrainingServer(AnnouncingServer):
    """Answers new requests with 503 while the accepted ones are computed, then ends; a second signal ends it at once.

    Args:
        config: of uvicorn.
        service: what is drained.
        announce: called with the address once there is one.
    """

    def __init__(self, config: uvicorn.Config, service: Service, announce: Callable[[str], None]) -> None:
        super().__init__(config, announce)
        self.service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal."""
        if self.service.draining:
            super().handle_exit(sig, frame)
        else:
            self.service.draining = True  # the queues are closed by the loop: a handler must not wait for a lock

    async def on_tick(self, counter: int) -> bool:
        """Look whether all that was accepted is done."""
        if self.service.draining:
            self.service.drain()
            if self.service.idle and not self.should_exit:
                super().handle_exit(signal.SIGTERM, None)
        return await super().on_tick(counter)
