"""Who sends a request: a rater by the session in a cookie, the owner by the key of the study's service."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

from starlette.requests import Request
from starlette.responses import Response

from didact.service.problems import Refusal

OWNER_HOURS = 12.0
"""How long the owner stays signed in."""


class Cookies:
    """The cookies of one study: no script reads them, and no other page sends them along with a form.

    Args:
        study: names the study, since the ports of a machine share their cookies.
        secure: whether raters reach the service by HTTPS, so that cookies travel in no other way.
    """

    def __init__(self, study: str, secure: bool) -> None:
        self.rater = f"study-{_digest(study)}"
        self.owner = f"owner-{_digest(study)}"
        self._secure = secure

    def keep(self, response: Response, name: str, value: str) -> Response:
        """The response, with a cookie that ends with the browser."""
        response.set_cookie(name, value, httponly=True, secure=self._secure, samesite="lax")
        return response

    def drop(self, response: Response, name: str) -> Response:
        """The response, without the cookie."""
        response.delete_cookie(name, httponly=True, secure=self._secure, samesite="lax")
        return response


class OwnerDoor:
    """Lets the owner in who has shown the key.

    Args:
        key: of the service.
        cookies: of the study.
    """

    def __init__(self, key: str, cookies: Cookies) -> None:
        self._key = key
        self._cookies = cookies
        self._until: dict[str, float] = {}

    def opens(self, key: str) -> bool:
        """Whether it is the key."""
        return hmac.compare_digest(key.strip().encode("utf-8", "replace"), self._key.encode())

    def let_in(self, response: Response) -> Response:
        """The response, with a session of the owner."""
        now = time.monotonic()
        self._until = {session: end for session, end in self._until.items() if end > now}
        session = secrets.token_urlsafe(18)
        self._until[_digest(session)] = now + 3600 * OWNER_HOURS
        return self._cookies.keep(response, self._cookies.owner, session)

    def let_out(self, request: Request, response: Response) -> Response:
        """The response, after which the session is over."""
        self._until.pop(_digest(request.cookies.get(self._cookies.owner, "")), None)
        return self._cookies.drop(response, self._cookies.owner)

    def is_owner(self, request: Request) -> bool:
        """Whether the request carries the key as a bearer token, or a session."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.opens(given):
            return True
        return self._until.get(_digest(request.cookies.get(self._cookies.owner, "")), 0.0) > time.monotonic()

    def check(self, request: Request) -> None:
        """Refuse whoever is not the owner."""
        if not self.is_owner(request):
            raise Refusal(401, "this page is for the owner of the study; sign in at /owner with the key", "not_owner")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
