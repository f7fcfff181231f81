"""Handles one request: sends it to an instance, and forwards the response."""

import asyncio
import logging

from aiohttp import StreamReader
from aiohttp.http import RawResponseMessage

from deployer.traffic.interface import Target
from deployer.traffic.proxy.caller import Caller, RelayedResponse
from deployer.traffic.proxy.connector import Connector, TargetConnection
from deployer.traffic.proxy.frame_scheduler import FrameScheduler
from deployer.traffic.proxy.heads import LAST_CHUNK, RequestHead, write_chunk, write_response_head
from deployer.traffic.proxy.open_streams import OpenStreams
from deployer.traffic.proxy.refusals import BadGateway, BadRequest, GatewayTimeout, RequestTimeout
from deployer.traffic.proxy.responses import UpstreamResponse, is_final, relay_interim
from deployer.traffic.proxy.routes import RoutedEnvironment
from deployer.traffic.proxy.tunnel import Tunnel
from deployer.traffic.proxy.upstream import InvalidResponse, ResponseTooLong, Upstream, UpstreamDied
from deployer.traffic.proxy.watch import PeerSilent, Watch

logger = logging.getLogger(__name__)

# Safe methods: repeating the request is harmless even if the ended instance has already executed it.
_REPEATABLE = ("GET", "HEAD", "OPTIONS")
_REPEATS = 2


