"""What the routes of a study share."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from didact.service.studies.access import Cookies, OwnerDoor
from didact.service.studies.desk import StudyDesk
from didact.study.session import Study


@dataclass(frozen=True)
class StudySite:
    """One study as it is served.

    Attributes:
        desk: calls of the study.
        cookies: of raters and owner.
        door: for the owner.
    """

    desk: StudyDesk
    cookies: Cookies
    door: OwnerDoor

    @property
    def study(self) -> Study:
        """On disk."""
        return self.desk.study


def site_of(request: Request) -> StudySite:
    """The study that a request is about."""
    site: StudySite = request.app.state.site
    return site
