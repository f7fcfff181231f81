"""Heads of requests: limits of size and time, and the responses to unreadable requests."""

import asyncio
import contextlib
from contextlib import AsyncExitStack
from typing import Any

import pytest

from ingest_edge.http_server import ServerLimits
from pipeline_contracts import open_connections
from pipeline_contracts.client_address import ClientAddresses, parse_networks
from pipeline_contracts.errors import Unavailable
from pipeline_contracts.open_connections import ConnectionLimiter

NOBODY = ClientAddresses(())
BATCH = b'{"batch_id":"b-1","events":[{"type":"log"}]}'
LOGS = "/api/v1/otlp/v1/logs"


def limits(**given: Any) -> ServerLimits:
    defaults = {"head_bytes": 4096, "head_seconds": 600.0, "address_connections": 100, "trusted": NOBODY}
    return ServerLimits(**{**defaults, **given})


def head_of(size: int, edge: Any, *lines: str) -> bytes:
    """Return the head of a request without a body whose path and headers count as this many bytes."""
    lines = (*lines, "X-Padding: ")
    empty = edge.head(*lines)
    # The path counts, and each header with four bytes of separators.
    path = len("/api/v1/ingest")
    counted = len(empty) - len(b"POST  HTTP/1.1\r\n\r\n")
    assert counted > path
    return edge.head(*lines[:-1], lines[-1] + "x" * (size - counted))


async def read_statuses(reader: asyncio.StreamReader, count: int) -> list[int]:
    statuses = []
    for _ in range(count):
        head = await reader.readuntil(b"\r\n\r\n")
        statuses.append(int(head.split(b" ")[1]))
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
    return statuses


