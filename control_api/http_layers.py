"""ASGI layers around the control plane's application: request IDs and `HEAD`."""

import logging

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline_contracts.request_ids import request_id

logger = logging.getLogger(__name__)


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
