"""A service with tiny models, reached without a socket; and the embedded model as a process behind one."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from didact.client import Client
from didact.service.app import create_app
from didact.service.config import ServedModel, ServiceConfig
from didact.testing.tiny import tiny_model

TOKEN = "a-token-for-the-tests"
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


@contextlib.contextmanager
def process(folder: Path, limits: str = "") -> Iterator[tuple[Client, subprocess.Popen[str]]]:
    """``didact serve`` with a token and jobs in a folder, killed at the end; its client once it is ready."""
    config = folder / "service.toml"
    config.write_text(f'jobs = "jobs.db"\n[limits]\n{limits}\n', "utf-8")
    command = [sys.executable, "-m", "didact", "serve", "--port", "0", "--config", str(config)]
    environment = {**os.environ, "DIDACT_TOKEN": TOKEN}
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder)
    assert started.stdout is not None
    try:
        client = Client(started.stdout.readline().split()[2], TOKEN)
        for _ in range(1_200):
            if client.models()[0]["state"] == "ready":
                break
            time.sleep(0.05)
        yield client, started
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


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