@pytest.mark.parametrize("pieces", [1, 7], ids=["at once", "in pieces"])
async def test_size_of_a_head_is_limited(pieces, start_edge):
    edge = await start_edge(server_limits=limits())
    for size, status in ((4096, 202), (4097, 431), (40_000, 431), (300_000, 431)):
        # No single header exceeds the limit.
        lines = [f"X-{number}: {'x' * 1000}" for number in range((size - 1000) // 1100)]
        head = head_of(size, edge, f"Content-Length: {len(BATCH)}", *lines)
        step = len(head) // pieces + 1
        answer = await edge.raw([*(head[at : at + step] for at in range(0, len(head), step)), BATCH])
        assert answer.status == status, size
        if status == 431:
            assert answer.document()["type"] == "/problems/head-too-large"
            assert answer.headers["X-Request-Id"]
            assert answer.headers["Server"] == "pharos"
    assert edge.stored_records() == 1


async def test_only_heads_have_to_arrive_in_time(start_edge):
    """An idle connection, one with an empty line after its body, and a slow body outlive an unfinished head."""
    edge = await start_edge(server_limits=limits(head_seconds=0.1))
    request = edge.head(f"Content-Length: {len(BATCH)}") + BATCH
    async with AsyncExitStack() as stack:

        async def connect(*parts: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
            stack.callback(writer.close)
            for part in parts:
                writer.write(part)
                await writer.drain()
            return reader, writer

        fresh = await connect()
        idle = await connect(request)
        empty_line = await connect(request)
        slow_body = await connect(request[:-1])
        for reader, _ in (idle, empty_line):
            assert await read_statuses(reader, 1) == [202]
        empty_line[1].write(b"\r\n")
        late = await connect(edge.head()[:-3])
        late_otlp = await connect(f"POST {LOGS} HTTP/1.1\r\nHost: x\r\n".encode())
        late_second = await connect(request)
        assert await read_statuses(late_second[0], 1) == [202]
        late_second[1].write(edge.head()[:-3])
        for (reader, _), statuses in ((late, [408]), (late_otlp, [503]), (late_second, [408])):
            async with asyncio.timeout(60):
                assert await read_statuses(reader, len(statuses)) == statuses
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
        slow_body[1].write(request[-1:])
        assert await read_statuses(slow_body[0], 1) == [202]
        for reader, writer in (fresh, idle, empty_line, slow_body):
            writer.write(request)
            assert await read_statuses(reader, 1) == [202]


async def test_many_requests_in_one_piece_all_get_responses(start_edge):
    """Twenty times the limit of one head."""
    edge = await start_edge(server_limits=limits())
    one = edge.head(f"Content-Length: {len(BATCH)}", f"X-Padding: {'x' * 2000}") + BATCH
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    writer.write(one * 100)
    assert await read_statuses(reader, 100) == [202] * 100
    writer.write(one)
    assert await read_statuses(reader, 1) == [202]
    writer.close()


async def test_head_after_a_large_body_is_limited_too(start_edge):
    edge = await start_edge(server_limits=limits())
    body = BATCH.ljust(50_000)
    large = f"X: {'x' * 1000}"
    for last, status in (("X: y", 202), ("\r\n".join([large] * 5), 431)):
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        second = edge.head(f"Content-Length: {len(BATCH)}", last) + BATCH
        writer.write(edge.head(f"Content-Length: {len(body)}") + body + second)
        assert await read_statuses(reader, 2) == [202, status]
        writer.close()


async def test_size_of_trailers_is_limited(start_edge):
    """The parser alone would keep 120 trailers of 4 kB each."""
    edge = await start_edge(server_limits=limits())
    chunked = edge.head("Transfer-Encoding: chunked") + b"%x\r\n%s\r\n0\r\n" % (len(BATCH), BATCH)
    assert (await edge.raw([chunked + b"X-Sum: 1\r\n\r\n"])).status == 202
    for pieces in (1, 7):
        trailers = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(25))
        step = len(trailers) // pieces + 1
        sent = [chunked, *(trailers[at : at + step] for at in range(0, len(trailers), step))]
        answer = await edge.raw(sent)
        assert (answer.status, answer.document()["type"]) == (400, "/problems/malformed-request")
    assert edge.stored_records() == 1


@pytest.mark.parametrize(
    ("sent", "status", "slug"),
    [
        (b"FOO /api/v1/ingest HTTP/1.1\r\nHost: x\r\n\r\n", 501, "method-not-implemented"),
        (b"GARBAGE\r\n\r\n", 400, "malformed-request"),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400, "malformed-request"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "malformed-request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n", 400, "malformed-request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431, "head-too-large"),
        (b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431, "head-too-large"),
    ],
)
async def test_unreadable_request_gets_a_problem(sent, status, slug, edge):
    answer = await edge.raw([sent])
    assert answer.status == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["X-Request-Id"]
    assert answer.headers["Server"] == "pharos"
    assert answer.headers["Connection"] == "close"
    assert answer.document()["type"] == f"/problems/{slug}"
    if status == 501:
        assert answer.headers["Allow"] == "POST"


async def test_unreadable_otlp_request_gets_a_status(edge):
    for sent, status in (
        (f"FOO {LOGS} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), 501),
        (f"POST {LOGS} HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n".encode(), 400),
        (f"POST {LOGS} HTTP/1.1\r\nHost: x\r\nX: {'x' * 20_000}\r\n\r\n".encode(), 431),
    ):
        answer = await edge.raw([sent])
        assert (answer.status, answer.headers["Content-Type"]) == (status, "application/json")
        assert answer.document().keys() == {"code", "message"}


class Transport(asyncio.BaseTransport):
    """A transport of a connection from this address."""

    def __init__(self, address: str | None) -> None:
        super().__init__({"peername": "" if address is None else (address, 1)})


class Open:
    """A connection that is idle, or has a request in progress."""

    def __init__(self, *, is_idle: bool = False) -> None:
        self.is_idle = is_idle
        self.is_closed = False

    def force_close(self) -> None:
        self.is_closed = True


def test_connections_of_an_address_are_counted():
    limiter = ConnectionLimiter(2, ClientAddresses(parse_networks("10.0.0.0/8")).is_trusted)

    def admit(address: str | None) -> tuple[str, Open] | None:
        connection = Open(is_idle=True)
        try:
            return limiter.admit(Transport(address), connection), connection
        except Unavailable:
            return None

    flood = [admit("198.51.100.7") for _ in range(3)]
    assert [admitted is None for admitted in flood] == [False, False, True]
    assert admit("198.51.100.8") is not None
    assert admit("::ffff:198.51.100.7") is None
    # One caller may use all addresses of a network.
    networks = [admit(f"2001:db8::{number}") for number in range(3)]
    assert [admitted is None for admitted in networks] == [False, False, True]
    # Connections from trusted proxies, this machine and socket files are not limited by address.
    for gateway in ("10.1.2.3", "127.0.0.1", "::1", "::ffff:127.0.0.1", None):
        for _ in range(3):
            entered = admit(gateway)
            assert entered is not None
        limiter.release(*entered)
    assert flood[0] is not None
    limiter.release(*flood[0])
    assert admit("198.51.100.7") is not None
    assert admit("198.51.100.7") is None


def test_longest_idle_connection_is_closed_at_the_limits():
    for address, loopback, total in (("127.0.0.1", 3, 9), ("10.0.0.1", 1, 3), (None, 1, 3)):
        trusted = ClientAddresses(parse_networks("10.0.0.0/8"))
        limiter = ConnectionLimiter(2, trusted.is_trusted, loopback=loopback, total=total)
        old, busy, new = Open(is_idle=True), Open(), Open(is_idle=True)
        for one in (old, busy, new):
            limiter.admit(Transport(address), one)
        limiter.touch(old)
        for idle in (new, old):
            assert not idle.is_closed
            limiter.admit(Transport(address), Open())
            assert idle.is_closed
            limiter.release("", idle)
        with pytest.raises(Unavailable, match="All 3 connections are in use"):
            limiter.admit(Transport(address), Open())
        limiter.release("", busy)
        limiter.admit(Transport(address), Open())
        assert not busy.is_closed


async def test_idle_connections_of_this_machine_are_closed_for_new_ones(start_edge):
    edge = await start_edge(server_limits=limits(loopback_connections=4))
    request = edge.head(f"Content-Length: {len(BATCH)}") + BATCH
    slow, sending = await asyncio.open_connection("127.0.0.1", edge.port)
    sending.write(request[:-1])
    await sending.drain()
    async with asyncio.timeout(60):
        # Its body must have begun before the others connect.
        while edge.stored_records() == 0:
            await edge.raw([request])
    silent = [await asyncio.open_connection("127.0.0.1", edge.port) for _ in range(20)]
    assert (await edge.raw([request])).status == 202
    async with asyncio.timeout(60):
        assert await silent[0][0].read() == b""
    sending.write(request[-1:])
    assert await read_statuses(slow, 1) == [202]
    for _, writer in (*silent, (slow, sending)):
        writer.close()


async def test_connection_over_the_limit_is_refused_and_others_continue(start_edge, monkeypatch):
    monkeypatch.setattr(open_connections, "is_loopback", lambda _address: False)
    edge = await start_edge(server_limits=limits(address_connections=2))
    request = edge.head(f"Content-Length: {len(BATCH)}") + BATCH
    opened = [await asyncio.open_connection("127.0.0.1", edge.port) for _ in range(2)]
    for reader, writer in opened:
        writer.write(request)
        assert await read_statuses(reader, 1) == [202]
    answer = await edge.raw([])
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert answer.document()["type"] == "/problems/unavailable"
    opened[0][1].close()
    async with asyncio.timeout(60):
        while (await edge.raw([request])).status != 202:
            await asyncio.sleep(0.005)
    opened[1][1].write(request)
    assert await read_statuses(opened[1][0], 1) == [202]
    opened[1][1].close()
