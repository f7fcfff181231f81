"""A consumer is frozen with SIGSTOP in the middle of its insert. Another consumer stores the chunk, and the server
accepts inserts until it has forgotten the token. Then the first consumer continues: its insert is too late and is
refused."""

import asyncio
import secrets
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from analytics_queries.store_clock import store_time_ms
from consumers.transforms.receipts import RECEIPTS
from consumers.transforms.telemetry_topic import EVENTS
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.clickhouse_server import ClickHouseServer, open_clickhouse_server
from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import create_topics
from tests.faults.consumers_on_server import ConsumersOnServer, until_stored
from tests.faults.kill_points import IN_THE_BODY
from tests.support.clickhouse_front import running_clickhouse_front
from tests.support.log_under_test import MB, topic_settings, wait_connected
from tests.support.telemetry_records import append_batch

_EVENTS = 20
_LEASE_MS = 2000


# tests/consumers/test_frozen_consumers.py covers every step and every length of the freeze, without processes.
@pytest.mark.full
@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    ("step", "log_line"),
    [(IN_THE_BODY, "came too late"), ("after plan", "another consumer has the partition now")],
)
async def test_a_consumer_that_wakes_late_stores_no_duplicates(
    tmp_path: Path, kafka_bootstrap: str, step: str, log_line: str
) -> None:
    topic = f"frozen.{secrets.token_hex(4)}"
    connection = KafkaConnection(kafka_bootstrap)
    await create_topics(connection, [topic, f"{topic}.dead"], topic_settings(1))
    log = await open_kafka_log(connection, [topic], buffer_bytes=MB, acknowledge_seconds=60.0)

    async def send(first: int, last: int) -> None:
        for n in range(first, last):
            events: list[dict[str, Any]] = [
                {"type": "log", "service": "one", "id": f"{n}.{i}"} for i in range(_EVENTS)
            ]
            await append_batch(log, "env_frozen", f"batch {n}", events, topic=topic)

    with running_clickhouse_front(tmp_path / "clickhouse") as front:
        consumers = ConsumersOnServer(
            kafka_bootstrap, topic, tmp_path, front, "--lease-seconds", str(_LEASE_MS / 1000)
        )
        victim: subprocess.Popen[bytes] | None = None
        try:
            await wait_connected(log)
            server = await open_clickhouse_server(front.url)
            await apply_schema(server)
            victim = consumers.start()
            await send(0, 5)
            await until_stored(front, 5 * _EVENTS)
            for table in (EVENTS, RECEIPTS):
                await server.command(
                    f"ALTER TABLE {table} MODIFY SETTING non_replicated_deduplication_window = 1"
                )
            (tmp_path / "freeze-at").write_text(step)
            await send(5, 15)
            await _until_stopped(victim)
            frozen_ms = await store_time_ms(server)
            # Chunks after the one that is taken over push its token out of the server's memory.
            await asyncio.to_thread(consumers.report)
            await send(15, 25)
            await asyncio.to_thread(consumers.report)
            await _until_time(server, frozen_ms + _LEASE_MS + 1000)
            victim.send_signal(signal.SIGCONT)
            await _until_logged(consumers.log, log_line)
            victim.kill()
            report = await asyncio.to_thread(consumers.report)
            await server.close()
        finally:
            if victim is not None:
                victim.kill()
                victim.wait()
            await log.close()
    assert report["stored"] == {"one": [25 * _EVENTS, 25 * _EVENTS]}
    assert report["double"] == []


async def _until_stopped(process: "subprocess.Popen[bytes]") -> None:
    async with asyncio.timeout(120):
        while " T " not in Path(f"/proc/{process.pid}/stat").read_text():
            await asyncio.sleep(0.05)


async def _until_time(server: ClickHouseServer, ms: int) -> None:
    async with asyncio.timeout(60):
        while await store_time_ms(server) < ms:
            await asyncio.sleep(0.1)


async def _until_logged(log: Path, text: str) -> None:
    async with asyncio.timeout(120):
        while text not in log.read_text():
            await asyncio.sleep(0.05)
