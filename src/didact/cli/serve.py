"""``didact serve``: explanations over HTTP."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from didact.cli import printing
from didact.errors import InputError, ParameterError

if TYPE_CHECKING:
    from didact.service.config import ServedModel, ServiceConfig

NAME = "serve"
HELP = "Explain over HTTP: a page for people and a service for programs, on this machine unless a token is set."
EXAMPLES = """examples:
  didact serve
  didact serve --model reviews=./my-model --explainer reviews:fast=runs/l2e
  didact serve --config service.toml --jobs jobs.db
  DIDACT_TOKEN=... didact serve --host 0.0.0.0 --allow-host explain.example.org
  curl -s 127.0.0.1:8300/v1/explain -H 'content-type: application/json' -d '{"inputs": ["A warm film."]}'
"""
TOKEN = "DIDACT_TOKEN"
"""Environment variable with the bearer token; an argument could be seen by other users of the machine."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument(
        "--model",
        metavar="NAME=SOURCE",
        action="append",
        default=[],
        help="a model to serve: Hub id or directory; the first is the default; may be repeated (default: the embedded "
        "classifier)",
    )
    parser.add_argument(
        "--explainer",
        metavar="MODEL:NAME=DIR",
        action="append",
        default=[],
        help="a saved explainer of a served model; may be repeated",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML file with models, limits, hosts (docs/service.md)"
    )
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1); any other needs a token")
    parser.add_argument("--port", type=int, help="default: 8300; 0 for any free port")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help=f"file with the bearer token (or set {TOKEN})")
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=None,
        help="a further host name to accept; may be repeated",
    )
    parser.add_argument("--jobs", type=Path, metavar="FILE", help="SQLite file of jobs (default: no jobs)")
    parser.add_argument(
        "--runs", type=Path, metavar="DIR", help="folder of reports to show under /runs (default: no reports)"
    )


def run(options: argparse.Namespace) -> None:
    """Serve until a signal."""
    check_installed()
    config = configured(options)
    from didact.service.serving import serve

    serve(config, lambda place: printing.line(f"didact serves {place} (stop with Ctrl-C)"))


def check_installed() -> None:
    """Refuse where the libraries of the service are missing."""
    missing = [name for name in ("fastapi", "prometheus_client", "uvicorn") if find_spec(name) is None]
    if missing:
        raise InputError(f"the service needs {', '.join(missing)}; pip install 'didact[service]'")


def configured(options: argparse.Namespace) -> ServiceConfig:
    """The configuration that the options, the file and the environment make."""
    from didact.service.config import ServiceConfig, read_config

    given = {
        "models": _models(options),
        "host": options.host,
        "port": options.port,
        "token": read_token(options.token_file),
        "hosts": options.allow_host,
        "jobs": options.jobs,
        "runs": options.runs,
    }
    if options.config is not None:
        return read_config(options.config, **given)
    return ServiceConfig(**{name: value for name, value in given.items() if value is not None})


def read_token(file: Path | None) -> str | None:
    """The bearer token in a file, or else in the environment; None where there is neither."""
    if file is None:
        return os.environ.get(TOKEN) or None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"cannot read the token from {file}: {problem}") from None


def _models(options: argparse.Namespace) -> tuple[ServedModel, ...] | None:
    """Models and their explainers; None where neither is given."""
    from didact.service.config import ServedModel

    if not options.model and not options.explainer:
        return None
    sources = dict(_pair(text, "--model NAME=SOURCE") for text in options.model) or {"default": "default"}
    explainers: dict[str, dict[str, object]] = {name: {} for name in sources}
    for text in options.explainer:
        owner, _, rest = text.partition(":")
        if owner not in sources:
            raise ParameterError(f"--explainer {text!r:.80} names no served model; those are {', '.join(sources)}")
        name, place = _pair(rest, "--explainer MODEL:NAME=DIR")
        explainers[owner][name] = place
    return tuple(ServedModel(name, source, {}, explainers[name]) for name, source in sources.items())


def _pair(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ParameterError(f"{form} is needed, got {text!r:.80}")
    return name, value
