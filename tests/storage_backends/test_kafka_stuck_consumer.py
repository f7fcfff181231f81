"""A consumer whose client has stopped reading while its heartbeats keep its partitions."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.group import HeartbeatRequest, HeartbeatResponse_v1

from pipeline_contracts.errors import PartitionLost, StorageUnavailable
from storage_backends.event_log import kafka_consumer
from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_consumer import KafkaLogConsumer
from storage_backends.event_log.kafka_topics import create_topics
from tests.support.log_under_test import MB, topic_settings, wait_claimed, wait_connected


@pytest.fixture
async def exits() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


def end_fetching(client: AIOKafkaConsumer) -> None:
    """End the fetch task, as after an exception that aiokafka does not expect."""
    client._fetcher._fetch_task.cancel()


def end_metadata(client: AIOKafkaConsumer) -> None:
    client._client._sync_task.cancel()


def hang_fetching(client: AIOKafkaConsumer) -> None:
    """Leave a request without a response, so that nothing more is fetched from that broker."""

    class AlwaysFailing(set[int]):
        def discard(self, node: int) -> None:
            pass

    client._fetcher._in_flight = AlwaysFailing(broker.nodeId for broker in client._client.cluster.brokers())


def answer_heartbeat_with_loading(client: AIOKafkaConsumer) -> None:
    """Respond like a coordinator that has just started and is loading its groups."""
    coordinator = client._coordinator
    real_send = coordinator._send_req

    async def send(request: Any) -> Any:
        response = await real_send(request)
        return HeartbeatResponse_v1(0, 14) if isinstance(request, HeartbeatRequest) else response

    coordinator._send_req = send


@pytest.mark.parametrize(
    ("stop", "logged"),
    [
        (answer_heartbeat_with_loading, "GroupLoadInProgressError"),
        (end_fetching, "has ended"),
        (end_metadata, "has ended"),
        (hang_fetching, "stands still"),
    ],
)
async def test_a_client_that_stops_reading_is_replaced(
    kafka_bootstrap: str,
    exits: AsyncExitStack,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    stop: Callable[[AIOKafkaConsumer], None],
    logged: str,
) -> None:
    monkeypatch.setattr(kafka_consumer, "_QUIET_SECONDS", 0.2)
    monkeypatch.setattr(kafka_consumer, "_STUCK_SECONDS", 1.0)
    connection = KafkaConnection(kafka_bootstrap)
    topic = f"test.{secrets.token_hex(6)}"
    await create_topics(connection, [topic], topic_settings(1))
    log = await open_kafka_log(connection, [topic], buffer_bytes=8 * MB, acknowledge_seconds=60.0)
    exits.push_async_callback(log.close)
    consumer = KafkaLogConsumer(connection, "group", topic, session_seconds=4.0)
    exits.push_async_callback(consumer.close)
    await wait_connected(log)
    await log.append(topic, b"k", b"", b"0")
    await wait_claimed(consumer)
    async with asyncio.timeout(120):
        while not await consumer.read(0, 0, None, MB, 1.0):
            pass
        assert consumer._member is not None
        stopped = consumer._member
        stop(stopped.consumer)
        await log.append(topic, b"k", b"", b"1")
        await log.append(topic, b"k", b"", b"2")
        found: list[bytes] = []
        at = 1
        while found != [b"1", b"2"] or consumer._member is stopped:
            try:
                await wait_claimed(consumer)
                records = await consumer.read(0, at, None, MB, 0.1)
                found += [record.value for record in records]
                at += len(records)
            except (PartitionLost, StorageUnavailable):
                pass
    assert "joining the group again" in caplog.text and logged in caplog.text
