"""All frames of busy WebSockets arrive, and environments share the event loop."""

import asyncio
from typing import cast

from aiohttp.base_protocol import BaseProtocol

from connection_bounds.bounded_reads import READ_BYTES
from deployer.traffic.interface import Route
from deployer.traffic.proxy.frame_scheduler import MAX_FRAMES_PER_READ, MAX_READS_PER_POLL, FrameScheduler
from deployer.traffic.proxy.frames import Frames
from deployer.traffic.proxy.tunnel import _Pipe
from deployer.traffic.proxy.watch import Watch
from tests.deployer.traffic.applications import raw_server, until
from tests.deployer.traffic.carriers import proxy_carrier

HOST = "a.localhost"
UPGRADE = (
    b"GET /socket HTTP/1.1\r\nHost: a.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
EMPTY = b"\x82\x00"
GOING_AWAY = b"\x88\x02\x03\xe9"


class Side:
    """The part of a connection that a pipe uses."""

    def __init__(self) -> None:
        self.transport = self
        self.got = b""
        self.is_paused = False
        self.writing_paused = False

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.got += data

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Drained(Watch):
    """Keeps a sink full until the test drains it."""

    def __init__(self) -> None:
        self.taken = asyncio.Event()

    async def drain(self, protocol: BaseProtocol) -> None:
        await self.taken.wait()


def pipe_between(
    source: Side, sink: Side, turns: FrameScheduler, watch: Watch, environment_id: int = 1
) -> _Pipe:
    return _Pipe(
        cast(BaseProtocol, source),
        cast(BaseProtocol, sink),
        watch,
        asyncio.Event(),
        turns,
        environment_id,
    )


async def test_few_frames_of_a_read_are_forwarded_at_once_and_the_rest_is_scheduled() -> None:
    source, sink = Side(), Side()
    data = (EMPTY * READ_BYTES)[:READ_BYTES]
    pipe = pipe_between(source, sink, FrameScheduler(), Drained())
    pipe.feed_data(data)
    assert len(sink.got) == MAX_FRAMES_PER_READ * len(EMPTY) and source.is_paused
    await until(lambda: not source.is_paused)
    assert sink.got == data


async def test_frames_wait_while_the_sink_is_full() -> None:
    source, sink, watch = Side(), Side(), Drained()
    data = (EMPTY * READ_BYTES)[:READ_BYTES]
    pipe = pipe_between(source, sink, FrameScheduler(), watch)
    holding_back = asyncio.create_task(pipe.apply_back_pressure())
    sink.writing_paused = True
    pipe.feed_data(data)
    for _ in range(3):
        await asyncio.sleep(0)
    assert source.is_paused and len(sink.got) == MAX_FRAMES_PER_READ * len(EMPTY)
    sink.writing_paused = False
    watch.taken.set()
    await until(lambda: not source.is_paused)
    assert sink.got == data
    holding_back.cancel()
    await asyncio.gather(holding_back, return_exceptions=True)


async def test_environments_are_scheduled_alternately() -> None:
    turns, watch = FrameScheduler(), Drained()
    data = (EMPTY * READ_BYTES)[:READ_BYTES]
    greedy = [(Side(), Side()) for _ in range(20)]
    for source, sink in greedy:
        pipe_between(source, sink, turns, watch).feed_data(data)
    source, sink = Side(), Side()
    few = EMPTY * (MAX_FRAMES_PER_READ + 1)
    pipe_between(source, sink, turns, watch, environment_id=2).feed_data(few)
    await asyncio.sleep(0)
    assert sink.got == few and not source.is_paused
    # The other environment has forwarded a part of one of its twenty reads.
    assert sum(len(one.got) for _, one in greedy) < 20 * MAX_FRAMES_PER_READ * len(EMPTY) + READ_BYTES
    await until(lambda: not any(source.is_paused for source, _ in greedy))
    assert all(one.got == data for _, one in greedy)


async def test_few_reads_of_an_environment_are_forwarded_before_the_next_poll() -> None:
    turns = FrameScheduler()
    large = b"\x82\x7f" + (10**6).to_bytes(8, "big") + bytes(10_000)
    sides = [(Side(), Side()) for _ in range(3 * MAX_READS_PER_POLL)]
    for source, sink in sides:
        pipe_between(source, sink, turns, Drained()).feed_data(large)
    assert sum(len(sink.got) for _, sink in sides) == MAX_READS_PER_POLL * len(large)
    source, sink = Side(), Side()
    pipe_between(source, sink, turns, Drained(), environment_id=2).feed_data(large)
    assert sink.got == large
    await until(lambda: not any(source.is_paused for source, _ in sides))
    assert all(sink.got == large for _, sink in sides)


async def test_pending_bytes_are_forwarded_when_the_tunnel_ends() -> None:
    source, sink = Side(), Side()
    data = (EMPTY * READ_BYTES)[:READ_BYTES]
    pipe = pipe_between(source, sink, FrameScheduler(), Drained())
    pipe.feed_data(data)
    pipe.finish()
    await asyncio.sleep(0)
    assert sink.got == data


async def test_small_frames_arrive_complete_in_both_directions() -> None:
    """Frames that an application sends right before its end arrive completely too."""
    sent = b"".join(EMPTY + bytes((0x82, 4)) + number.to_bytes(4, "big") for number in range(20_000))
    heard = asyncio.get_running_loop().create_future()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCHED)
        heard.set_result(await reader.readexactly(len(sent)))
        writer.write(sent)
        await writer.drain()

    async with proxy_carrier() as proxy, raw_server(talk) as target:
        await proxy.traffic.set_route(1, Route((HOST,), (target,), is_awaited=True))
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        async with asyncio.timeout(60):
            writer.write(UPGRADE)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(sent)
            assert await heard == sent
            assert await reader.read(-1) == sent
        writer.close()


async def test_the_close_frame_follows_a_complete_frame() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCHED)
        while True:
            writer.write((EMPTY + b"\x82\x03abc") * 10_000)
            await writer.drain()

    async with proxy_carrier() as proxy, raw_server(talk) as target:
        await proxy.traffic.set_route(1, Route((HOST,), (target,), is_awaited=True))
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        async with asyncio.timeout(60):
            writer.write(UPGRADE)
            await reader.readuntil(b"\r\n\r\n")
            got = await reader.readexactly(100_000)
            ending = asyncio.create_task(proxy.traffic.end_streams(1, target))
            got += await reader.readuntil(GOING_AWAY)
            writer.close()
            await ending
    followed = Frames()
    assert followed.feed(got, len(got))[1] == len(got) and followed.has_closed
