"""An application and its callers cannot block the proxy for others: shares of slots, and silent peers."""

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from deployer.traffic.interface import Route, Target
from deployer.traffic.proxy.refusals import Unavailable
from deployer.traffic.proxy.slots import Slots
from deployer.traffic.proxy.upstream import Upstream, open_upstream
from deployer.traffic.proxy.watch import PeerSilent, Watch
from tests.deployer.traffic.applications import raw_server, running_application, until
from tests.deployer.traffic.carriers import Carrier, proxy_carrier

UPLOAD = b"POST / HTTP/1.1\r\nHost: deaf.localhost\r\nContent-Length: 1000000000\r\n\r\n"
SOCKET = (
    b"GET /socket HTTP/1.1\r\nHost: deaf.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


class NonReadingInstance:
    """Reads a head, writes `answer`, and reads nothing more until `reads` is set."""

    def __init__(self, answer: bytes = b"") -> None:
        self.answer = answer
        self.request_count = 0
        self.reads = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.request_count += 1
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        if self.answer:
            writer.write(self.answer)
        await self.reads.wait()


class FakeClock:
    """A clock that the test advances."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def _route(proxy: Carrier, deaf: Target, other: Target | None = None) -> None:
    await proxy.traffic.set_route(1, Route(("deaf.localhost",), (deaf,), is_awaited=True))
    if other is not None:
        await proxy.traffic.set_route(2, Route(("b.localhost",), (other,), is_awaited=True))


@contextlib.asynccontextmanager
async def calling(
    port: int, head: bytes = UPLOAD, *, floods: bool = True
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Send a head, and then a body until the proxy stops reading."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def flood() -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(bytes(65536))
                await writer.drain()

    writer.write(head)
    flooding = asyncio.create_task(flood()) if floods else None
    try:
        yield reader, writer
    finally:
        if flooding is not None:
            flooding.cancel()
            await asyncio.gather(flooding, return_exceptions=True)
        writer.transport.abort()


def test_an_environment_gets_a_slot_while_it_has_fewer_than_are_free() -> None:
    slots = Slots(12, reserved=0)
    taken: list[int] = []
    for environment in (1, 2, 3, 4):
        number = 0
        with pytest.raises(Unavailable) as refusal:
            while True:
                slots.take(environment)
                number += 1
        assert refusal.value.headers["Retry-After"] and f"{number:,} requests" in refusal.value.detail
        taken.append(number)
    assert taken == [6, 3, 2, 1]
    # Slots that the greedy environment releases go to the others, until the shares are equal.
    for _ in range(6):
        slots.release(1)
    for environment in (2, 3, 4, 4):
        slots.take(environment)
    with pytest.raises(Unavailable):
        slots.take(2)


def test_the_first_slots_of_an_environment_are_never_refused() -> None:
    """The number of greedy environments does not matter."""
    slots = Slots(1000, reserved=5)
    for environment in range(100):
        with contextlib.suppress(Unavailable):
            while True:
                slots.take(environment)
    for _ in range(5):
        slots.take(100)
    with pytest.raises(Unavailable):
        slots.take(100)


async def test_a_neighbour_is_served_during_uploads_to_an_application_that_reads_nothing() -> None:
    deaf = NonReadingInstance()
    async with (
        contextlib.AsyncExitStack() as exits,
        proxy_carrier(requests_at_once=40, reserved=2) as proxy,
        raw_server(deaf.serve) as target,
        running_application("neighbour") as neighbour,
    ):
        await _route(proxy, target, neighbour.target)
        callers = [await exits.enter_async_context(calling(proxy.port)) for _ in range(30)]
        await until(lambda: deaf.request_count == 20)
        answers = [asyncio.create_task(reader.readuntil(b"}")) for reader, _ in callers]
        await until(lambda: sum(answer.done() for answer in answers) == 10)
        for answer in answers:
            if answer.done():
                assert (
                    answer.result().startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: 1" in answer.result()
                )
            answer.cancel()
        for _ in range(20):
            assert (await proxy.ask("b.localhost"))[0] == 200
        assert await proxy.traffic.count_in_flight(1, target) == 20


async def test_an_upload_that_the_application_does_not_read_is_ended() -> None:
    """The caller gets 504, or a truncated response if the application has begun one."""
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun"
    for answer in (b"", begun):
        deaf = NonReadingInstance(answer)
        async with proxy_carrier(silent_seconds=0.4) as proxy, raw_server(deaf.serve) as target:
            await _route(proxy, target)
            async with calling(proxy.port) as (reader, _), asyncio.timeout(60):
                got = await reader.readuntil(b"begun" if answer else b"}")
                assert got.startswith(b"HTTP/1.1 200 " if answer else b"HTTP/1.1 504 "), got
                assert answer or b"0.4 s" in got
                while await proxy.traffic.count_in_flight(1, target):
                    await asyncio.sleep(0.01)


async def test_a_caller_that_aborts_an_unread_upload_is_noticed() -> None:
    """The proxy notices a reset, and a normal end if it fits into the kernel's buffer."""
    deaf = NonReadingInstance()
    async with proxy_carrier() as proxy, raw_server(deaf.serve) as target:
        await _route(proxy, target)
        async with calling(proxy.port) as (_, writer):
            await until(lambda: deaf.request_count == 1)
            await _paused(proxy)
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            async with asyncio.timeout(60):
                while await proxy.traffic.count_in_flight(1, target):
                    await asyncio.sleep(0.01)


async def _paused(proxy: Carrier) -> None:
    """Wait until the proxy no longer reads from its only caller."""

    def is_paused() -> bool:
        callers = list(proxy.traffic._watch._callers)  # type: ignore[attr-defined]
        return bool(callers) and callers[0].request.protocol._reading_paused

    await until(is_paused)


async def test_a_web_socket_ends_when_one_side_stops_reading() -> None:
    deaf = NonReadingInstance(SWITCHED)
    async with proxy_carrier(silent_seconds=0.4) as proxy, raw_server(deaf.serve) as target:
        await _route(proxy, target)
        async with calling(proxy.port, SOCKET) as (reader, _), asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                await reader.read()
            while await proxy.traffic.count_in_flight(1, target):
                await asyncio.sleep(0.01)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCHED)
        while True:
            writer.write(bytes(65536))
            await writer.drain()

    async with proxy_carrier(silent_seconds=0.4) as proxy, raw_server(talk) as target:
        await _route(proxy, target)
        async with calling(proxy.port, SOCKET, floods=False) as (_, writer), asyncio.timeout(60):
            transport = writer.transport
            transport.pause_reading()  # type: ignore[attr-defined]
            while not await proxy.traffic.count_in_flight(1, target):
                await asyncio.sleep(0.01)
            while await proxy.traffic.count_in_flight(1, target):
                await asyncio.sleep(0.01)


