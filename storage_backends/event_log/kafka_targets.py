"""Chooses the partition of each record."""

import itertools
import zlib
from collections.abc import Mapping
from typing import Protocol

from aiokafka.structs import TopicPartition

from storage_backends.event_log.kafka_producer import PendingBatch
from storage_backends.event_log.kafka_topic_ids import TopicDescription

# After this many bytes of records without a key (before compression), the next such records go to another
# partition.
_FULL_ENOUGH_BYTES = 128 * 1024


class Sender(Protocol):
    """The method of `KafkaProducer` that the choice of a partition needs."""

    def can_send(self, target: TopicPartition) -> bool:
        """Return True if a record for this partition would probably be sent at once."""
        ...


class Targets:
    """Chooses among the partitions of all topics."""

    def __init__(self, described: Mapping[str, TopicDescription]) -> None:
        self._partitions = {
            topic: [TopicPartition(topic, number) for number in range(found.partitions)]
            for topic, found in described.items()
        }
        # The newest batch that has records without a key, by topic.
        self._newest: dict[str, PendingBatch] = {}
        self._turns = itertools.count()

    def count(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        return len(self._partitions.get(topic, ()))

    def choose(self, sender: Sender, topic: str, key: bytes) -> TopicPartition:
        """Return the partition for a record. A key always gets the same partition. A record without a key gets a
        partition that can be written now, and one batch fills before the next partition is chosen."""
        partitions = self._partitions[topic]
        if key:
            return partitions[zlib.crc32(key) % len(partitions)]
        newest = self._newest.get(topic)
        if newest is not None and newest.encoded is None and newest.size < _FULL_ENOUGH_BYTES:
            target = newest.target
            if sender.can_send(target):
                return target
        for _ in partitions:
            target = partitions[next(self._turns) % len(partitions)]
            if sender.can_send(target):
                break
        return target

    def note_newest(self, topic: str, batch: PendingBatch) -> None:
        """Remember the batch to which a record without a key was added."""
        self._newest[topic] = batch
