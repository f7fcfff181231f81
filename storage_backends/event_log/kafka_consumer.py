"""Reads the event log on Kafka, as a member of a consumer group.

One commit stores both the position of a partition and the plan of the chunk in progress: the offset is the start of
the chunk, and the commit's metadata is its end. A commit counts only within the assignment in which this consumer
claimed the partition. The brokers would accept a commit from any current member of the group.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Sequence

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalStateError,
    KafkaError,
    UnknownMemberIdError,
)

from pipeline_contracts.errors import PartitionLost, RecordsRemoved, StorageUnavailable
from pipeline_contracts.records import LogRecord, Position
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_member import GroupMember, join_group
from storage_backends.event_log.kafka_positions import encode_position
from storage_backends.event_log.kafka_unpack import read_fetched

logger = logging.getLogger(__name__)

_REQUEST_SECONDS = 5.0
_COMMIT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
# A read may take this much longer than its caller waits: the length of a rebalance.
_READ_SECONDS = 30.0
# If a partition has no records for this time, its position is compared with its end. If it still has none after the
# same time again, it counts as stuck.
_QUIET_SECONDS = 20.0
_STUCK_SECONDS = 5.0


class KafkaLogConsumer:
    """A `LogConsumer` on Kafka. Connects at the first claim. Different partitions may be read concurrently."""

    claim_seconds = 0.5

    def __init__(
        self, connection: KafkaConnection, group: str, topic: str, *, session_seconds: float = 10.0
    ) -> None:
        self._connection = connection
        self._session_ms = int(1000 * session_seconds)
        # Use one group per topic: otherwise consumers that join one topic would cause a rebalance of the others.
        self._group = f"{group}.{topic}"
        self._topic = topic
        self._log_id: str | None = None
        self._member: GroupMember | None = None
        # Number of the current assignment of partitions. A claim from an earlier assignment is lost, even if the
        # partition was assigned to this consumer again.
        self._assignment = 0
        self._claimed = -1
        self._positions: dict[int, Position] = {}
        self._next_offsets: dict[int, int] = {}
        self._read_ahead: dict[int, list[LogRecord]] = {}
        self._commits: set[asyncio.Task[None]] = set()
        # For partitions without records: since when there are none, and the time by which existing records must
        # arrive.
        self._quiet_since: dict[int, float] = {}
        self._stuck_deadlines: dict[int, float] = {}
        self._stuck: str | None = None

    @property
    def log_id(self) -> str:
        assert self._log_id is not None, "known from the first claim on"
        return self._log_id

    async def claim(self) -> dict[int, Position]:
        member = await self._ensure_member()
        assigned = frozenset(p.partition for p in member.consumer.assignment())
        if self._claimed == self._assignment and assigned == self._positions.keys():
            return dict(self._positions)
        if self._forget_claims():
            raise PartitionLost(f"{self._topic}: the partitions were reassigned")
        before = self._assignment
        positions = await member.read_positions(assigned)
        if before != self._assignment:
            return {}
        self._positions = positions
        self._claimed = before
        return dict(positions)

    async def read(
        self, partition: int, start: int, end: int | None, max_bytes: int, wait: float
    ) -> list[LogRecord]:
        member = self._require_claimed(partition)
        read_ahead = [record for record in self._read_ahead.pop(partition, ()) if record.offset >= start]
        if read_ahead and read_ahead[0].offset == start:
            records = read_ahead
        else:
            records = await self._fetch(member, partition, start, max_bytes, wait)
            # The partition may have been reassigned during the read.
            self._require_claimed(partition)
            if records:
                self._quiet_since.pop(partition, None)
                self._stuck_deadlines.pop(partition, None)
            else:
                await self._check_end_reached(partition, start)
        taken = _limit_records(records, end, max_bytes)
        # The caller requests the records that it does not use again. Keep them to save a second fetch.
        self._read_ahead[partition] = records
        return taken

    async def _fetch(
        self, member: GroupMember, partition: int, start: int, max_bytes: int, wait: float
    ) -> list[LogRecord]:
        topic_partition = TopicPartition(self._topic, partition)
        consumer = member.consumer
        try:
            # A failed read may have moved aiokafka's position, so the next read seeks again.
            if self._next_offsets.pop(partition, None) != start:
                consumer.seek(topic_partition, start)
            async with asyncio.timeout(wait + _READ_SECONDS):
                records = await read_fetched(consumer, topic_partition, max_bytes, wait)
        except IllegalStateError as error:
            raise PartitionLost(str(error)) from error
        except (KafkaError, ConsumerStoppedError, TimeoutError) as error:
            raise StorageUnavailable(f"The event log cannot be read: {error!r}") from error
        if not records:
            self._next_offsets[partition] = start
            return records
        first = records[0].offset
        if first < start:
            member.check_topic_soon()
            raise StorageUnavailable(
                f"{self._topic}/{partition} is shorter than what was read of it: a read from offset {start} returned "
                f"records from {first}. A recreated topic is noticed within 10 s. If this goes on, the brokers have "
                "lost records: see 'Kafka has lost records' in docs/operations/operation.md before you reset a "
                "position."
            )
        self._next_offsets[partition] = records[-1].offset + 1
        if first > start:
            self._read_ahead[partition] = records
            raise RecordsRemoved(partition, start, first)
        return records

    async def _check_end_reached(self, partition: int, start: int) -> None:
        """After an empty read, compare the position with the end of the partition from time to time. Raises
        `StorageUnavailable` if the brokers have records and do not deliver them. The next claim then joins the group
        with new clients."""
        now = time.monotonic()
        if now - self._quiet_since.setdefault(partition, now) < _QUIET_SECONDS:
            return
        deadline = self._stuck_deadlines.get(partition)
        if deadline is not None and now < deadline:
            return
        end = await self.end(partition)
        if end <= start:
            self._quiet_since[partition] = now
            self._stuck_deadlines.pop(partition, None)
        elif deadline is None:
            # The records may have been appended a moment ago.
            self._stuck_deadlines[partition] = now + _STUCK_SECONDS
        else:
            self._stuck = f"{self._topic}/{partition} stands still at {start}, though the log ends at {end}"
            raise StorageUnavailable(f"{self._stuck}.")

    async def commit(self, partition: int, position: Position) -> None:
        member = self._require_claimed(partition)
        offsets = {TopicPartition(self._topic, partition): encode_position(position, member.log_id)}
        # Use a task that a rebalance can cancel: aiokafka would retry the commit after the rebalance, and the brokers
        # would accept it.
        task = asyncio.create_task(member.consumer.commit(offsets))
        self._commits.add(task)
        try:
            await asyncio.wait({task}, timeout=_COMMIT_SECONDS)
            if not task.done():
                task.cancel()
                raise StorageUnavailable("The brokers do not answer the commit.")
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            self._commits.discard(task)
        if task.cancelled():
            raise PartitionLost(f"{self._topic}/{partition}: reassigned during the commit")
        error = task.exception()
        if isinstance(error, (CommitFailedError, IllegalStateError, UnknownMemberIdError)):
            raise PartitionLost(str(error)) from error
        if error is not None:
            raise StorageUnavailable(f"The commit failed: {error!r}") from error
        self._require_claimed(partition)
        self._positions[partition] = position

    def has_partitions(self) -> bool:
        """Return True if the claimed partitions still belong to this consumer."""
        return bool(self._positions) and self._claimed == self._assignment

    async def end(self, partition: int) -> int:
        topic_partition = TopicPartition(self._topic, partition)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                consumer = self._require_claimed(partition).consumer
                ends: dict[TopicPartition, int] = await consumer.end_offsets([topic_partition])
        except (KafkaError, ConsumerStoppedError, TimeoutError) as error:
            raise StorageUnavailable(f"The event log's end cannot be read: {error!r}") from error
        self._require_claimed(partition)
        return ends[topic_partition]

    async def backlog(self) -> int:
        if self._member is None or not self._positions:
            return 0
        topic_partitions = [TopicPartition(self._topic, p) for p in self._positions]
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                ends = await self._member.consumer.end_offsets(topic_partitions)
        except (KafkaError, ConsumerStoppedError, TimeoutError) as error:
            raise StorageUnavailable(f"The event log cannot be read: {error!r}") from error
        return sum(
            max(0, end - self._positions[topic_partition.partition].next_offset)
            for topic_partition, end in ends.items()
            if topic_partition.partition in self._positions
        )

    async def close(self) -> None:
        member, self._member = self._member, None
        self._end_assignment()
        if member is not None:
            await member.close(_CLOSE_SECONDS)

    async def _ensure_member(self) -> GroupMember:
        """Join the group, or replace a group member that has stopped working. Raises `PartitionLost` if that member
        had partitions, and `StorageUnavailable`."""
        if self._member is not None:
            failure = self._stuck or await self._member.find_failure()
            if failure is None:
                return self._member
            logger.error("%s: joining the group again with a new client: %s", self._topic, failure)
            await self.close()
            if self._forget_claims():
                raise PartitionLost(f"{self._topic}: {failure}")
        self._stuck = None
        self._member = await join_group(
            self._connection, self._group, self._topic, _Listener(self), self._session_ms
        )
        self._log_id = self._member.log_id
        return self._member

    def _forget_claims(self) -> bool:
        """Forget all claims; return True if there were any."""
        had_claims = bool(self._positions)
        self._claimed = -1
        for state in (
            self._positions,
            self._next_offsets,
            self._read_ahead,
            self._quiet_since,
            self._stuck_deadlines,
        ):
            state.clear()
        return had_claims

    def _require_claimed(self, partition: int) -> GroupMember:
        if self._member is None or self._claimed != self._assignment or partition not in self._positions:
            raise PartitionLost(f"{self._topic}/{partition} is not claimed")
        return self._member

    def _end_assignment(self) -> None:
        self._assignment += 1
        for task in self._commits:
            task.cancel()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Ends the current assignment of partitions before and after a rebalance."""

    def __init__(self, consumer: KafkaLogConsumer) -> None:
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._consumer._end_assignment()

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._consumer._end_assignment()


def _limit_records(records: Sequence[LogRecord], end: int | None, max_bytes: int) -> list[LogRecord]:
    taken: list[LogRecord] = []
    size = 0
    for record in records:
        if (end is not None and record.offset >= end) or size >= max_bytes:
            break
        taken.append(record)
        size += len(record.value)
    return taken
