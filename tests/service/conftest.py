"""A service with tiny models, reached without a socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from didact.service.app import create_app
from didact.service.config import ServedModel, ServiceConfig
from didact.testing.tiny import tiny_model

TEXT = "a truly wonderful film with a warm heart"


def tiny_config(**given: Any) -> ServiceConfig:
    models = given.pop("models", None) or (ServedModel("tiny", tiny_model()),)
    return ServiceConfig(models=models, **given)


@contextlib.asynccontextmanager
async def reached(app: FastAPI, *, ready: bool = True, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of an app that runs in this loop."""
    transport = httpx2.ASGITransport(app=app)
    base = {"base_url": "http://127.0.0.1:8300", "timeout": 60} | options
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=transport, **base) as client:
        while ready and (await client.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.01)
        yield client


@pytest.fixture
def asked() -> Callable[..., Any]:
    """Runs a coroutine function on a client of a fresh service, in a loop of its own."""

    def run(
        use: Callable[[httpx2.AsyncClient], Coroutine[Any, Any, Any]],
        config: ServiceConfig | None = None,
        **options: Any,
    ) -> Any:
        async def main() -> Any:
            async with reached(create_app(config or tiny_config()), **options) as client:
                return await use(client)

        return asyncio.run(main())

    return run
