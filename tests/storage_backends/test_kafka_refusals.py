"""The Kafka log with scripted brokers: it reports their refusals, and its watch of the topics survives faults."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline_contracts.errors import RecordTooLarge, StorageUnavailable
from storage_backends.event_log import kafka, kafka_producer
from storage_backends.event_log.kafka import KafkaEventLog
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_produce import Produced
from storage_backends.event_log.kafka_topic_ids import TopicDescription
from tests.support.waits import poll_until

TOPIC = "t"


class Client:
    """Replaces aiokafka's client: every broker responds with `code`."""

    _sync_task = None
    code = 0

    def __init__(self, **_: Any) -> None:
        self.cluster = SimpleNamespace(leader_for_partition=lambda _target: 1)

    async def bootstrap(self) -> None: ...
    async def set_topics(self, _topics: Any) -> None: ...
    async def close(self) -> None: ...
    def force_metadata_update(self) -> None: ...

    def get_random_node(self) -> int:
        return 1

    async def send(self, _node: int, request: Any) -> Any:
        if hasattr(request, "_batches"):
            return Produced(dict.fromkeys(request._batches, Client.code))
        return SimpleNamespace(error_code=0, producer_id=7, producer_epoch=0)


class Topics:
    """Counts the checks of the topics. The second check fails as uvloop does on a lost connection."""

    looks = 0

    async def read(self, *_: Any) -> dict[str, TopicDescription]:
        return {TOPIC: TopicDescription(1, "a" * 32)}

    async def describe(self, *_: Any) -> dict[str, TopicDescription]:
        self.looks += 1
        if self.looks == 2:
            raise RuntimeError("the handler is closed")
        return await self.read()


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    found = Topics()
    monkeypatch.setattr(kafka_producer, "AIOKafkaClient", Client)
    monkeypatch.setattr(kafka, "read_topics", found.read)
    monkeypatch.setattr(kafka, "describe_topics", found.describe)
    monkeypatch.setattr(kafka, "_WATCH_SECONDS", 0.01)
    return found


@pytest.fixture
async def log(topics: Topics) -> AsyncIterator[KafkaEventLog]:
    opened = KafkaEventLog(KafkaConnection("127.0.0.1:1"), [TOPIC], 10**7, 5.0)
    await poll_until(lambda: opened.stalled_reason() is None)
    yield opened
    await opened.close()


async def test_the_log_says_what_the_operator_has_to_do(
    log: KafkaEventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = ((29, 1, StorageUnavailable, "ACLs"), (32, 1, StorageUnavailable, "clock"))
    # A single record that is too large never fits. Of several records, each may fit alone.
    sizes = ((10, 1, RecordTooLarge, "clock"), (10, 3, StorageUnavailable, "do not acknowledge"))
    for code, number, kind, hint in (*cases, *sizes):
        monkeypatch.setattr(Client, "code", code)
        appended = [log.append(TOPIC, b"k", b"m", b"value") for _ in range(number)]
        failures = await asyncio.gather(*appended, return_exceptions=True)
        assert {type(failure) for failure in failures} == {kind}
        assert hint in (log.stalled_reason() or "")
    monkeypatch.setattr(Client, "code", 0)
    await log.append(TOPIC, b"k", b"m", b"value")


async def test_the_watch_of_the_topics_survives_a_fault(log: KafkaEventLog, topics: Topics) -> None:
    await poll_until(lambda: topics.looks >= 4)
    assert log.stalled_reason() is None
