"""The pages of a study behind a socket, until a signal ends it."""

from __future__ import annotations

from collections.abc import Callable

from didact.service.config import ServiceConfig
from didact.service.listening import AnnouncingServer, uvicorn_config
from didact.service.studies.app import create_study_app
from didact.study.results import StudyResults
from didact.study.session import Study

FORM_BYTES = 64 << 10
"""Of a form at most: a comment is the longest that raters send."""


def serve_study(
    study: Study,
    config: ServiceConfig,
    report: Callable[[StudyResults], str],
    announce: Callable[[str], None],
    *,
    secure: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT; an answer that was accepted is stored before the end.

    Args:
        study: on disk.
        config: where it is reached; the token is the owner's key.
        report: makes the HTML page of results.
        announce: called with the address once it listens.
        secure: whether raters reach it by HTTPS.
    """
    app = create_study_app(study, config, report, secure=secure)
    AnnouncingServer(uvicorn_config(app, config), announce).run()
