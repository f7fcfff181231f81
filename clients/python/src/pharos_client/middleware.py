"""Middleware that records requests of WSGI and ASGI applications."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable, Iterator, MutableMapping
from typing import Any, Callable

from pharos_client.client import Client
from pharos_client.current import get_client
from pharos_client.tracing import Span, enter_span, leave_span, start_span

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
AsgiApp = Callable[
    [Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


class PharosWSGI:
    """Records each request with method, path without query, status and duration, and exceptions that it raises.

    The duration ends when the server has taken the whole response. `client`: that of the process by default.
    """

    def __init__(self, app: WsgiApp, client: Client | None = None) -> None:
        self._app = app
        self._client = client

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        client = self._client or get_client()
        span = start_span(environ.get("HTTP_TRACEPARENT"))
        begin = time.perf_counter()
        status = 500

        def start(line: str, *arguments: Any) -> Any:
            nonlocal status
            status = int(line[:3])
            return start_response(line, *arguments)

        token = enter_span(span)
        parts: Iterable[bytes] | None = None
        try:
            parts = self._app(environ, start)
            yield from parts
        except Exception as error:
            status = 500
            client.capture_exception(error)
            raise
        finally:
            if parts is not None and hasattr(parts, "close"):
                parts.close()
            path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
            route = environ.get("pharos.route")
            _record(client, span, environ.get("REQUEST_METHOD", ""), path, route, status, begin)
            leave_span(token)


class PharosASGI:
    """Records each HTTP request of an ASGI application like `PharosWSGI`, and the route of Starlette and FastAPI."""

    def __init__(self, app: AsgiApp, client: Client | None = None) -> None:
        self._app = app
        self._client = client

    async def __call__(
        self,
        scope: Scope,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = self._client or get_client()
        headers = dict(scope.get("headers") or ())
        span = start_span(headers.get(b"traceparent", b"").decode("latin-1"))
        begin = time.perf_counter()
        status = 500

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        token = enter_span(span)
        try:
            await self._app(scope, receive, send_on)
        except Exception as error:
            status = 500
            client.capture_exception(error)
            raise
        finally:
            route = getattr(scope.get("route"), "path", None)
            _record(client, span, scope.get("method", ""), scope.get("path", ""), route, status, begin)
            leave_span(token)


def _record(
    client: Client,
    span: Span,
    method: str,
    path: str,
    route: str | None,
    status: int,
    begin: float,
) -> None:
    client.event(
        "request",
        name=f"{method} {route or path}",
        route=route,
        url=path,
        status_code=status,
        severity="error" if status >= 500 else "info",
        duration_ms=round((time.perf_counter() - begin) * 1000, 3),
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id or None,
        attributes={"http.request.method": method},
    )
