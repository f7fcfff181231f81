"""The telemetry topic is deleted and recreated by hand while an edge and consumers run and clients send: events that
are acknowledged afterwards are stored once."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from aiokafka.admin import NewTopic

from loadtests.stack import parts
from loadtests.stack.parts import PHAROS, Part
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.clickhouse_server import ClickHouseServer, open_clickhouse_server
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import admin_client, create_topics
from storage_backends.key_directory.interface import KeyEntry
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.faults.sending_clients import EVENTS, RECEIPT_KEY, Client, OtherTopicClient
from tests.support import fork_server
from tests.support.clickhouse_front import running_clickhouse_front
from tests.support.engines import free_port, or_skip
from tests.support.kafka_broker import running_kafka
from tests.support.listed_keys import entries_reader
from tests.support.log_under_test import topic_settings
from tests.support.redis_server import running_redis

_MB = 2**20
_PARTITIONS = 2
# Batches of each account before the recreation, and after both accounts got a response again.
_BATCHES = 40
_ACCOUNTS = ("one", "two")
_STORED_BATCHES = """
    SELECT receipt_id, countIf(outcome = 'stored') AS stored FROM pharos.ingest_receipts GROUP BY receipt_id
"""
_STORED_EVENTS = """
    SELECT batch_id, count() AS events, uniqExact(id) AS ids FROM pharos.telemetry_events GROUP BY batch_id
"""
_STORED_LOGS = "SELECT Body AS mark, count() AS times FROM pharos.otel_logs GROUP BY mark"


@dataclass(slots=True)
class Pipeline:
    """An edge and a consumer as processes."""

    bootstrap: str
    edge: Part
    consumers: Part
    store: ClickHouseServer
    keys: Mapping[str, str]

    def session(self, account: str) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {self.keys[account]}"}
        return aiohttp.ClientSession(self.edge.url, headers=headers, timeout=aiohttp.ClientTimeout(total=120))

    def memory_mb(self) -> int:
        return int(psutil.Process(self.consumers.pid).memory_info().rss) // _MB

    async def rows(self, sql: str) -> list[dict[str, Any]]:
        return (await self.store.query(sql)).records()

    async def are_stored(self, receipts: set[str]) -> bool:
        return receipts <= {r["receipt_id"] for r in await self.rows(_STORED_BATCHES) if r["stored"]}


# tests/storage_backends/test_kafka_recreated_topic.py covers the two sides of the log alone.
@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("partitions", [1, 5])
async def test_events_acknowledged_after_a_recreation_are_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    monkeypatch.setattr(parts, "_popen", fork_server.popen)
    async with running_pipeline(tmp_path) as pipeline, contextlib.AsyncExitStack() as exits:
        sessions = [await exits.enter_async_context(pipeline.session(a)) for a in (*_ACCOUNTS, "other")]
        clients = [Client(session, account) for session, account in zip(sessions, _ACCOUNTS, strict=False)]
        other = OtherTopicClient(sessions[-1])
        working = [asyncio.create_task(client.run()) for client in (*clients, other)]
        exits.push_async_callback(_cancel, working)
        _send(clients, True)
        await _until(lambda: _all_have(clients, _BATCHES), working)
        # Unread records of a deleted topic are lost.
        _send(clients, False)
        before = await _settled(clients, pipeline, working)
        memory_before = pipeline.memory_mb()
        deleted = time.monotonic()
        async with admin_client(KafkaConnection(pipeline.bootstrap)) as admin:
            await admin.delete_topics([topics.TELEMETRY])
            while topics.TELEMETRY in await admin.list_topics():
                await asyncio.sleep(0.05)
            _send(clients, True)
            while topics.TELEMETRY not in await admin.list_topics():
                await admin.create_topics([NewTopic(topics.TELEMETRY, partitions, 1)])
                await asyncio.sleep(0.05)
        created = time.monotonic()
        # Both sides have noticed, and the new topic has more records than the old one had.
        await _until(lambda: _has_noticed(pipeline), working)
        noticed = time.monotonic()
        await _until(lambda: _all_have(clients, _BATCHES, noticed), working)
        for client in clients:
            # The sender never got the response.
            for batch in list(before[client.account])[:5]:
                assert (await client.send(batch)).status == 202
        _send(clients, False)
        with contextlib.suppress(TimeoutError):
            # Missing batches are listed below.
            await _settled(clients, pipeline, working, created)
        memory = pipeline.memory_mb()
        marks = {a.batch for a in other.answers if a.status == 200}
        await _cancel(working)
        await _until(lambda: _are_marks_stored(pipeline, marks), [])
        receipts = {r["receipt_id"]: r["stored"] for r in await pipeline.rows(_STORED_BATCHES)}
        events = {r["batch_id"]: (r["events"], r["ids"]) for r in await pipeline.rows(_STORED_EVENTS)}
        stored_logs = {r["mark"]: r["times"] for r in await pipeline.rows(_STORED_LOGS)}
    print(_report(clients, other, deleted, created, (memory_before, memory)))
    for client in clients:
        promised = {**before[client.account], **client.taken(since=created)}
        assert {batch: receipts.get(receipt) for batch, receipt in promised.items()} == dict.fromkeys(
            promised, 1
        )
        assert {batch: events.get(batch) for batch in promised} == dict.fromkeys(promised, (EVENTS, EVENTS))
    assert {batch: found for batch, found in events.items() if found != (EVENTS, EVENTS)} == {}
    assert {mark: stored_logs.get(mark) for mark in marks} == dict.fromkeys(marks, 1)
    assert {mark for mark, times in stored_logs.items() if times != 1} == set()
    assert memory - memory_before < 100


@asynccontextmanager
async def running_pipeline(folder: Path) -> AsyncIterator[Pipeline]:
    """Kafka, Redis and ClickHouse's HTTP interface with an edge and a consumer of two topics; stopped at the end."""
    with ExitStack() as exits:
        (folder / "redis").mkdir()
        kafka = exits.enter_context(or_skip(running_kafka(folder / "kafka")))
        redis = exits.enter_context(or_skip(running_redis(folder / "redis")))
        front = exits.enter_context(or_skip(running_clickhouse_front(folder / "clickhouse")))
        connection = KafkaConnection(kafka.bootstrap)
        dead = [topics.dead_letter_topic(topic) for topic in topics.ALL_TOPICS]
        await create_topics(connection, [*topics.ALL_TOPICS, *dead], topic_settings(_PARTITIONS))
        store = await open_clickhouse_server(front.url)
        try:
            await apply_schema(store)
            env = {
                "PHAROS_KAFKA_BOOTSTRAP": kafka.bootstrap,
                "PHAROS_REDIS_URL": redis.url,
                "PHAROS_CLICKHOUSE_URL": front.url,
                "PHAROS_RECEIPT_KEY": RECEIPT_KEY,
            }
            edge = _part("edge", ["edge"], "/health/ready", folder, env)
            consumers = _part(
                "consumers",
                ["consumers", "--only", "telemetry", "--only", "logs"],
                "/health/ready",
                folder,
                env,
            )
            keys = await _publish_keys(redis.url)
            for part in (edge, consumers):
                exits.callback(part.stop)
                part.start()
            for part in (edge, consumers):
                await asyncio.to_thread(part.wait_ready)
            yield Pipeline(kafka.bootstrap, edge, consumers, store, keys)
        finally:
            await store.close()


