"""What is logged of requests that cannot be read."""

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
