"""The event log on Kafka, its reading side: a member of a consumer group.

The position of a partition and the plan of the chunk in work are one commit: the offset is where the chunk begins,
the commit's metadata is where it ends. A commit only counts for the assignment in which the partition was claimed:
the brokers themselves would take one from any member of the present generation.
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

from pipeline_contracts.errors import PartitionLost, RecordsGone, StorageUnavailable
from pipeline_contracts.records import LogRecord, Position
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_member import GroupMember, join_group
from storage_backends.event_log.kafka_positions import encode_position
from storage_backends.event_log.kafka_unpack import read_fetched

logger = logging.getLogger(__name__)

_ASK_SECONDS = 5.0
_COMMIT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
# How much longer than its caller waits a read may take: as long as a rebalance.
_READ_SECONDS = 30.0
# When a partition that nothing comes from is compared with its end, and how much later it is taken for stuck.
_QUIET_SECONDS = 20.0
_STUCK_SECONDS = 5.0


class KafkaLogConsumer:
    """Connects at the first claim. Reading partitions side by side is allowed, one at a time each."""

    def __init__(
        self, connection: KafkaConnection, group: str, topic: str, *, session_seconds: float = 10.0
    ) -> None:
        self._connection = connection
        self._session_ms = int(1000 * session_seconds)
        # A group of its own for each topic: who reads one topic is not disturbed by who reads another.
        self._group = f"{group}.{topic}"
        self._topic = topic
        self._log_id: str | None = None
        self._member: GroupMember | None = None
        # Counts assignments. What was claimed in an earlier one is lost, also if the partition came back.
        self._assignment = 0
        self._claimed = -1
        self._positions: dict[int, Position] = {}
        self._next: dict[int, int] = {}
        self._held: dict[int, list[LogRecord]] = {}
        self._commits: set[asyncio.Task[None]] = set()
        # Partitions that nothing comes from: since when, or until when something has to come.
        self._quiet: dict[int, float] = {}
        self._overdue: dict[int, float] = {}
        self._stuck: str | None = None

    @property
    def log_id(self) -> str:
        assert self._log_id is not None, "known from the first claim on"
        return self._log_id

    async def claim(self) -> dict[int, Position]:
        member = await self._working_member()
        assigned = frozenset(p.partition for p in member.consumer.assignment())
        if self._claimed == self._assignment and assigned == self._positions.keys():
            return dict(self._positions)
        if self._forget():
            raise PartitionLost(f"{self._topic}: the partitions were handed out anew")
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
        member = self._mine(partition)
        held = [record for record in self._held.pop(partition, ()) if record.offset >= start]
        if held and held[0].offset == start:
            records = held
        else:
            records = await self._fetch(member, partition, start, max_bytes, wait)
            # The partition may have gone while this waited.
            self._mine(partition)
            if records:
                self._quiet.pop(partition, None)
                self._overdue.pop(partition, None)
            else:
                await self._check_that_nothing_is_left(partition, start)
        taken = _up_to(records, end, max_bytes)
        # What the caller does not take in the end is asked for again: it need not come over the network twice.
        self._held[partition] = records
        return taken

    async def _fetch(
        self, member: GroupMember, partition: int, start: int, max_bytes: int, wait: float
    ) -> list[LogRecord]:
        place = TopicPartition(self._topic, partition)
        consumer = member.consumer
        try:
            # A read that fails may have moved aiokafka's position: the next one sets it again.
            if self._next.pop(partition, None) != start:
                consumer.seek(place, start)
            async with asyncio.timeout(wait + _READ_SECONDS):
                records = await read_fetched(consumer, place, max_bytes, wait)
        except IllegalStateError as error:
            raise PartitionLost(str(error)) from error
        except (KafkaError, ConsumerStoppedError, TimeoutError) as error:
            raise StorageUnavailable(f"The event log cannot be read: {error!r}") from error
        if not records:
            self._next[partition] = start
            return records
        first = records[0].offset
        if first < start:
            member.look_soon()
            raise StorageUnavailable(
                f"{self._topic}/{partition} is shorter than what was read of it: offset {start} was asked for, and it "
                f"begins with {first}. A recreated topic is noticed within 10 s. If this goes on, the brokers have "
                "lost records: see 'Kafka has lost records' in docs/operation.md before you reset a position."
            )
        self._next[partition] = records[-1].offset + 1
        if first > start:
            self._held[partition] = records
            raise RecordsGone(partition, start, first)
        return records

    async def _check_that_nothing_is_left(self, partition: int, start: int) -> None:
        """Nothing came: now and then, ask the brokers whether there is something. Raises `StorageUnavailable` if they
        have records that do not come; the next claim then joins with new clients."""
        now = time.monotonic()
        if now - self._quiet.setdefault(partition, now) < _QUIET_SECONDS:
            return
        deadline = self._overdue.get(partition)
        if deadline is not None and now < deadline:
            return
        end = await self.end(partition)
        if end <= start:
            self._quiet[partition] = now
            self._overdue.pop(partition, None)
        elif deadline is None:
            # They may have come just now.
            self._overdue[partition] = now + _STUCK_SECONDS
        else:
            self._stuck = f"{self._topic}/{partition} stands still at {start}, though the log ends at {end}"
            raise StorageUnavailable(f"{self._stuck}.")

    async def commit(self, partition: int, position: Position) -> None:
        member = self._mine(partition)
        offsets = {TopicPartition(self._topic, partition): encode_position(position, member.log_id)}
        # A task, so that a rebalance can end it: tried again in the next generation it would count there.
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
            raise PartitionLost(f"{self._topic}/{partition}: handed out anew during the commit")
        error = task.exception()
        if isinstance(error, (CommitFailedError, IllegalStateError, UnknownMemberIdError)):
            raise PartitionLost(str(error)) from error
        if error is not None:
            raise StorageUnavailable(f"The commit failed: {error!r}") from error
        self._mine(partition)
        self._positions[partition] = position

    def has_partitions(self) -> bool:
        """Whether it has claimed any and still holds them."""
        return bool(self._positions) and self._claimed == self._assignment

    async def end(self, partition: int) -> int:
        place = TopicPartition(self._topic, partition)
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                consumer = self._mine(partition).consumer
                ends: dict[TopicPartition, int] = await consumer.end_offsets([place])
        except (KafkaError, ConsumerStoppedError, TimeoutError) as error:
            raise StorageUnavailable(f"The event log cannot be asked: {error!r}") from error
        self._mine(partition)
        return ends[place]

    async def backlog(self) -> int:
        if self._member is None or not self._positions:
            return 0
        places = [TopicPartition(self._topic, p) for p in self._positions]
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                ends = await self._member.consumer.end_offsets(places)
        except (KafkaError, ConsumerStoppedError, TimeoutError) as error:
            raise StorageUnavailable(f"The event log cannot be read: {error!r}") from error
        return sum(
            max(0, end - self._positions[place.partition].next_offset)
            for place, end in ends.items()
            if place.partition in self._positions
        )

    async def close(self) -> None:
        member, self._member = self._member, None
        self._lose()
        if member is not None:
            await member.close(_CLOSE_SECONDS)

    async def _working_member(self) -> GroupMember:
        """Join the group, or replace a member that has come to a stop. Raises `PartitionLost` when it held
        partitions, and `StorageUnavailable`."""
        if self._member is not None:
            trouble = self._stuck or await self._member.find_trouble()
            if trouble is None:
                return self._member
            logger.error("%s: joining the group again with a new client: %s", self._topic, trouble)
            await self.close()
            if self._forget():
                raise PartitionLost(f"{self._topic}: {trouble}")
        self._stuck = None
        self._member = await join_group(
            self._connection, self._group, self._topic, _Listener(self), self._session_ms
        )
        self._log_id = self._member.log_id
        return self._member

    def _forget(self) -> bool:
        """Forget what was claimed; True if there was any."""
        had_some = bool(self._positions)
        self._claimed = -1
        for state in (self._positions, self._next, self._held, self._quiet, self._overdue):
            state.clear()
        return had_some

    def _mine(self, partition: int) -> GroupMember:
        if self._member is None or self._claimed != self._assignment or partition not in self._positions:
            raise PartitionLost(f"{self._topic}/{partition} is not claimed")
        return self._member

    def _lose(self) -> None:
        self._assignment += 1
        for task in self._commits:
            task.cancel()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Told by aiokafka before it joins the group again, and after."""

    def __init__(self, consumer: KafkaLogConsumer) -> None:
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._consumer._lose()

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._consumer._lose()


def _up_to(records: Sequence[LogRecord], end: int | None, max_bytes: int) -> list[LogRecord]:
    taken: list[LogRecord] = []
    size = 0
    for record in records:
        if (end is not None and record.offset >= end) or size >= max_bytes:
            break
        taken.append(record)
        size += len(record.value)
    return taken
