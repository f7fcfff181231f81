"""Reads the records that a peer has acknowledged from the brokers."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import read_topics

_BATCH = re.compile(rb'"batch_id":"bench-(\d{10})"')


class PeerFailed(Exception):
    """A peer has refused a request, has lost an acknowledged request, or has stored one twice."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The contents of a topic: the number of messages, and how often each numbered ingest batch occurs."""

    messages: int
    batches: Counter[bytes]


async def read_back(bootstrap: str, topic: str) -> Stored:
    """Read all messages in the topic, then delete them."""
    described = await read_topics(KafkaConnection(bootstrap), [topic])
    partitions = [TopicPartition(topic, number) for number in range(described[topic].partitions)]
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=False)
    await consumer.start()
    try:
        begins, ends = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        for partition, begin in begins.items():
            consumer.seek(partition, begin)
        batches: Counter[bytes] = Counter()
        messages = 0
        # Each offset has a record: nothing writes in transactions, and the topics are not compacted.
        expected = sum(ends.values()) - sum(begins.values())
        while messages < expected:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                messages += len(records)
                batches.update(found[1] for each in records if (found := _BATCH.search(each.value[:200])))
    finally:
        await consumer.stop()
    await _remove(bootstrap, ends)
    return Stored(messages, batches)


async def _remove(bootstrap: str, ends: Mapping[TopicPartition, int]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.delete_records({each: RecordsToDelete(before_offset=end) for each, end in ends.items()})
    finally:
        await admin.close()


def check_stored(stored: Stored, answered: int, in_flight: int) -> None:
    """Check that each acknowledged request is stored once. At most `in_flight` further requests may be
    stored, which had no response.

    Raises `PeerFailed`.
    """
    if not answered <= stored.messages <= answered + in_flight:
        raise PeerFailed(f"{answered} requests were answered, and {stored.messages} are stored")
    if twice := [number for number, count in stored.batches.items() if count > 1]:
        raise PeerFailed(f"{len(twice)} batches are stored twice, such as {twice[0].decode()}")
    if stored.batches and len(stored.batches) < answered:
        raise PeerFailed(
            f"{answered} batches were answered, and {len(stored.batches)} different ones are stored"
        )
