"""A consumer on Kafka that kills itself with SIGKILL at the step in `DIR/kill-at`, or stops itself once with SIGSTOP at
the step in `DIR/freeze-at`; the step `IN_THE_BODY` is in the middle of sending rows.

The column store runs in this process and dies with it, or is the server of `--clickhouse`. `--report` consumes the
topic and prints the stored rows.
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

from consumers.assemble import assemble_loop
from consumers.insert_lease import LEASE_SECONDS, StoreClock
from consumers.transforms.telemetry_topic import TelemetryTopic
from operator_cli.processes.process_logs import start_logs
from pipeline_contracts.errors import PartitionLost
from pipeline_contracts.settings import Settings
from pipeline_contracts.topics import dead_letter_topic
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import open_chdb
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.column_store.interface import ColumnStore
from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_consumer import KafkaLogConsumer
from tests.faults.kill_points import IN_THE_BODY

_ZSTD = b"\x28\xb5\x2f\xfd"
_STORED = """
    SELECT service AS step, count() AS stored, uniqExact(id) AS ids
    FROM pharos.telemetry_events GROUP BY service
"""
_DOUBLE_RECEIPTS = """
    SELECT receipt_id FROM pharos.ingest_receipts WHERE outcome = 'stored' GROUP BY receipt_id HAVING count() != 1
"""


def _freeze(freeze_at: Path) -> None:
    freeze_at.unlink()
    # Send the signal to this thread, which stops before the call returns. A signal to the process may take effect
    # later.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def _freeze_in_bodies(freeze_at: Path) -> None:
    send = http.client.HTTPConnection.send

    def send_in_halves(self: http.client.HTTPConnection, data: Any) -> None:
        # Only inserts are compressed.
        due = isinstance(data, bytes) and data.startswith(_ZSTD)
        if due and freeze_at.exists() and freeze_at.read_text() == IN_THE_BODY:
            send(self, data[: len(data) // 2])
            _freeze(freeze_at)
            data = data[len(data) // 2 :]
        send(self, data)

    http.client.HTTPConnection.send = send_in_halves  # type: ignore[method-assign]


async def _run(
    bootstrap: str, topic: str, data: Path, clickhouse: str | None, report: bool, lease_seconds: float
) -> None:
    connection = KafkaConnection(bootstrap)
    order, freeze_at = data / "kill-at", data / "freeze-at"
    _freeze_in_bodies(freeze_at)

    async def die_at(step: str) -> None:
        if order.exists() and order.read_text() == step:
            os.kill(os.getpid(), signal.SIGKILL)
        if freeze_at.exists() and freeze_at.read_text() == step:
            _freeze(freeze_at)

    transform = TelemetryTopic()
    transform.topic = topic
    store: ColumnStore = await (
        open_chdb(data / "clickhouse") if clickhouse is None else open_clickhouse_server(clickhouse)
    )
    await apply_schema(store)
    log = await open_kafka_log(
        connection, [dead_letter_topic(topic)], buffer_bytes=2**20, acknowledge_seconds=60.0
    )
    consumer = KafkaLogConsumer(connection, "killed", topic, session_seconds=1.0)
    loop = assemble_loop(
        Settings(chunk_seconds=0.1),
        transform,
        consumer=consumer,
        log=log,
        store=store,
        on_step=die_at,
        clock=StoreClock(store, lease_seconds),
    )
    stop = loop.stop
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    working = asyncio.create_task(loop.run())
    if report:
        await _until_drained(consumer)
        stop.set()
    await working
    if report:
        stored = (await store.query(_STORED)).records()
        doubles = (await store.query(_DOUBLE_RECEIPTS)).records()
        print(json.dumps({"stored": {r["step"]: (r["stored"], r["ids"]) for r in stored}, "double": doubles}))
    await consumer.close()
    await log.close()
    await store.close()


async def _until_drained(consumer: KafkaLogConsumer) -> None:
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(PartitionLost):
                if consumer.has_partitions() and await consumer.backlog() == 0:
                    return
            await asyncio.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--clickhouse")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--lease-seconds", type=float, default=LEASE_SECONDS)
    arguments = parser.parse_args()
    start_logs("info")
    asyncio.run(
        _run(
            arguments.bootstrap,
            arguments.topic,
            arguments.data,
            arguments.clickhouse,
            arguments.report,
            arguments.lease_seconds,
        )
    )


if __name__ == "__main__":
    main()