def _part(name: str, arguments: list[str], health: str, folder: Path, env: Mapping[str, str]) -> Part:
    port = free_port()
    return Part(
        name, [str(PHAROS), *arguments, "--port", str(port)], port, health, env, folder / f"{name}.log"
    )


async def _publish_keys(redis: str) -> dict[str, str]:
    """Publish a key for each account to the edge."""
    keys = {account: make_credential(CredentialKind.INGEST_KEY) for account in (*_ACCOUNTS, "other")}
    limit = RateLimit(1_000_000, 2_000_000)
    entries = [
        KeyEntry(digest_credential(key), CredentialKind.INGEST_KEY, account, f"prj {account}", account, limit)
        for account, key in keys.items()
    ]
    directory = await open_redis_key_directory(redis, follow=False)
    try:
        await directory.publish_all(entries_reader(entries))
    finally:
        await directory.close()
    return keys


def _send(clients: list[Client], on: bool) -> None:
    for client in clients:
        (client.sending.set if on else client.sending.clear)()


async def _all_have(clients: list[Client], batches: int, since: float = 0.0) -> bool:
    return all(len(client.taken(since)) >= batches for client in clients)


async def _settled(
    clients: list[Client], pipeline: Pipeline, working: list["asyncio.Task[None]"], since: float = 0.0
) -> dict[str, dict[str, str]]:
    """Return the receipts by account and batch, once all events that were acknowledged since then are stored."""

    async def settled() -> bool:
        taken = [receipt for client in clients for receipt in client.taken(since).values()]
        return await pipeline.are_stored(set(taken)) and taken == [
            receipt for client in clients for receipt in client.taken(since).values()
        ]

    await _until(settled, working)
    return {client.account: client.taken(since) for client in clients}


async def _has_noticed(pipeline: Pipeline) -> bool:
    return "recreated or deleted" in pipeline.edge.log.read_text() and (
        "deleted and created again" in pipeline.consumers.log.read_text()
    )


async def _are_marks_stored(pipeline: Pipeline, marks: set[str]) -> bool:
    return marks <= {r["mark"] for r in await pipeline.rows(_STORED_LOGS)}


async def _until(holds: Callable[[], Awaitable[bool]], working: list["asyncio.Task[None]"]) -> None:
    """Wait until the condition holds, while the clients run."""
    async with asyncio.timeout(90):
        while not await holds():
            for task in working:
                if task.done():
                    task.result()
            await asyncio.sleep(0.1)


async def _cancel(working: list["asyncio.Task[None]"]) -> None:
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)


def _report(
    clients: list[Client],
    other: OtherTopicClient,
    deleted: float,
    created: float,
    memory_mb: tuple[int, int],
) -> str:
    refused = [a.at for client in clients for a in client.answers if a.status != 202 and a.at > created]
    slow = sorted(a.seconds for a in other.answers if a.at > deleted)
    not_taken = [a for a in other.answers if a.status != 200]
    longest = max(a.seconds for client in clients for a in client.answers)
    return (
        f"{created - deleted:.1f} s between deletion and recreation; ingest refused for "
        f"{max(refused, default=created) - created:.1f} s after it ({len(refused)} answers, longest {longest:.1f} s); "
        f"other topic: {len(slow)} requests, p50 {1000 * slow[len(slow) // 2]:.0f} ms, longest {slow[-1]:.2f} s, "
        f"{len(not_taken)} refused; consumers' memory {memory_mb[0]} MB before, {memory_mb[1]} MB after"
    )
