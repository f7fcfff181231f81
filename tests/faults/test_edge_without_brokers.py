"""An edge without brokers under many clients: its memory is bounded, and it recovers without a restart."""

import asyncio
import secrets
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psutil
import pytest

from loadtests.bench.payloads import make_bodies, number_body
from loadtests.stack import parts
from pipeline_contracts import topics
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import create_topics
from storage_backends.key_directory.interface import KeyEntry
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support import fork_server
from tests.support.engines import free_port, or_skip
from tests.support.kafka_broker import running_kafka
from tests.support.listed_keys import entries_reader
from tests.support.log_under_test import topic_settings
from tests.support.redis_server import running_redis

_MB = 2**20
# A buffer for fifty batches, and a short timeout of appends.
_SHORT = {"PHAROS_KAFKA_BUFFER_BYTES": str(2 * _MB), "PHAROS_KAFKA_TIMEOUT_SECONDS": "1"}


@dataclass(frozen=True, slots=True)
class Edge:
    """A running edge, and a key that it accepts."""

    part: parts.Part
    key: str


@dataclass(slots=True)
class Flood:
    """Numbers of requests and of the edge's responses, by status."""

    answers: Counter[int | str] = field(default_factory=Counter)
    buffer_full: int = 0
    """Responses because of a full buffer."""
    sent_bytes: int = 0


# The long flood reveals leaks that are too slow for the short one.
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("clients", "seconds", "settings"),
    [(50, 3.0, _SHORT), pytest.param(200, 15.0, {}, marks=pytest.mark.full)],
    ids=["short", "long"],
)
async def test_memory_stays_bounded_and_the_edge_recovers(
    tmp_path: Path,
    clients: int,
    seconds: float,
    settings: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "_popen", fork_server.popen)
    (tmp_path / "redis").mkdir()
    with (
        or_skip(running_kafka(tmp_path / "kafka")) as kafka,
        or_skip(running_redis(tmp_path / "redis")) as redis,
    ):
        await create_topics(KafkaConnection(kafka.bootstrap), topics.ALL_TOPICS, topic_settings(1))
        edge = Edge(_make_part(tmp_path, kafka.bootstrap, redis.url, settings), await _publish_key(redis.url))
        try:
            edge.part.start()
            await asyncio.to_thread(edge.part.wait_ready)
            process = psutil.Process(edge.part.pid)
            assert (await flood(edge, clients, seconds / 8)).answers[202] > 0
            before = process.memory_info().rss
            kafka.stop(signal.SIGKILL)
            peak = 0
            flooding = asyncio.create_task(flood(edge, clients, seconds))
            while not flooding.done():
                peak = max(peak, process.memory_info().rss)
                await asyncio.sleep(0.1)
            without = await flooding
            print(
                f"{clients} clients for {seconds:.0f} s without the broker sent {without.sent_bytes / _MB:.0f} MB: "
                f"{dict(without.answers)}, {without.buffer_full} of them because the buffer was full; "
                f"memory {before / _MB:.0f} MB before, {peak / _MB:.0f} MB at most"
            )
            # No 202 without the brokers: it would promise durability.
            assert without.answers and set(without.answers) <= {503, "no answer"}
            if settings is _SHORT:
                assert without.buffer_full > 0
            # The buffer, the bodies in flight with one copy each, and little for refused requests.
            buffer_bytes = int(settings.get("PHAROS_KAFKA_BUFFER_BYTES", 32 * _MB))
            in_flight = 2 * clients * without.sent_bytes / without.answers.total()
            assert peak - before < buffer_bytes + in_flight + without.sent_bytes / 8
            assert peak < 400 * _MB
            began = time.monotonic()
            # Shortly after the last request the edge no longer reports a stalled log.
            while edge.part.is_ready():
                assert time.monotonic() < began + 60
                await flood(edge, 5, 1.0)
            await asyncio.to_thread(kafka.start)
            began = time.monotonic()
            while (await flood(edge, 5, 0.5)).answers[202] == 0:
                assert time.monotonic() < began + 180
            while not edge.part.is_ready():
                assert time.monotonic() < began + 180
                await asyncio.sleep(0.1)
            print(f"ready again {time.monotonic() - began:.1f} s after the broker")
        finally:
            edge.part.stop()


def _make_part(folder: Path, kafka: str, redis: str, settings: Mapping[str, str]) -> parts.Part:
    port = free_port()
    env = {
        "PHAROS_KAFKA_BOOTSTRAP": kafka,
        "PHAROS_REDIS_URL": redis,
        "PHAROS_RECEIPT_KEY": secrets.token_urlsafe(32),
        **settings,
    }
    command = [str(parts.PHAROS), "edge", "--port", str(port)]
    return parts.Part("edge", command, port, "/health/ready", env, folder / "edge.log")


async def _publish_key(redis: str) -> str:
    """Publish a key whose account has no rate limit; return the key."""
    key = make_credential(CredentialKind.INGEST_KEY)
    limit = RateLimit(1_000_000, 2_000_000)
    entry = KeyEntry(digest_credential(key), CredentialKind.INGEST_KEY, "acc", "prj", "env", limit)
    directory = await open_redis_key_directory(redis, follow=False)
    try:
        await directory.publish_all(entries_reader([entry]))
    finally:
        await directory.close()
    return key


async def flood(edge: Edge, clients: int, seconds: float) -> Flood:
    """Send batches of 100 events from each client, the next one soon after each response."""
    flood = Flood()
    bodies = make_bodies(8, 100)
    until = time.monotonic() + seconds
    headers = {
        "Authorization": f"Bearer {edge.key}",
        "Content-Type": "application/json",
    }
    timeout = aiohttp.ClientTimeout(total=60)
    connector = aiohttp.TCPConnector(limit=0)

    async def send(session: aiohttp.ClientSession, client: int) -> None:
        number = 0
        while time.monotonic() < until:
            number += 1
            body = number_body(bodies[client % 8], client * 10**6 + number)
            try:
                async with session.post(f"{edge.part.url}/api/v1/ingest", data=body) as answer:
                    flood.buffer_full += b"The event log is full" in await answer.read()
                    flood.answers[answer.status] += 1
            except (aiohttp.ClientError, TimeoutError):
                flood.answers["no answer"] += 1
            flood.sent_bytes += len(body)
            # A refused client does not retry within the same millisecond.
            await asyncio.sleep(0.05)

    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as session:
        await asyncio.gather(*(send(session, client) for client in range(clients)))
    return flood
