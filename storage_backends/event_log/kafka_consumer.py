"""The event log on Kafka, its reading side: a member of a consumer group.

The position of a partition and the plan of the chunk in work are one commit: the offset is where the chunk begins,
the commit's metadata is where it ends. A commit only counts for the assignment in which the partition was claimed:
the brokers themselves would take one from any member of the present generation.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalStateError,
    KafkaError,
    UnknownMemberIdError,
)

from pipeline_contracts.errors import PartitionLost, RecordsGone, StorageUnavailable
from pipeline_contracts.records import LogRecord, Position
from storage_backends.end_task import close_within
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_start import start_client
from storage_backends.event_log.kafka_topics import partition_counts, read_identities

logger = logging.getLogger(__name__)

_ASK_SECONDS = 5.0
_COMMIT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_POLL_MS = 3_600_000
_FETCH_BYTES = 2**20


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
        self._consumer: AIOKafkaConsumer | None = None
        self._admin: AIOKafkaAdminClient | None = None
        # Counts assignments. What was claimed in an earlier one is lost, also if the partition came back.
        self._assignment = 0
        self._claimed = -1
        self._positions: dict[int, Position] = {}
        self._next: dict[int, int] = {}
        self._held: dict[int, list[LogRecord]] = {}
        self._commits: set[asyncio.Task[None]] = set()

    @property
    def log_id(self) -> str:
        assert self._log_id is not None, "known from the first claim on"
        return self._log_id

    async def claim(self) -> dict[int, Position]:
        consumer = self._consumer
        if consumer is None:
            consumer = await self._connect()
        assigned = frozenset(p.partition for p in consumer.assignment())
        if self._claimed == self._assignment and assigned == self._positions.keys():
            return dict(self._positions)
        had_some = bool(self._positions)
        self._claimed = -1
        self._positions.clear()
        self._next.clear()
        self._held.clear()
        if had_some:
            raise PartitionLost(f"{self._topic}: the partitions were handed out anew")
        before = self._assignment
        positions = await self._read_positions(assigned)
        if before != self._assignment:
            return {}
        self._positions = positions
        self._claimed = before
        return dict(positions)

    async def read(
        self, partition: int, start: int, end: int | None, max_bytes: int, wait: float
    ) -> list[LogRecord]:
        consumer = self._mine(partition)
        held = [record for record in self._held.pop(partition, ()) if record.offset >= start]
        if held and held[0].offset == start:
            records = held
        else:
            records = await self._fetch(consumer, partition, start, wait)
            # The partition may have gone while this waited.
            self._mine(partition)
        taken = _up_to(records, end, max_bytes)
        # What the caller does not take in the end is asked for again: it need not come over the network twice.
        self._held[partition] = records
        return taken

    async def _fetch(
        self, consumer: AIOKafkaConsumer, partition: int, start: int, wait: float
    ) -> list[LogRecord]:
        place = TopicPartition(self._topic, partition)
        try:
            if self._next.get(partition) != start:
                consumer.seek(place, start)
            fetched = await consumer.getmany(place, timeout_ms=int(wait * 1000))
        except IllegalStateError as error:
            raise PartitionLost(str(error)) from error
        except (KafkaError, ConsumerStoppedError) as error:
            raise StorageUnavailable(f"The event log cannot be read: {error!r}") from error
        records = [_record(found) for found in fetched.get(place, ())]
        if not records:
            self._next[partition] = start
            return records
        first = records[0].offset
        if first < start:
            self._next.pop(partition, None)
            raise StorageUnavailable(
                f"{self._topic}/{partition} is shorter than what was read of it: {start} was asked for and {first} "
                "is what it begins with. Was the topic made anew? `pharos migrate` gives it a new identity."
            )
        self._next[partition] = records[-1].offset + 1
        if first > start:
            self._held[partition] = records
            raise RecordsGone(partition, start, first)
        return records

    async def commit(self, partition: int, position: Position) -> None:
        consumer = self._mine(partition)
        end = "" if position.plan_end is None else str(position.plan_end)
        offsets = {TopicPartition(self._topic, partition): OffsetAndMetadata(position.next_offset, end)}
        # A task, so that a rebalance can end it: tried again in the next generation it would count there.
        task = asyncio.create_task(consumer.commit(offsets))
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
                ends: dict[TopicPartition, int] = await self._mine(partition).end_offsets([place])
        except (KafkaError, ConsumerStoppedError, TimeoutError) as error:
            raise StorageUnavailable(f"The event log cannot be asked: {error!r}") from error
        self._mine(partition)
        return ends[place]

    async def backlog(self) -> int:
        consumer = self._consumer
        if consumer is None or not self._positions:
            return 0
        try:
            ends = await consumer.end_offsets([TopicPartition(self._topic, p) for p in self._positions])
        except (KafkaError, ConsumerStoppedError) as error:
            raise StorageUnavailable(f"The event log cannot be read: {error!r}") from error
        return sum(
            max(0, end - self._positions[place.partition].next_offset)
            for place, end in ends.items()
            if place.partition in self._positions
        )

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        admin, self._admin = self._admin, None
        self._lose()
        if consumer is not None:
            # It leaves the group: the others take over at once, not when the session runs out.
            await close_within(_CLOSE_SECONDS, consumer.stop())
        if admin is not None:
            await close_within(1.0, admin.close())

    def _mine(self, partition: int) -> AIOKafkaConsumer:
        if self._consumer is None or self._claimed != self._assignment or partition not in self._positions:
            raise PartitionLost(f"{self._topic}/{partition} is not claimed")
        return self._consumer

    def _lose(self) -> None:
        self._assignment += 1
        for task in self._commits:
            task.cancel()

    async def _connect(self) -> AIOKafkaConsumer:
        # Their absence is told as what it is, and never mended by a broker that makes topics on demand.
        await partition_counts(self._connection, [self._topic])
        identity = (await read_identities(self._connection)).get(self._topic)
        if identity is None:
            raise StorageUnavailable(f"The topic {self._topic} has no identity; run `pharos migrate`.")
        self._log_id = identity
        consumer = AIOKafkaConsumer(
            **self._connection.client_options(),
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=self._session_ms,
            heartbeat_interval_ms=self._session_ms // 4,
            # While the column store is away nothing is read, and that is no reason to leave the group.
            max_poll_interval_ms=_POLL_MS,
            max_partition_fetch_bytes=_FETCH_BYTES,
            max_poll_records=100_000,
        )
        admin = AIOKafkaAdminClient(**self._connection.client_options(), request_timeout_ms=10_000)
        try:
            await start_client(admin.start, admin.close)
            try:
                await start_client(consumer.start, consumer.stop)
            except BaseException:
                await close_within(1.0, admin.close())
                raise
        except (KafkaError, OSError) as error:
            raise StorageUnavailable(f"Kafka at {self._connection.bootstrap}: {error!r}") from error
        consumer.subscribe([self._topic], listener=_Listener(self))
        self._consumer, self._admin = consumer, admin
        return consumer

    async def _read_positions(self, partitions: Collection[int]) -> dict[int, Position]:
        """What is written down for these partitions: offset and metadata, which the consumer itself does not
        give."""
        if not partitions:
            return {}
        assert self._admin is not None
        places = [TopicPartition(self._topic, partition) for partition in sorted(partitions)]
        try:
            found = await self._admin.list_consumer_group_offsets(self._group, partitions=places)
        except (KafkaError, OSError) as error:
            raise StorageUnavailable(f"The group's positions cannot be read: {error!r}") from error
        return {place.partition: _position(found.get(place)) for place in places}


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Told by aiokafka before it joins the group again, and after."""

    def __init__(self, consumer: KafkaLogConsumer) -> None:
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._consumer._lose()

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._consumer._lose()


def _position(found: OffsetAndMetadata | None) -> Position:
    if found is None or found.offset < 0:
        return Position(0)
    return Position(found.offset, int(found.metadata) if found.metadata else None)


def _record(found: Any) -> LogRecord:
    meta = found.headers[0][1] if found.headers else b""
    return LogRecord(found.offset, found.key or b"", meta, found.value or b"")


def _up_to(records: Sequence[LogRecord], end: int | None, max_bytes: int) -> list[LogRecord]:
    taken: list[LogRecord] = []
    size = 0
    for record in records:
        if (end is not None and record.offset >= end) or size >= max_bytes:
            break
        taken.append(record)
        size += len(record.value)
    return taken
