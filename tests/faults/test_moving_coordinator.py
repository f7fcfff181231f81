"""Consumers claim partitions while the coordinator of their group starts or moves and OffsetFetch returns no positions.
The group's positions and its open plan stay, and no record is read again from the beginning."""

import asyncio
import contextlib
import secrets
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.event_log.kafka import KafkaEventLog, open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import create_topics
from tests.faults.consumers_on_server import ConsumersOnServer, until_stored
from tests.support.clickhouse_front import running_clickhouse_front
from tests.support.engines import free_port, or_skip
from tests.support.kafka_broker import KafkaBroker, quick_start_options
from tests.support.kafka_proxy import NO_PARTITIONS, OBSERVER, KafkaProxy, kafka_proxy
from tests.support.log_under_test import MB, topic_settings, wait_connected
from tests.support.telemetry_records import append_batch

_EVENTS = 20
_PARTITIONS = 2
_LOADING, _AWAY, _MOVED = 14, 15, 16
# The coordinator's response, and the consumer's log line about it.
_ANSWERS = {
    _LOADING: "(14)",
    _AWAY: "(15)",
    _MOVED: "(16)",
    NO_PARTITIONS: "did not return the group's position",
}


@dataclass(slots=True)
class Sender:
    """Appends batches as the edge does, and appends a batch again until it is acknowledged."""

    log: KafkaEventLog
    topic: str
    sent: int = 0
    seconds: list[float] = field(default_factory=list)
    """Durations of the acknowledged appends, in seconds."""

    async def send(self, batches: int) -> None:
        for _ in range(batches):
            events: list[dict[str, Any]] = [
                {"type": "log", "service": "one", "id": f"{self.sent}.{n}"} for n in range(_EVENTS)
            ]
            while True:
                begun = time.monotonic()
                try:
                    await append_batch(self.log, "env", f"batch {self.sent}", events, topic=self.topic)
                except StorageUnavailable:
                    await asyncio.sleep(0.05)
                else:
                    self.seconds.append(time.monotonic() - begun)
                    break
            self.sent += 1


@dataclass(slots=True)
class Positions:
    """Reads the group's commits from the brokers, past the proxy's faults."""

    admin: AIOKafkaAdminClient
    group: str
    topic: str

    async def read(self) -> dict[int, tuple[int, str]]:
        """Return offset and metadata by partition."""
        places = [TopicPartition(self.topic, partition) for partition in range(_PARTITIONS)]
        found = await self.admin.list_consumer_group_offsets(self.group, partitions=places)
        return {partition_name.partition: (at.offset, at.metadata) for partition_name, at in found.items()}

    async def are_past_the_beginning(self) -> bool:
        """Return True if each partition has a committed position after its first record."""
        return all(offset > 0 for offset, _ in (await self.read()).values())


