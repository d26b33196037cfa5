"""What a service serves, to whom, and within which limits."""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from didact.errors import FormatError, ParameterError
from didact.settings import fits
from didact.validation import object_value, text_value

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names under which a service on this machine is reached from this machine."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that requests may name.

    Attributes:
        name: in requests.
        source: anything that ``load_model`` takes; "default" is the embedded classifier.
        options: further arguments of ``load_model``, such as ``inputs``, ``prompt`` and ``device``.
        explainers: saved explainers of this model by their name in requests: folders, or explainers that are loaded.
    """

    name: str
    source: object = "default"
    options: Mapping[str, Any] = field(default_factory=dict)
    explainers: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.options.get("trust_remote_code"):
            raise ParameterError(f"model {self.name!r}: a service runs no code that comes with a model")


@dataclass(frozen=True)
class ServiceLimits:
    """What one request, one batch and the queue may hold. Cost is model evaluations x tokens.

    Attributes:
        body: bytes of a request.
        body_seconds: time in which a request's body must arrive.
        inputs: texts or images of a request.
        characters: of one text.
        pixels: of one image.
        methods: of one comparison.
        request_cost: of one request; more is a job.
        job_cost: of one job.
        job_inputs: texts or images of a job.
        batch_cost: of requests that are computed together; a single request may have more.
        batch_seconds: expected time of requests that are computed together, for which others wait.
        queued_seconds: expected time that waiting requests take together; more are refused with 429.
        queued: waiting requests.
        jobs: jobs that are not finished.
        seconds: longest time that a request may take, and the time it gets where it names none.
    """

    body: int = 4 << 20
    body_seconds: float = 20.0
    inputs: int = 64
    characters: int = 20_000
    pixels: int = 4_000_000
    methods: int = 12
    request_cost: float = 4e6
    job_cost: float = 1e10
    job_inputs: int = 2_000
    batch_cost: float = 65_536
    batch_seconds: float = 1.0
    queued_seconds: float = 20.0
    queued: int = 512
    jobs: int = 64
    seconds: float = 60.0

    def __post_init__(self) -> None:
        for each in fields(self):
            if not getattr(self, each.name) > 0:
                raise ParameterError(f"the limit {each.name} must be above 0, got {getattr(self, each.name)!r}")


@dataclass(frozen=True)
class ServiceConfig:
    """All that ``create_app`` needs.

    Attributes:
        models: what is served; the first is the default of requests.
        host: address to listen on. Any but loopback needs a token.
        port: to listen on; 0 for any that is free.
        token: bearer token that requests must carry; None for none, on loopback alone.
        hosts: further names in ``Host`` that are accepted; those of loopback and ``host`` always are.
        origins: further origins, such as "https://example.org", whose pages may call the service.
        limits: sizes.
        jobs: SQLite file of jobs; without it there are none.
        runs: folder of reports that are shown under ``/runs`` and where new ones are saved; without it there are none.
        job_days: how long a job that ended is kept.
    """

    models: Sequence[ServedModel] = (ServedModel("default"),)
    host: str = "127.0.0.1"
    port: int = 8300
    token: str | None = None
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    limits: ServiceLimits = ServiceLimits()
    jobs: Path | None = None
    runs: Path | None = None
    job_days: float = 7.0

    def __post_init__(self) -> None:
        names = [model.name for model in self.models]
        if not names or len(set(names)) < len(names):
            raise ParameterError(f"a service needs models with different names, got {', '.join(names) or 'none'}")
        if self.token is not None and (len(self.token) < 16 or not self.token.isascii() or " " in self.token):
            raise ParameterError("the token needs at least 16 ASCII characters without blanks")
        if self.token is None and not is_loopback(self.host):
            raise ParameterError(
                f"listening on {self.host} lets other machines in, which needs a token: set DIDACT_TOKEN or give "
                "--token-file, or listen on 127.0.0.1"
            )

    @property
    def accepted_hosts(self) -> frozenset[str]:
        """Names, in small letters and without port, that ``Host`` may have."""
        return frozenset(name.lower() for name in (*LOOPBACK, self.host, *self.hosts))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in LOOPBACK


def read_config(path: Path, **given: Any) -> ServiceConfig:
    """A configuration from a TOML file; arguments that are not None take the place of its entries.

    The file has the fields of ``ServiceConfig`` without the token, which has no place in a file that is shared; a table
    ``[limits]``; and one ``[[models]]`` per model with ``name``, ``source``, ``explainers`` and options of
    ``load_model``.
    """
    try:
        entries: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise FormatError(f"cannot read {path}: {problem}") from None
    allowed = [each.name for each in fields(ServiceConfig) if each.name != "token"]
    object_value(entries, str(path), (), allowed)
    if "models" in entries:
        entries["models"] = tuple(_model(table, path) for table in entries["models"])
    if "limits" in entries:
        entries["limits"] = _limits(entries["limits"], path)
    for name in {"jobs", "runs"} & set(entries):
        entries[name] = Path(text_value(entries[name], name))
    return ServiceConfig(**entries | {name: value for name, value in given.items() if value is not None})


def _model(table: object, path: Path) -> ServedModel:
    entries = dict(object_value(table, f"{path}: a model", ("name",)))
    name = text_value(entries.pop("name"), "name of a model")
    explainers = object_value(entries.pop("explainers", {}), f"explainers of {name}")
    return ServedModel(name, entries.pop("source", "default"), entries, dict(explainers))


def _limits(table: object, path: Path) -> ServiceLimits:
    known = {each.name: float if each.type == "float" else int for each in fields(ServiceLimits)}
    entries = object_value(table, f"{path}: limits", (), list(known))
    for name, value in entries.items():
        if not fits(value, known[name]):
            raise FormatError(f"{path}: the limit {name} must be a number ({known[name].__name__}), got {value!r:.40}")
    return ServiceLimits(**entries)  # type: ignore[arg-type] # checked above
