"""One request: found its environment, sent to an instance, its answer passed on."""

import asyncio
import logging

from aiohttp import StreamReader
from aiohttp.http import RawResponseMessage

from deployer.traffic.interface import Target
from deployer.traffic.proxy.answers import Answer, is_final, relay_interim
from deployer.traffic.proxy.caller import Caller, Relayed
from deployer.traffic.proxy.endless import Endless
from deployer.traffic.proxy.frame_turns import FrameTurns
from deployer.traffic.proxy.heads import LAST_CHUNK, RequestHead, write_answer, write_chunk
from deployer.traffic.proxy.holding import Connected, Holding
from deployer.traffic.proxy.refusals import BadGateway, BadRequest, GatewayTimeout, RequestTimeout
from deployer.traffic.proxy.routes import Routed
from deployer.traffic.proxy.tunnel import Tunnel
from deployer.traffic.proxy.upstream import AnswerInvalid, AnswerTooLong, Upstream, UpstreamDied
from deployer.traffic.proxy.watch import PeerSilent, Watch

logger = logging.getLogger(__name__)

# These change nothing, so that it does not matter whether the instance that died had carried them out.
_REPEATABLE = ("GET", "HEAD", "OPTIONS")
_REPEATS = 2


class Exchange:
    """A request on its way. `think_seconds`: from its end to the answer's head."""

    def __init__(
        self,
        caller: Caller,
        head: RequestHead,
        think_seconds: float,
        watch: Watch,
        endless: Endless,
        turns: FrameTurns,
    ) -> None:
        self._caller = caller
        self._turns = turns
        self._endless = endless
        self._head = head
        self._watch = watch
        self._think_seconds = think_seconds
        self._fault: Exception | None = None

    async def run(self, holding: Holding, routed: Routed, hold_seconds: float) -> Relayed:
        """Gives the answer that was written. Raises a `Problem` where none was, `CallerGone`."""
        request = self._caller.request
        ends_at = asyncio.get_running_loop().time() + hold_seconds
        is_repeatable = (
            request.method in _REPEATABLE and not request.body_exists and not self._head.is_upgrade
        )
        repeats = _REPEATS if is_repeatable else 0
        died: Target | None = None
        while True:
            connected = await holding.connect(routed, ends_at, died)
            try:
                return await self._answer(connected)
            except UpstreamDied:
                if not repeats or self._caller.has_answer:
                    raise BadGateway(
                        "The application ended the connection before it answered. It may have carried the request "
                        "out."
                    ) from None
                repeats -= 1
                died = connected.target
            except AnswerTooLong:
                raise BadGateway(
                    "The head of the application's answer is too long. Have it send fewer or shorter headers."
                ) from None
            except AnswerInvalid:
                raise BadGateway("What the application answered is not HTTP/1.1.") from None
            finally:
                connected.give_back()

    async def _answer(self, connected: Connected) -> Relayed:
        upstream = connected.upstream
        upstream.expect_answer(to_head=self._caller.request.method == "HEAD")
        sending = self._send(upstream)
        try:
            message, body = await self._read_head(upstream, sending)
            if message.code == 101:
                return await self._switch(connected, message)
            # Whoever was answered before it was told to send its body may send it or not: nobody could tell.
            may_stay_open = sending is None or sending.done() or not self._head.expects_continue
            answer = Answer(self._caller, upstream, message, body)
            if not answer.is_event_stream:
                return await answer.relay(may_stay_open=may_stay_open)
            with self._endless.opened(
                connected.environment_id, connected.target, answer.end, is_web_socket=False
            ):
                return await answer.relay(may_stay_open=may_stay_open)
        finally:
            if sending is not None:
                sending.cancel()

    def _send(self, upstream: Upstream) -> asyncio.Task[None] | None:
        """Write the head, and the body if it is there already; gives the task that writes the body as it comes."""
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
        """A fault of the caller's is kept and ends the connection: an instance must not take a part for the whole."""
        is_chunked = self._head.is_chunked
        try:
            while data := await self._caller.read():
                upstream.send(write_chunk(data) if is_chunked else data)
                await self._watch.drain(upstream)
            if is_chunked:
                upstream.send(LAST_CHUNK)
        except ConnectionError:
            # The instance reads no more; it may have answered.
            return
        except PeerSilent:
            self._fault = GatewayTimeout(
                f"The application took nothing of the request's body for {self._watch.silent_seconds:g} s."
            )
            upstream.cut()
        except TimeoutError:
            self._fault = RequestTimeout("The request's body did not go on.")
            upstream.cut()
        except Exception as error:
            # aiohttp's errors of a body that cannot be read have no common type.
            logger.debug("a body cannot be read: %s", error)
            self._fault = BadRequest("The request's body cannot be read.")
            upstream.cut()

    async def _read_head(
        self, upstream: Upstream, sending: asyncio.Task[None] | None
    ) -> tuple[RawResponseMessage, StreamReader]:
        """The answer's head behind those of 1xx, which are passed on."""
        try:
            if sending is None:
                async with asyncio.timeout(self._think_seconds):
                    return await self._read_final(upstream)
            reading = asyncio.ensure_future(self._read_final(upstream))
            try:
                await asyncio.wait((reading, sending), return_when=asyncio.FIRST_COMPLETED)
                async with asyncio.timeout(self._think_seconds):
                    return await reading
            finally:
                reading.cancel()
        except TimeoutError:
            raise GatewayTimeout(
                f"The application did not answer within {self._think_seconds:g} s."
            ) from None
        except UpstreamDied:
            if self._fault is not None:
                raise self._fault from None
            raise

    async def _read_final(self, upstream: Upstream) -> tuple[RawResponseMessage, StreamReader]:
        while True:
            message, body = await upstream.read_head()
            if is_final(message):
                return message, body
            relay_interim(self._caller, message, expects_continue=self._head.expects_continue)

    async def _switch(self, connected: Connected, message: RawResponseMessage) -> Relayed:
        upgrade = message.headers.get("Upgrade", "").lower()
        if not self._head.is_upgrade or upgrade != "websocket":
            raise BadGateway("The application switched to a protocol that nobody had asked for.")
        head = write_answer(
            101,
            message.reason,
            message.raw_headers,
            framing=b"Upgrade: websocket",
            connection=b"Connection: Upgrade",
        )
        if head is None:
            raise BadGateway("The application's answer has headers that cannot be passed on.")
        self._caller.has_answer = True
        self._caller.write(head)
        environment_id = connected.environment_id
        tunnel = Tunnel(self._caller, connected.upstream, self._watch, self._turns, environment_id)
        with self._endless.opened(environment_id, connected.target, tunnel.end, is_web_socket=True):
            await tunnel.run()
        return Relayed(101, keep_alive=False)