# tests/storage_backends/test_kafka_positions.py covers the responses alone.
@pytest.mark.full
@pytest.mark.timeout(500)
async def test_positions_and_plan_survive_a_moving_coordinator(tmp_path: Path) -> None:
    topic = f"moving.{secrets.token_hex(4)}"
    async with (
        broker_behind_proxy(tmp_path / "kafka") as (broker, proxy),
        contextlib.AsyncExitStack() as exits,
    ):
        connection = KafkaConnection(f"127.0.0.1:{proxy.port}")
        await create_topics(connection, [topic, f"{topic}.dead"], topic_settings(_PARTITIONS))
        log = await open_kafka_log(connection, [topic], buffer_bytes=MB, acknowledge_seconds=60.0)
        exits.push_async_callback(log.close)
        await wait_connected(log)
        front = exits.enter_context(or_skip(running_clickhouse_front(tmp_path / "clickhouse")))
        admin = AIOKafkaAdminClient(bootstrap_servers=connection.bootstrap, client_id=OBSERVER)
        await admin.start()
        exits.push_async_callback(admin.close)
        consumers = ConsumersOnServer(connection.bootstrap, topic, tmp_path, front)
        positions = Positions(admin, f"killed.{topic}", topic)
        sender = Sender(log, topic)

        # An open plan in the middle of the log.
        victim = consumers.start()
        exits.callback(victim.kill)
        await sender.send(20)
        await until_stored(front, 20 * _EVENTS)
        # Stored records are committed a moment later.
        await _until(positions.are_past_the_beginning)
        (tmp_path / "kill-at").write_text("after plan")
        await sender.send(20)
        assert await asyncio.to_thread(victim.wait, 120) == -signal.SIGKILL
        (tmp_path / "kill-at").unlink()
        before = await positions.read()
        plans = {partition: meta for partition, (_, meta) in before.items() if meta[:1].isdecimal()}
        assert plans and all(offset > 0 for offset, _ in before.values())
        proxy.commits.clear()
        logged_error = len(consumers.log.read_text())
        begun = time.monotonic()
        usual = len(sender.seconds)
        proxy.code = _LOADING
        working = consumers.start()
        exits.callback(working.kill)
        # A consumer that mistakes the response for a position would begin at 0 immediately.
        for code, text in _ANSWERS.items():
            proxy.code = code
            now = len(consumers.log.read_text())
            await _until(lambda: _is_logged(consumers.log, text, now) or bool(proxy.commits))  # noqa: B023
            await sender.send(3)
            assert await positions.read() == before
            assert proxy.commits == []
        proxy.code = 0
        faulty = time.monotonic() - begun
        slow = sorted(sender.seconds[usual:])
        await until_stored(front, sender.sent * _EVENTS)
        recovered = time.monotonic() - begun - faulty
        memory_before = psutil.Process(working.pid).memory_info().rss // MB
        between = await _committed(positions, before)
        # The real case: a killed broker is its own next coordinator, which has to load the positions.
        await asyncio.to_thread(broker.stop, signal.SIGKILL)
        sending = asyncio.create_task(sender.send(10))
        await asyncio.to_thread(broker.start)
        await sending
        await until_stored(front, sender.sent * _EVENTS)
        memory = psutil.Process(working.pid).memory_info().rss // MB
        await _committed(positions, between)
        text = consumers.log.read_text()[logged_error:]
        working.terminate()
        await asyncio.to_thread(working.wait, 60)
        report = await asyncio.to_thread(consumers.report)
    print(
        f"{proxy.replaced} answers replaced in {faulty:.1f} s; all stored {recovered:.1f} s later; "
        f"appends meanwhile: p50 {1000 * slow[len(slow) // 2]:.0f} ms, longest {slow[-1]:.2f} s, while the "
        f"broker was away {max(sender.seconds):.1f} s; "
        f"consumers' memory {memory_before} MB before the broker was killed, {memory} MB after"
    )
    assert report["stored"] == {"one": [sender.sent * _EVENTS, sender.sent * _EVENTS]}
    assert report["double"] == []
    for partition, meta in plans.items():
        end = meta.partition("@")[0]
        assert f"{topic}/{partition}: finishing the open plan {before[partition][0]}-{end}" in text
    for partition, (offset, _) in before.items():
        # Each chunk begins with the commit of its plan: no chunk began before the stored records.
        commits = [at for name, where, at in proxy.commits if (name, where) == (topic, partition)]
        assert commits == sorted(commits) and commits[0] >= offset
    assert memory < memory_before + 100


@asynccontextmanager
async def broker_behind_proxy(folder: Path) -> AsyncIterator[tuple[KafkaBroker, KafkaProxy]]:
    """A broker whose clients all connect through the proxy."""
    port = free_port()
    async with kafka_proxy(port) as proxy:
        broker = KafkaBroker(
            folder,
            port,
            properties=f"advertised.listeners=PLAINTEXT://127.0.0.1:{proxy.port}\n",
            options=quick_start_options(),
        )
        try:
            await asyncio.to_thread(broker.start)
            yield broker, proxy
        finally:
            broker.stop(signal.SIGKILL)


def _is_logged(log: Path, text: str, begin: int) -> bool:
    return text in log.read_text()[begin:]


async def _committed(positions: Positions, before: dict[int, tuple[int, str]]) -> dict[int, tuple[int, str]]:
    """Return the positions once every plan is finished; check that none has moved back."""

    async def are_committed() -> bool:
        now = await positions.read()
        assert all(now[partition][0] >= offset for partition, (offset, _) in before.items())
        return all(meta.startswith("@") for _, meta in now.values())

    await _until(are_committed)
    return await positions.read()


async def _until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(120):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.1)
