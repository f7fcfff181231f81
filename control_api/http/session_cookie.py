"""The cookie of a session. Only the server reads it, and only requests of the dashboard's own pages carry it.

Over HTTPS its name begins with `__Host-`: no other host can set it, not even an application in a subdomain of the same
domain. Its name ends in a part that is different for each installation: cookies do not distinguish ports, so that two
installations on one host would otherwise overwrite each other's.

A request with several cookies of the name has no session. One of them is not from Pharos. Their order does not show
which one, because browsers sort cookies by path, and an attacker can choose the path. Their values do not show it
either, because an attacker may have a valid session. The response removes all of them except the one that this host
has set with `Path=/`, so that the browser's next request has one cookie.
"""

import hmac

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_api.http.cookie_header import find_cookie_values, make_deletions
from control_api.http.public_address import is_https, public_address
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
    """Return the secret in the cookie of the request, or None without one or with several."""
    return read_cookie(connection, _NAME)


def count_session_cookies(connection: HTTPConnection) -> int:
    """Return how many cookies of the request have the name of the session cookie."""
    return len(_find_values(connection, _NAME))


def read_cookie(connection: HTTPConnection, name: str) -> str | None:
    """Return the value of a cookie that `set_cookie` has set, or None without one.

    With several cookies of this name, return None, and remove those that Pharos has not set with the response.
    """
    values = _find_values(connection, name)
    if len(values) > 1:
        _remove_foreign_cookies(connection, name)
        return None
    return values[0] or None if values else None


def _find_values(connection: HTTPConnection, name: str) -> list[str]:
    if "cookie" not in connection.headers:
        return []
    return find_cookie_values(connection.scope["headers"], _full_name(connection, name).encode())


def _remove_foreign_cookies(connection: HTTPConnection, name: str) -> None:
    public = public_address(connection).partition("://")[2]
    hosts = (connection.headers.get("host", ""), public.partition("/")[0])
    path = connection.scope.get("raw_path") or connection.scope["path"].encode()
    for deletion in make_deletions(_full_name(connection, name), hosts, path.decode("latin-1")):
        _responses_cookies(connection)[deletion] = deletion


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
    _responses_cookies(connection)[name] = "; ".join([f"{name}={value}", *attributes])


def _responses_cookies(connection: HTTPConnection) -> dict[str, str]:
    """Return the `Set-Cookie` headers of the response; each replaces an earlier one with the same key."""
    cookies: dict[str, str] = connection.scope["state"].setdefault(_STATE, {})
    return cookies


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
