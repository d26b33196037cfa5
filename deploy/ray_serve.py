"""The service behind Ray Serve: the same application, as many replicas as there are machines for.

Usage:
    pip install 'didact[service,ray]'
    serve run deploy.ray_serve:build config=service.toml replicas=2

Ray has the HTTP proxy, starts replicas and replaces those that fail; each replica loads all models, and has the queue,
the batches and the limits of ``didact serve``. The token is read from DIDACT_TOKEN where the command runs. Set ``host``
in the file to the address that Ray's proxy listens on (127.0.0.1 by default): any other needs a token.

There are no jobs with several replicas: a job is known to the replica that took it. A ticket of a refused request
counts at the replica that gave it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ray import serve

from didact.errors import ParameterError
from didact.service.config import ServiceConfig, read_config

if TYPE_CHECKING:
    from fastapi import FastAPI
    from ray.serve import Application

PROXY = 64
"""Requests beyond those that wait which a replica is given: they are refused there, with the time to come back."""


def build(args: Mapping[str, str]) -> Application:
    """The application of ``serve run``.

    Args:
        args: ``config``, a file as ``didact serve --config`` takes it (the embedded classifier without it);
            ``replicas``, 1 when not given; ``gpus`` and ``cpus`` of a replica, fractions too.
    """
    unknown = sorted(set(args) - {"config", "replicas", "gpus", "cpus"})
    if unknown:
        raise ParameterError(f"unknown argument {unknown[0]!r:.40}; allowed: config, replicas, gpus, cpus")
    replicas = _number(args, "replicas", 1.0)
    config = _config(args.get("config"))
    if config.jobs is not None and replicas > 1:
        raise ParameterError("jobs are kept by one replica; leave jobs out of the configuration, or use replicas=1")
    return (
        deployed(config)
        .options(
            num_replicas=int(replicas),
            ray_actor_options={"num_gpus": _number(args, "gpus", 0.0), "num_cpus": _number(args, "cpus", 1.0)},
        )
        .bind()
    )


def deployed(config: ServiceConfig) -> serve.Deployment:
    """A deployment whose replicas serve the configuration; nothing is loaded before a replica starts."""

    def application() -> FastAPI:
        from didact.service.app import create_app

        return create_app(config)

    limits = config.limits
    return serve.deployment(
        name="didact",
        max_ongoing_requests=limits.queued + PROXY,
        graceful_shutdown_timeout_s=limits.seconds + 10,
    )(serve.ingress(application)())


def _config(file: str | None) -> ServiceConfig:
    given = {"token": os.environ.get("DIDACT_TOKEN") or None}
    return ServiceConfig(token=given["token"]) if file is None else read_config(Path(file), **given)


def _number(args: Mapping[str, str], name: str, usual: float) -> float:
    try:
        value = float(args.get(name, usual))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e6 or (name == "replicas" and value < 1):
        raise ParameterError(f"{name} must be a number that is large enough, got {args[name]!r:.40}")
    return value
