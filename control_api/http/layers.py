"""ASGI layers around the control plane's application: request IDs, `HEAD`, limits of requests, and small pieces."""

import logging

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_api.http.client_address import client_address
from control_api.limits.request_limits import Admission, RequestLimits
from pipeline_contracts.client_address import ClientAddresses, network_of
from pipeline_contracts.credentials import bearer_credential, digest_credential
from pipeline_contracts.errors import Problem
from pipeline_contracts.request_ids import request_id

logger = logging.getLogger(__name__)

# The least number of bytes that a connection holds of an unread answer.
_PIECE_BYTES = 32 * 1024
# Webhooks have limits of their own, since a Git host sends for many accounts. Health is asked by the machine itself.
_UNLIMITED = ("/health/", "/api/repositories/", "/api/git-app/", "/api/github-app/")


def problem_response(problem: Problem) -> JSONResponse:
    """The answer that refuses a request."""
    return JSONResponse(
        problem.to_document(), problem.status, problem.headers, media_type="application/problem+json"
    )


class RequestIds:
    """Gives each answer an `X-Request-Id`: the caller's if it is sane, else a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        identity = request_id(given)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = identity
            await send(message)

        scope["state"]["request_id"] = identity
        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            # The client hung up in mid-body: nobody reads a response, and the service did not fail.
            logger.debug("the caller hung up", extra={"request_id": identity})


class HeadRequests:
    """Answers `HEAD` wherever `GET` is taken: as `GET`, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        # A live log never ends: it is answered as the log that ends.
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


class LimitedRequests:
    """Lets each account, and each address that has proved nothing, make so many requests; the rest is 429."""

    def __init__(self, app: ASGIApp, limits: RequestLimits, addresses: ClientAddresses) -> None:
        self._app = app
        self._limits = limits
        self._addresses = addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_UNLIMITED):
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        credential = bearer_credential(connection.headers.get("authorization"))
        digest = None if credential is None else digest_credential(credential)
        address = network_of(client_address(connection, self._addresses))
        try:
            admission: Admission | None = await self._limits.enter(digest, address)
        except Problem as problem:
            await problem_response(problem)(scope, receive, send)
            return

        def leave() -> None:
            nonlocal admission
            if admission is not None:
                self._limits.leave(admission)
                admission = None

        async def send_and_leave(message: Message) -> None:
            # A live log may be sent for hours: the work of a request ends where its answer begins.
            if message["type"] == "http.response.start":
                leave()
            await send(message)

        try:
            await self._app(scope, receive, send_and_leave)
        finally:
            leave()


class SmallPieces:
    """Sends large bodies in pieces, each after the caller has read the former piece.

    The server copies the bytes that the caller has not read, so this layer hands over little at a time. The pieces are
    views of the body: a file that many callers download is in memory once.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_pieces(message: Message) -> None:
            if len(message.get("body", b"")) <= _PIECE_BYTES:
                await send(message)
                return
            body = memoryview(message["body"])
            last = (len(body) - 1) // _PIECE_BYTES * _PIECE_BYTES
            for start in range(0, last, _PIECE_BYTES):
                await send({**message, "body": body[start : start + _PIECE_BYTES], "more_body": True})
            await send({**message, "body": body[last:]})

        await self._app(scope, receive, send_pieces)