async def test_a_slow_reader_is_not_silent() -> None:
    """Two sweeps without progress in between differ from two with progress. The test controls the clock."""
    taken = asyncio.Queue[int]()

    async def sip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await taken.get():
            await reader.readexactly(size)

    time = FakeClock()
    watch = Watch(120.0, time)
    async with raw_server(sip) as target:
        upstream = await open_upstream(target)
        upstream.send(bytes(20_000_000))
        draining = asyncio.create_task(watch.drain(upstream))
        await asyncio.sleep(0)
        left = await _settled_backlog(upstream)
        watch.sweep()
        for _ in range(3):
            time.now += 119.0
            taken.put_nowait(2_000_000)
            await until(lambda left=left: upstream.transport.get_write_buffer_size() < left)  # type: ignore[misc]
            left = await _settled_backlog(upstream)
            watch.sweep()
        time.now += 119.0
        watch.sweep()
        await asyncio.sleep(0)
        assert not draining.done()
        time.now += 1.0
        watch.sweep()
        with pytest.raises(PeerSilent):
            await draining
        upstream.cut()


async def _settled_backlog(upstream: Upstream) -> int:
    """Return the number of unsent bytes after the kernel's buffer is full."""
    assert upstream.transport is not None
    left = -1
    while left != (now := upstream.transport.get_write_buffer_size()):
        left = now
        await asyncio.sleep(0.1)
    return left


async def test_a_sweep_survives_a_connection_that_cannot_be_checked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Bad:
        has_disconnected_unnoticed = property(lambda self: 1 / 0)

        def cut(self) -> None: ...

    class Gone:
        has_disconnected_unnoticed = True
        is_truncated = False

        def cut(self) -> None:
            self.is_truncated = True

    watch, gone = Watch(120.0), [Gone() for _ in range(5)]
    for caller in (*gone, *(Bad() for _ in range(5))):
        watch.enter(caller)  # type: ignore[arg-type]
    with caplog.at_level(logging.CRITICAL):
        watch.sweep()
    assert all(caller.is_truncated for caller in gone)
