"""The partition of a record."""

import asyncio
from collections import deque

from aiokafka.structs import TopicPartition

from storage_backends.event_log.kafka_producer import PendingBatch, SharedFuture
from storage_backends.event_log.kafka_targets import Targets
from storage_backends.event_log.kafka_topic_ids import TopicDescription


class Reachable:
    """Replaces the producer."""

    def __init__(self, *partitions: int) -> None:
        self.partitions = set(partitions)

    def can_send(self, target: TopicPartition) -> bool:
        return target.partition in self.partitions


def batch(target: TopicPartition, size: int = 0, encoded: bytes | None = None) -> PendingBatch:
    made = PendingBatch(target, SharedFuture(loop=asyncio.get_running_loop()), deque(), 1_000_000)
    made.size, made.encoded = size, encoded
    return made


async def test_a_key_keeps_its_partition_and_others_fill_one_after_the_other() -> None:
    targets = Targets({"t": TopicDescription(4, None)})
    assert [targets.count("t"), targets.count("unknown")] == [4, 0]
    everything, nothing = Reachable(0, 1, 2, 3), Reachable()
    keyed = {key: targets.choose(everything, "t", key) for key in (b"a", b"b", b"c", b"d", b"e", b"f")}
    assert len(set(keyed.values())) > 1
    assert all(targets.choose(nothing, "t", key) == target for key, target in keyed.items())

    first = targets.choose(everything, "t", b"")
    targets.note_newest("t", batch(first, 1000))
    assert {targets.choose(everything, "t", b"") for _ in range(9)} == {first}
    for full in (batch(first, 128 * 1024), batch(first, 1000, b"sent")):
        targets.note_newest("t", full)
        assert len({targets.choose(everything, "t", b"") for _ in range(4)}) == 4


async def test_records_without_a_key_avoid_partitions_that_cannot_be_written() -> None:
    targets = Targets({"t": TopicDescription(4, None)})
    only = Reachable(2)
    stuck = targets.choose(Reachable(0, 1, 3), "t", b"")
    # Withdrawn batches have the same state: small, and never sent.
    targets.note_newest("t", batch(stuck, 1000))
    assert {targets.choose(only, "t", b"").partition for _ in range(9)} == {2}
    assert targets.choose(Reachable(), "t", b"").topic == "t"
