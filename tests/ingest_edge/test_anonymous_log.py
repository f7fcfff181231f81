"""Log lines about unreadable requests."""

import asyncio
import logging

import pytest

from tests.ingest_edge.conftest import StartEdge

_AGENT = b"NobodysBusiness/1.0"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GARBAGE " + _AGENT + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: " + _AGENT + b"\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: " + _AGENT + b"\r\nContent-Length: abc\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: " + _AGENT * 2000 + b"\r\n\r\n",
        b"POST /api/v1/collect/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        + _AGENT
        + b"\r\n",
    ],
)
async def test_neither_address_nor_headers_are_logged(
    request_bytes: bytes, start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    edge = await start_edge()
    await edge.raw([request_bytes], half_close=True)
    lines = [record for record in caplog.records if record.name.startswith(("ingest_edge", "aiohttp"))]
    formatted = "\n".join(logging.Formatter().format(record) for record in lines)
    assert "127.0.0.1" not in formatted
    assert _AGENT.decode() not in formatted


@pytest.mark.parametrize("kind", ["declared", "chunked", "garbage in a refused body"])
async def test_a_caller_that_hangs_up_is_no_error(
    kind: str, start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    edge = await start_edge()
    sent = {
        "declared": [edge.head("Content-Length: 100"), b"half"],
        "chunked": [edge.head("Transfer-Encoding: chunked"), b"4\r\nhalf\r\n"],
        "garbage in a refused body": [
            b"POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        ],
    }[kind]
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    for part in sent:
        writer.write(part)
        await writer.drain()
    if len(sent) == 1:
        assert (await reader.readuntil(b"\r\n")).split(b" ")[1] == b"401"
        writer.write(b"zz\r\n")
    else:
        async with asyncio.timeout(60):
            while edge.budgets.bytes != 4:
                await asyncio.sleep(0.005)
    writer.transport.abort()
    async with asyncio.timeout(60):
        while edge.budgets.bytes or edge.open_connections():
            await asyncio.sleep(0.005)
    assert [record for record in caplog.records if record.exc_info] == []
    assert {record.levelno for record in caplog.records} <= {logging.DEBUG, logging.INFO}
    assert (499 in {status for _, status in edge.metrics.requests}) == (len(sent) == 2)
