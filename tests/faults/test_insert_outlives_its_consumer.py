"""A consumer is killed while the server still processes its insert. The next consumer finds no stored rows and inserts
them, and then the first insert arrives too: the rows are stored once only because chunk and token are the same.

Without the plan in the commit's metadata, the next consumer would take a larger chunk with another token.
"""

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest

from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import create_topics
from tests.faults.consumers_on_server import ConsumersOnServer, until_stored
from tests.support.clickhouse_front import FrontServer, running_clickhouse_front
from tests.support.log_under_test import MB, topic_settings, wait_connected
from tests.support.telemetry_records import append_batch

_EVENTS = 20


@pytest.mark.timeout(500)
# In either order, only the chunk's token makes the server drop the second insert.
@pytest.mark.parametrize(
    "first_arrives", ["after the second", pytest.param("while the second one waits", marks=pytest.mark.full)]
)
async def test_two_inserts_of_the_same_chunk_store_it_once(
    tmp_path: Path, kafka_bootstrap: str, first_arrives: str
) -> None:
    topic = f"outlived.{secrets.token_hex(4)}"
    connection = KafkaConnection(kafka_bootstrap)
    await create_topics(connection, [topic, f"{topic}.dead"], topic_settings(1))
    log = await open_kafka_log(connection, [topic], buffer_bytes=MB, acknowledge_seconds=60.0)

    async def send(first: int, last: int) -> None:
        for n in range(first, last):
            events: list[dict[str, Any]] = [
                {"type": "log", "service": "one", "id": f"{n}.{i}"} for i in range(_EVENTS)
            ]
            await append_batch(log, "env_outlived", f"batch {n}", events, topic=topic)

    with running_clickhouse_front(tmp_path / "clickhouse") as front:
        try:
            await wait_connected(log)
            consumers = ConsumersOnServer(kafka_bootstrap, topic, tmp_path, front)
            # The consumer is past the records that may be stored already, and no longer checks the table.
            await send(0, 5)
            await asyncio.to_thread(consumers.report)
            victim = consumers.start()
            await send(5, 10)
            await until_stored(front, 10 * _EVENTS)
            front.set_fault("held", 1000)
            await send(10, 20)
            await _until_held(front, 1)
            victim.kill()
            victim.wait()
            # More records than the chunk in flight: a consumer without the plan would take all of them at once.
            await send(20, 40)
            if first_arrives == "after the second":
                front.set_fault("none", 0)
                await asyncio.to_thread(consumers.report)
                front.release()
                await _until_held(front, 0)
                report = await asyncio.to_thread(consumers.report)
            else:
                reporting = asyncio.create_task(asyncio.to_thread(consumers.report))
                await _until_held(front, 2)
                front.release()
                report = await reporting
        finally:
            await log.close()
    assert report["stored"] == {"one": [40 * _EVENTS, 40 * _EVENTS]}
    assert report["double"] == []
    assert "finishing the open plan" in consumers.log.read_text()


async def _until_held(front: FrontServer, inserts: int) -> None:
    async with asyncio.timeout(120):
        while front.held_inserts() != inserts:
            await asyncio.sleep(0.05)
