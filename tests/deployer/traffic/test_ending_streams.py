"""WebSockets and event streams end properly when the proxy or an instance is stopped."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import aiohttp.web
import pytest

from deployer.traffic.interface import Route, Target, drain
from deployer.traffic.proxy.frames import Frames, write_going_away
from tests.deployer.traffic.applications import (
    Application,
    exchange_raw,
    raw_server,
    running_application,
    until,
)
from tests.deployer.traffic.carriers import Carrier, proxy_carrier

HOST = "a.localhost"
GET = b"GET / HTTP/1.1\r\nHost: a.localhost\r\n\r\n"
UPGRADE = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
DOWNLOAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"

End = Callable[[Carrier, Target], Awaitable[None]]


async def stop_proxy(proxy: Carrier, target: Target) -> None:
    await proxy.traffic.close()


async def stop_instance(proxy: Carrier, target: Target) -> None:
    await proxy.traffic.set_route(1, Route((HOST,), (), is_awaited=True, draining=(target,)))
    await drain(proxy.traffic, 1, [target], 0.1)


ENDS = pytest.mark.parametrize("end", [stop_proxy, stop_instance])


@pytest.fixture
async def proxy() -> AsyncIterator[Carrier]:
    async with proxy_carrier() as carrier:
        yield carrier


def to(target: Target) -> Route:
    return Route((HOST,), (target,), is_awaited=True)


@ENDS
async def test_both_sides_of_a_web_socket_get_a_going_away_frame(proxy: Carrier, end: End) -> None:
    told: list[int | None] = []

    async def talk(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        socket = aiohttp.web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data)
        told.append(socket.close_code)
        return socket

    app = aiohttp.web.Application()
    app.router.add_get("/", talk)
    runner = aiohttp.web.AppRunner(app, access_log=None)
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    target = Target(runner.addresses[0][1])
    await proxy.traffic.set_route(1, to(target))
    try:
        async with proxy.session.ws_connect(proxy.url, headers={"Host": HOST}) as socket, asyncio.timeout(60):
            await socket.send_str("hello")
            assert await socket.receive_str() == "hello"
            ending = asyncio.create_task(end(proxy, target))
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
            assert socket.close_code == 1001
            await ending
            await until(lambda: told)
            assert told == [1001]
            assert await proxy.traffic.count_in_flight(1, target) == 0
    finally:
        await runner.cleanup()


@ENDS
async def test_an_event_stream_ends_as_complete_and_a_download_as_truncated(end: End) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await asyncio.sleep(600)

    cases = [
        (EVENTS + CHUNKED, b"5\r\nfirst\r\n0\r\n\r\n"),
        (EVENTS + b"\r\nfirst", b"5\r\nfirst\r\n0\r\n\r\n"),
        (EVENTS + b"Content-Length: 10\r\n\r\nfirst", b"first"),
        (DOWNLOAD + CHUNKED, b"5\r\nfirst\r\n"),
        (DOWNLOAD + b"Content-Length: 10\r\n\r\nfirst", b"first"),
    ]
    data = b""
    for data, body in cases:
        async with raw_server(answer) as target, proxy_carrier() as carrier:
            await carrier.traffic.set_route(1, to(target))
            reader, writer = await asyncio.open_connection("127.0.0.1", carrier.port)
            writer.write(GET)
            async with asyncio.timeout(60):
                got = await reader.readuntil(b"first")
                ending = asyncio.create_task(end(carrier, target))
                if data.startswith(DOWNLOAD) and end is stop_instance:
                    # The end of the instance truncates the download.
                    await ending
                    await carrier.traffic.close()
                got += await _rest(reader)
                await ending
            assert got.partition(b"\r\n\r\n")[2].rstrip(b"\r\n") == body.rstrip(b"\r\n"), (data, got)
            assert got.endswith(b"0\r\n\r\n") == body.endswith(b"0\r\n\r\n")
            writer.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    got = b""
    try:
        while data := await reader.read(65536):
            got += data
    except ConnectionError:
        pass
    return got


async def test_requests_in_flight_complete_while_the_proxy_stops() -> None:
    """An unfinished upload completes too; new requests are refused."""
    async with proxy_carrier(grace_seconds=60.0) as proxy, running_application("one") as one:
        assert isinstance(one, Application)
        await proxy.traffic.set_route(1, to(one.target))
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        idle, resting = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"POST /digest HTTP/1.1\r\nHost: a.localhost\r\nContent-Length: 6\r\n\r\nabc")
        async with asyncio.timeout(60):
            while not await proxy.traffic.count_in_flight(1, one.target):
                await asyncio.sleep(0.01)
            closing = asyncio.create_task(proxy.traffic.close())
            assert await idle.read() == b""
            writer.write(b"def")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            await closing
        for one_writer in (writer, resting):
            one_writer.close()
        with pytest.raises(OSError):
            await exchange_raw(proxy.port, GET)


def frame(size: int, *, masked: bool, opcode: int = 2) -> bytes:
    bit = 0x80 if masked else 0
    if size < 126:
        head = bytes((0x80 | opcode, bit | size))
    elif size < 65536:
        head = bytes((0x80 | opcode, bit | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, bit | 127)) + size.to_bytes(8, "big")
    return head + (b"kkkk" if masked else b"") + bytes(size)


@pytest.mark.parametrize("masked", [True, False])
def test_frame_boundaries_do_not_depend_on_chunks(masked: bool) -> None:
    randomness = random.Random(1001)
    frames = [frame(size, masked=masked) for size in (0, 1, 125, 126, 300, 65535, 65536, 70_000, 0, 0, 5)]
    ends = {0}
    for one in frames:
        ends.add(max(ends) + len(one))
    data = b"".join(frames)
    for most in (1, 2, 3, 7, 100, 30_000, len(data)):
        followed, position = Frames(), 0
        while position < len(data):
            piece = data[position : position + randomness.randint(1, most)]
            size, complete, count = followed.feed(piece, randomness.choice((1, 2, 100)))
            after = position + size
            inside = [end for end in ends if position < end <= after]
            assert complete == (max(inside) - position if inside else 0)
            assert size == len(piece) or (size == complete and count)
            position = after
            assert followed.is_between == (position in ends) and not followed.has_closed


def test_close_frames_are_recognized_and_built() -> None:
    for masked in (True, False):
        followed = Frames()
        data = frame(10, masked=masked) + write_going_away(masked=masked)
        size = len(frame(10, masked=masked))
        assert followed.feed(data[:-1], 10) == (len(data) - 1, size, 2) and followed.has_closed
        assert followed.feed(data[-1:], 10) == (1, 1, 0)
    assert write_going_away(masked=False) == b"\x88\x02\x03\xe9"
    masked_frame = write_going_away(masked=True)
    assert masked_frame[:2] == b"\x88\x82"
    assert bytes(a ^ b for a, b in zip(masked_frame[6:], masked_frame[2:6], strict=False)) == b"\x03\xe9"


@ENDS
async def test_a_web_socket_that_is_ended_twice_gets_one_close_frame(proxy: Carrier, end: End) -> None:
    received: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCHING)
        received.append(await _rest(reader))
        writer.close()

    async with raw_server(talk) as target:
        await proxy.traffic.set_route(1, to(target))
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(UPGRADE)
        async with asyncio.timeout(60):
            await reader.readuntil(b"\r\n\r\n")
            # Neither side replies, so both ends happen before the timeout.
            first = asyncio.create_task(proxy.traffic.end_streams(1, target))
            assert await reader.readexactly(4) == b"\x88\x02\x03\xe9"
            await end(proxy, target)
            assert await _rest(reader) == b""
            await first
            await until(lambda: received)
        assert received[0][:2] == b"\x88\x82" and len(received[0]) == 8
        writer.close()


async def test_a_begun_frame_is_completed_before_the_close_frame(proxy: Carrier) -> None:
    whole = frame(100_000, masked=False)
    resume = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCHING)
        writer.write(whole[:5000])
        await resume.wait()
        writer.write(whole[5000:] + frame(7, masked=False))
        await writer.drain()
        await asyncio.sleep(600)

    async with raw_server(talk) as target:
        await proxy.traffic.set_route(1, to(target))
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(UPGRADE)
        async with asyncio.timeout(60):
            await reader.readuntil(b"\r\n\r\n")
            got = await reader.readexactly(5000)
            ending = asyncio.create_task(proxy.traffic.end_streams(1, target))
            await asyncio.sleep(0)
            resume.set()
            got += await _rest(reader)
            await ending
        assert got in (
            whole + frame(7, masked=False) + b"\x88\x02\x03\xe9",
            whole + b"\x88\x02\x03\xe9",
        )
        writer.close()
