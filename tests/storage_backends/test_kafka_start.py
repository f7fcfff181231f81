"""Clients of a broker that accepts connections and then hangs. A fake broker hangs at the right moment."""

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest

from storage_backends.event_log import kafka_topics
from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection

_API_VERSIONS, _METADATA = 18, 3


class _Hanging:
    """Responds only to the request for API versions."""

    def __init__(self) -> None:
        self.connections = 0
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                api, _, correlation = struct.unpack_from(">hhi", await reader.readexactly(length))
                if api == _API_VERSIONS:
                    understood = struct.pack(">hhhhhh", _API_VERSIONS, 0, 0, _METADATA, 0, 5)
                    response = struct.pack(">ihi", correlation, 0, 2) + understood
                    writer.write(struct.pack(">i", len(response)) + response)
                else:
                    assert api == _METADATA
                    self.asked.set()
        except asyncio.IncompleteReadError:
            self.connections -= 1
            self.gone.set()
        finally:
            writer.close()


@pytest.fixture
async def hanging() -> AsyncIterator[tuple[_Hanging, str]]:
    broker = _Hanging()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    yield broker, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the client time out after half a second instead of ten."""
    client = kafka_topics.AIOKafkaAdminClient
    monkeypatch.setattr(
        kafka_topics,
        "AIOKafkaAdminClient",
        lambda **options: client(**{**options, "request_timeout_ms": 500}),
    )


async def test_an_abandoned_start_leaves_no_connection(
    hanging: tuple[_Hanging, str], short_timeout: None
) -> None:
    broker, address = hanging
    log = await open_kafka_log(
        KafkaConnection(address), ["t"], buffer_bytes=1_000_000, acknowledge_seconds=1.0
    )
    async with asyncio.timeout(60):
        await broker.asked.wait()
        # In the middle of the start.
        await log.close()
        await broker.gone.wait()
    assert broker.connections == 0
