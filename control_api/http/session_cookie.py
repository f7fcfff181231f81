"""The cookie of a session. Only the server reads it, and only requests of the dashboard's own pages carry it.

Over HTTPS its name begins with `__Host-`: no other host can set it, not even an application in a subdomain of the same
domain. Its name ends in a part that is different for each installation: cookies do not distinguish ports, so that two
installations on one host would otherwise overwrite each other's.
"""

import hmac

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_api.http.public_address import is_https
from pipeline_contracts.credentials import parse_bearer

_NAME = "pharos_session"
_SECURE_PREFIX = "__Host-"
_STATE = "set_cookies"
_SUFFIX_CHARACTERS = 8


def make_cookie_suffix(key: bytes) -> str:
    """Return the last part of the names of this installation's cookies, from a secret that all of its control planes
    share."""
    return hmac.digest(key, b"names of cookies", "sha256").hex()[:_SUFFIX_CHARACTERS]


def read_session_cookie(connection: HTTPConnection) -> str | None:
    """Return the secret in the cookie of the request, or None without one."""
    return read_cookie(connection, _NAME)


def read_cookie(connection: HTTPConnection, name: str) -> str | None:
    """Return the value of a cookie that `set_cookie` has set, or None without one."""
    if "cookie" not in connection.headers:
        return None
    return connection.cookies.get(_full_name(connection, name)) or None


def read_credential(connection: HTTPConnection) -> str | None:
    """Return the credential in the header `Authorization`, or else the one in the session cookie."""
    return parse_bearer(connection.headers.get("authorization")) or read_session_cookie(connection)


def set_session_cookie(connection: HTTPConnection, secret: str, seconds: int) -> None:
    """Set the cookie with the response to this request, for this number of seconds."""
    set_cookie(connection, _NAME, secret, seconds, same_site="Strict")


def clear_session_cookie(connection: HTTPConnection) -> None:
    """Remove the cookie with the response to this request."""
    set_session_cookie(connection, "", 0)


def set_cookie(
    connection: HTTPConnection, name: str, value: str, seconds: int, *, same_site: str, path: str = "/"
) -> None:
    """Set a cookie that scripts cannot read with the response. `name`: without the parts that tell apart HTTPS and
    installations."""
    attributes = [f"Path={path}", f"Max-Age={seconds}", "HttpOnly", f"SameSite={same_site}"]
    if is_https(connection):
        attributes.append("Secure")
    name = _full_name(connection, name)
    cookies = connection.scope["state"].setdefault(_STATE, {})
    cookies[name] = "; ".join([f"{name}={value}", *attributes])


def _full_name(connection: HTTPConnection, name: str) -> str:
    prefix = _SECURE_PREFIX if is_https(connection) else ""
    return f"{prefix}{name}_{connection.app.state.cookie_suffix}"


class SetCookieMiddleware:
    """Adds the cookies that the request has set to its response, even if the request is refused."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_cookies(message: Message) -> None:
            if message["type"] == "http.response.start" and (cookies := scope["state"].get(_STATE)):
                headers = MutableHeaders(scope=message)
                headers["Cache-Control"] = "no-store"
                for cookie in cookies.values():
                    headers.append("Set-Cookie", cookie)
            await send(message)

        await self._app(scope, receive, send_with_cookies)
