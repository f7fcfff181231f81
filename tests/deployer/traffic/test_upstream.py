"""The proxy parses only a bounded amount of an application's output."""

import asyncio

import pytest
from aiohttp import StreamReader
from aiohttp.http import RawResponseMessage

from connection_bounds.bounded_reads import READ_BYTES
from deployer.traffic.proxy.upstream import InvalidResponse, Upstream, read_body

INTERIM = b"HTTP/1.1 100 \r\n\r\n"
EMPTY = b"HTTP/1.1 204 \r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
# One read may bring more than a thousand heads. The proxy parses them in pieces of 1 KiB.
MOST_HEADS = 1024 // len(EMPTY) + 1


class FakeTransport(asyncio.Transport):
    """A connection to an application that the test simulates."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


class CountingUpstream(Upstream):
    """Counts the heads that the parser returns."""

    heads = 0

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        self.heads += 1
        super().feed_data(data, size)


def connected() -> CountingUpstream:
    upstream = CountingUpstream(asyncio.get_running_loop())
    upstream.connection_made(FakeTransport())
    upstream.expect_response(to_head=False)
    return upstream


def one_read(head: bytes, before: bytes = b"") -> bytes:
    return (before + head * READ_BYTES)[:READ_BYTES]


async def test_interim_responses_over_the_limit_are_not_parsed() -> None:
    upstream = connected()
    upstream.data_received(one_read(INTERIM))
    assert upstream.heads <= MOST_HEADS and upstream.transport is not None and upstream.transport.is_closing()
    upstream.connection_lost(None)
    for _ in range(16):
        message, _ = await upstream.read_head()
        assert message.code == 100
    with pytest.raises(InvalidResponse):
        await upstream.read_head()


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([one_read(EMPTY)], b""),
        ([one_read(EMPTY, CHUNKED + b"1\r\nx\r\n0\r\n\r\n")], b"x"),
        ([CHUNKED, one_read(EMPTY, b"1\r\nx\r\n0\r\n\r\n")], b"x"),
        ([CHUNKED, one_read(INTERIM, b"0\r\n\r\n")], b""),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx", one_read(EMPTY, b"y"), one_read(EMPTY)], b"xy"),
    ],
)
async def test_bytes_after_a_response_are_not_parsed(pieces: list[bytes], body: bytes) -> None:
    upstream = connected()
    for piece in pieces:
        upstream.data_received(piece)
    assert upstream.heads <= MOST_HEADS
    _, reader = await upstream.read_head()
    got = b""
    while data := await read_body(reader):
        got += data
    assert got == body
    upstream.connection_lost(None)


async def test_a_large_response_after_interim_ones_arrives_complete() -> None:
    for interim in (0, 1, 15):
        upstream = connected()
        head = INTERIM * interim + b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\nX-Long: %s\r\n\r\n" % (
            b"x" * 3000
        )
        upstream.data_received(head + bytes(range(200)) * 100)
        messages = [(await upstream.read_head()) for _ in range(interim + 1)]
        assert await read_body(messages[-1][1]) == bytes(range(200)) * 100
        upstream.connection_lost(None)
