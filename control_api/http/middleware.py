"""ASGI middleware of the control plane: request IDs, `HEAD`, request limits, and large bodies sent in chunks."""

import logging

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_api.http.client_address import client_address
from control_api.http.error_responses import problem_response
from control_api.http.session_cookie import read_credential
from control_api.limits.request_limits import Admission, RequestLimiter
from pipeline_contracts.client_address import ClientAddresses, network_of
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import Problem
from pipeline_contracts.identifiers import choose_request_id

logger = logging.getLogger(__name__)

# A connection buffers at least this many bytes of a response that the client has not read.
_CHUNK_BYTES = 32 * 1024
# Webhooks have limits of their own, since a Git host sends for many accounts. Health checks come from the machine
# itself.
_UNLIMITED_PATHS = ("/health/", "/api/repositories/", "/api/git-app/", "/api/github-app/")


class RequestIdMiddleware:
    """Sets `X-Request-Id` on each response: the caller's ID if it is well-formed, otherwise a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received_id = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = choose_request_id(received_id)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        scope["state"]["request_id"] = request_id
        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            # The client has disconnected, so it needs no response, and the service did not fail.
            logger.debug("the caller has disconnected", extra={"request_id": request_id})


class HeadRequestMiddleware:
    """Responds to `HEAD` as to `GET`, without the body, for every path that allows `GET`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        # A live log would not end: `HEAD` gets the headers of the log as JSON.
        headers = [
            (name, value)
            for name, value in scope["headers"]
            if name != b"accept" or b"event-stream" not in value
        ]
        ended = False

        async def send_head(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.start":
                await send(message)
            elif message["type"] == "http.response.body" and not ended:
                ended = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app({**scope, "method": "GET", "headers": headers}, receive, send_head)


class RequestLimitMiddleware:
    """Limits the requests of each account and of each unauthenticated address; responds 429 to the rest."""

    def __init__(self, app: ASGIApp, limiter: RequestLimiter, addresses: ClientAddresses) -> None:
        self._app = app
        self._limiter = limiter
        self._addresses = addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_UNLIMITED_PATHS):
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        credential = read_credential(connection)
        digest = None if credential is None else digest_credential(credential)
        address = network_of(client_address(connection, self._addresses))
        try:
            admission: Admission | None = await self._limiter.admit(digest, address)
        except Problem as problem:
            await problem_response(problem)(scope, receive, send)
            return

        def release() -> None:
            nonlocal admission
            if admission is not None:
                self._limiter.release(admission)
                admission = None

        async def send_and_release(message: Message) -> None:
            # A live log may be sent for hours: a request counts only until its response begins.
            if message["type"] == "http.response.start":
                release()
            await send(message)

        try:
            await self._app(scope, receive, send_and_release)
        finally:
            release()


class BodyChunkMiddleware:
    """Sends large bodies in chunks, each after the client has read the previous one.

    The server copies bytes that the client has not read yet, so this class passes on little at a time. The chunks are
    views of the body: a file that many clients download is in memory once.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_chunks(message: Message) -> None:
            if len(message.get("body", b"")) <= _CHUNK_BYTES:
                await send(message)
                return
            body = memoryview(message["body"])
            last = (len(body) - 1) // _CHUNK_BYTES * _CHUNK_BYTES
            for start in range(0, last, _CHUNK_BYTES):
                await send({**message, "body": body[start : start + _CHUNK_BYTES], "more_body": True})
            await send({**message, "body": body[last:]})

        await self._app(scope, receive, send_chunks)
