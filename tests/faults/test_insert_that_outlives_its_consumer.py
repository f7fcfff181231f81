"""A consumer is killed while the server still works on its insert. The next one finds nothing stored yet, inserts,
and then the first insert arrives as well: only the same chunk with the same token keeps them from both counting.

Without the plan in the commit's metadata the next consumer would take more than that chunk, under another token.
"""

import asyncio
import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import create_topics
from tests.support import fork_server
from tests.support.clickhouse_front import FrontServer, running_clickhouse_front
from tests.support.log_under_test import MB, topic_settings, until_connected
from tests.support.telemetry_records import append_batch

_EVENTS = 20


class _Consumers:
    """Starts consumers on one topic and one column store."""

    def __init__(self, bootstrap: str, topic: str, folder: Path, front: FrontServer) -> None:
        self._command = [
            *(sys.executable, "-m", "tests.faults.killable_consumer", "--bootstrap", bootstrap),
            *("--topic", topic, "--data", str(folder), "--clickhouse", front.url),
        ]
        self.log = folder / "consumer.log"

    def start(self) -> "subprocess.Popen[bytes]":
        with open(self.log, "ab") as log:
            return fork_server.popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stderr=log,
                cwd=Path(__file__).parents[2],
            )

    def report(self) -> Any:
        with open(self.log, "ab") as log:
            done = fork_server.run(
                [*self._command, "--report"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=Path(__file__).parents[2],
                timeout=180,
            )
        assert done.returncode == 0, self.log.read_text()[-3000:]
        return json.loads(done.stdout)


@pytest.mark.timeout(500)
# In either order the server tells the second from the first by the token of the chunk alone.
@pytest.mark.parametrize(
    "first_arrives", ["after the second", pytest.param("while the second one waits", marks=pytest.mark.full)]
)
async def test_both_inserts_arrive_and_one_counts(
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
            await until_connected(log)
            consumers = _Consumers(kafka_bootstrap, topic, tmp_path, front)
            # Something is stored already: the consumer has stopped looking before it inserts.
            await send(0, 5)
            await asyncio.to_thread(consumers.report)
            victim = consumers.start()
            await send(5, 10)
            await _until_stored(front, 10 * _EVENTS)
            front.faults("held", 1000)
            await send(10, 20)
            await _until_held(front, 1)
            victim.kill()
            victim.wait()
            # More than the chunk that is on its way: a consumer without its plan would take all of it at once.
            await send(20, 40)
            if first_arrives == "after the second":
                front.faults("none", 0)
                await asyncio.to_thread(consumers.report)
                front.let_go()
                await _until_held(front, 0)
                report = await asyncio.to_thread(consumers.report)
            else:
                reporting = asyncio.create_task(asyncio.to_thread(consumers.report))
                await _until_held(front, 2)
                front.let_go()
                report = await reporting
        finally:
            await log.close()
    assert report["stored"] == {"one": [40 * _EVENTS, 40 * _EVENTS]}
    assert report["double"] == []
    assert "carrying out the open plan" in consumers.log.read_text()


async def _until_held(front: FrontServer, inserts: int) -> None:
    async with asyncio.timeout(120):
        while front.held() != inserts:
            await asyncio.sleep(0.05)


async def _until_stored(front: FrontServer, rows: int) -> None:
    from storage_backends.column_store.clickhouse_server import open_clickhouse_server

    store = await open_clickhouse_server(front.url)
    try:
        async with asyncio.timeout(120):
            while True:
                result = await store.query("SELECT count() FROM pharos.telemetry_events")
                if result.rows[0][0] == rows:
                    return
                await asyncio.sleep(0.1)
    finally:
        await store.close()