class Exchange:
    """Sends one request to an instance and forwards the response. `response_timeout_seconds`: the longest time from the
    end of the request to the head of the response."""

    def __init__(
        self,
        caller: Caller,
        head: RequestHead,
        response_timeout_seconds: float,
        watch: Watch,
        streams: OpenStreams,
        scheduler: FrameScheduler,
    ) -> None:
        self._caller = caller
        self._scheduler = scheduler
        self._streams = streams
        self._head = head
        self._watch = watch
        self._response_timeout_seconds = response_timeout_seconds
        self._caller_fault: Exception | None = None

    async def run(
        self, connector: Connector, routed: RoutedEnvironment, hold_seconds: float
    ) -> RelayedResponse:
        """Return the response that was written. Raises `CallerDisconnected`, or a `Problem` if none was written."""
        request = self._caller.request
        ends_at = asyncio.get_running_loop().time() + hold_seconds
        is_repeatable = (
            request.method in _REPEATABLE and not request.body_exists and not self._head.is_upgrade
        )
        repeats = _REPEATS if is_repeatable else 0
        died: Target | None = None
        while True:
            connection = await connector.connect(routed, ends_at, died)
            try:
                return await self._run_on(connection)
            except UpstreamDied:
                if not repeats or self._caller.has_response:
                    raise BadGateway(
                        "The application ended the connection before it answered. It may have carried the request "
                        "out."
                    ) from None
                repeats -= 1
                died = connection.target
            except ResponseTooLong:
                raise BadGateway(
                    "The head of the application's answer is too long. Have it send fewer or shorter headers."
                ) from None
            except InvalidResponse:
                raise BadGateway("The application's response is not HTTP/1.1.") from None
            finally:
                connection.release()

    async def _run_on(self, connection: TargetConnection) -> RelayedResponse:
        upstream = connection.upstream
        upstream.expect_response(to_head=self._caller.request.method == "HEAD")
        sending = self._send(upstream)
        try:
            message, body = await self._read_head(upstream, sending)
            if message.code == 101:
                return await self._upgrade(connection, message)
            # After a final response in place of 100 (Continue), the caller may or may not send its body.
            may_stay_open = sending is None or sending.done() or not self._head.expects_continue
            response = UpstreamResponse(self._caller, upstream, message, body)
            if not response.is_event_stream:
                return await response.relay(may_stay_open=may_stay_open)
            with self._streams.opened(
                connection.environment_id, connection.target, response.end, is_web_socket=False
            ):
                return await response.relay(may_stay_open=may_stay_open)
        finally:
            if sending is not None:
                sending.cancel()

    def _send(self, upstream: Upstream) -> asyncio.Task[None] | None:
        """Write the head, and also the body if it has arrived completely. Otherwise return a task that forwards the
        body."""
        content = self._caller.request.content
        is_chunked = self._head.is_chunked
        try:
            if not self._caller.request.body_exists:
                upstream.send(self._head.data)
                return None
            if content.is_eof() and content.exception() is None:
                body = content.read_nowait()
                upstream.send(self._head.data + (write_chunk(body) + LAST_CHUNK if is_chunked else body))
                return None
            upstream.send(self._head.data)
        except ConnectionError as error:
            raise UpstreamDied(str(error)) from None
        return asyncio.create_task(self._send_body(upstream))

    async def _send_body(self, upstream: Upstream) -> None:
        """Forward the body. If the caller fails, cut the connection to the instance, so that the instance does not
        mistake a part for the whole body. Store the fault."""
        is_chunked = self._head.is_chunked
        try:
            while data := await self._caller.read():
                upstream.send(write_chunk(data) if is_chunked else data)
                await self._watch.drain(upstream)
            if is_chunked:
                upstream.send(LAST_CHUNK)
        except ConnectionError:
            # The instance reads no more of the body, but may have responded.
            return
        except PeerSilent:
            self._caller_fault = GatewayTimeout(
                f"The application read nothing of the request's body for {self._watch.silent_seconds:g} s."
            )
            upstream.cut()
        except TimeoutError:
            self._caller_fault = RequestTimeout(
                f"Nothing of the request's body arrived for {self._watch.silent_seconds:g} s."
            )
            upstream.cut()
        except Exception as error:
            # aiohttp's errors for unreadable bodies have no common type.
            logger.debug("cannot read a request's body: %s", error)
            self._caller_fault = BadRequest("The request's body cannot be read.")
            upstream.cut()

    async def _read_head(
        self, upstream: Upstream, sending: asyncio.Task[None] | None
    ) -> tuple[RawResponseMessage, StreamReader]:
        """Return the final response's head. Forwards interim (1xx) heads before it."""
        try:
            if sending is None:
                async with asyncio.timeout(self._response_timeout_seconds):
                    return await self._read_final(upstream)
            reading = asyncio.ensure_future(self._read_final(upstream))
            try:
                await asyncio.wait((reading, sending), return_when=asyncio.FIRST_COMPLETED)
                async with asyncio.timeout(self._response_timeout_seconds):
                    return await reading
            finally:
                reading.cancel()
        except TimeoutError:
            raise GatewayTimeout(
                f"The application did not answer within {self._response_timeout_seconds:g} s."
            ) from None
        except UpstreamDied:
            if self._caller_fault is not None:
                raise self._caller_fault from None
            raise

    async def _read_final(self, upstream: Upstream) -> tuple[RawResponseMessage, StreamReader]:
        while True:
            message, body = await upstream.read_head()
            if is_final(message):
                return message, body
            relay_interim(self._caller, message, expects_continue=self._head.expects_continue)

    async def _upgrade(self, connection: TargetConnection, message: RawResponseMessage) -> RelayedResponse:
        upgrade = message.headers.get("Upgrade", "").lower()
        if not self._head.is_upgrade or upgrade != "websocket":
            raise BadGateway("The application switched to a protocol that the request did not ask for.")
        head = write_response_head(
            101,
            message.reason,
            message.raw_headers,
            framing=b"Upgrade: websocket",
            connection=b"Connection: Upgrade",
        )
        if head is None:
            raise BadGateway("The application's answer has headers that cannot be passed on.")
        self._caller.has_response = True
        self._caller.write(head)
        environment_id = connection.environment_id
        tunnel = Tunnel(self._caller, connection.upstream, self._watch, self._scheduler, environment_id)
        with self._streams.opened(environment_id, connection.target, tunnel.end, is_web_socket=True):
            await tunnel.run()
        return RelayedResponse(101, keep_alive=False)
