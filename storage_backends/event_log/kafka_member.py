"""Holds the clients of one member of a consumer group: aiokafka's consumer, and an admin client for positions.

aiokafka works in background tasks. If one of them ends or hangs, the member still sends heartbeats, so it keeps its
partitions but reads nothing. `find_failure` detects this, and the consumer then joins with new clients.
"""

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.end_task import close_within
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_identities import find_log_id
from storage_backends.event_log.kafka_positions import fetch_positions
from storage_backends.event_log.kafka_start import describe_failure, start_client
from storage_backends.event_log.kafka_topic_ids import TopicDescription, describe_topics
from storage_backends.event_log.kafka_topics import read_topics

_POLL_MS = 3_600_000
# Number of compressed bytes per partition that aiokafka fetches in advance.
_FETCH_BYTES = 2**20
_RESPONSE_SECONDS = 10.0
# Longer than the time that the brokers allow for a rebalance, which is the session timeout.
_REBALANCE_SECONDS = 60.0
# Seconds between two checks of the topic's ID. If the topic is missing once, it may be on a broker that is still
# starting.
_WATCH_SECONDS = 10.0
_MISSING_CHECKS = 2


@dataclass(slots=True)
class GroupMember:
    """A member of a consumer group. Made by `join_group`."""

    topic: str
    group: str
    log_id: str
    consumer: AIOKafkaConsumer
    admin: AIOKafkaAdminClient
    _topic_id: str | None
    _rebalancing_since: float | None = None
    _positions_missing_since: float | None = None
    _topic_checked_at: float = 0.0
    _missing_checks: int = 0

    async def read_positions(self, partitions: Collection[int]) -> dict[int, Position]:
        """Return the group's positions. Raises `StorageUnavailable`."""
        if not partitions:
            return {}
        try:
            async with asyncio.timeout(_RESPONSE_SECONDS):
                found = await fetch_positions(self.admin, self.group, self.topic, partitions, self.log_id)
        except (KafkaError, OSError, StorageUnavailable) as error:
            self._positions_missing_since = self._positions_missing_since or time.monotonic()
            if isinstance(error, StorageUnavailable):
                raise
            raise StorageUnavailable(f"The group's positions cannot be read: {error!r}") from error
        self._positions_missing_since = None
        return found

    async def find_failure(self) -> str | None:
        """Return why this member must be replaced, or None while it works. Raises `StorageUnavailable` for an error
        that aiokafka reports only when asked: until then, it does not take part in the group."""
        coordinator = self.consumer._coordinator
        for task in (
            coordinator._coordination_task,
            self.consumer._fetcher._fetch_task,
            self.consumer._client._sync_task,
            self.admin._client._sync_task,
        ):
            if task.done():
                return f"a task of its client has ended: {task!r}"
        for task in (coordinator._heartbeat_task, coordinator._commit_refresh_task):
            # Both tasks end without an exception when they are not needed. After an exception, aiokafka restarts
            # neither, and repeats the error at each read. A single heartbeat to which a starting coordinator responds
            # with error 14 is enough for this.
            if task is not None and task.done() and not task.cancelled() and task.exception():
                return f"a task of its client has failed: {task!r}"
        try:
            coordinator.check_errors()
        except KafkaError as error:
            raise StorageUnavailable(f"The consumer group {self.group} reports {error!r}") from error
        now = time.monotonic()
        if not self.consumer._subscription.reassignment_in_progress:
            self._rebalancing_since = None
        elif self._rebalancing_since is None:
            self._rebalancing_since = now
        for since, reason in (
            (self._rebalancing_since, "it waits for partitions"),
            (self._positions_missing_since, "its positions cannot be read"),
        ):
            if since is not None and now - since > _REBALANCE_SECONDS:
                return f"{reason} for {now - since:.0f} s"
        return await self._find_topic_change(now)

    def check_topic_soon(self) -> None:
        """Check the topic's ID at the next call of `find_failure`."""
        self._topic_checked_at = 0.0

    async def _find_topic_change(self, now: float) -> str | None:
        if now - self._topic_checked_at < _WATCH_SECONDS:
            return None
        self._topic_checked_at = now
        try:
            described = await describe_topics(self.admin._client, [self.topic], _RESPONSE_SECONDS)
        except StorageUnavailable:
            # Reads fail too in this case, and report the error.
            return None
        found: TopicDescription | None = described.get(self.topic)
        self._missing_checks = 0 if found else self._missing_checks + 1
        if found is None:
            return "the topic was deleted" if self._missing_checks >= _MISSING_CHECKS else None
        return None if found.topic_id == self._topic_id else "the topic was deleted and created again"

    async def close(self, seconds: float) -> None:
        """Leave the group, so that other members take over the partitions at once, and not after the session
        timeout."""
        await close_within(seconds, self.consumer.stop())
        # If the stop timed out, tasks still run: heartbeats would keep the partitions, and fetches would connect again
        # after the client is closed.
        coordinator = self.consumer._coordinator
        for task in (
            coordinator._heartbeat_task,
            coordinator._commit_refresh_task,
            coordinator._coordination_task,
        ):
            if task is not None:
                task.cancel()
        await close_within(1.0, self.consumer._fetcher.close())
        await close_within(1.0, self.consumer._client.close())
        await close_within(1.0, self.admin.close())


async def join_group(
    connection: KafkaConnection,
    group: str,
    topic: str,
    listener: ConsumerRebalanceListener,
    session_ms: int,
) -> GroupMember:
    """Connect and join the group. Raises `StorageUnavailable`, also for a topic that does not exist."""
    # Check this first: a missing topic must be reported. A broker that creates topics on demand must not create it.
    described = (await read_topics(connection, [topic]))[topic]
    log_id = await find_log_id(connection, topic, described.topic_id)
    if log_id is None:
        raise StorageUnavailable(f"The topic {topic} has no identity; run `pharos migrate`.")
    consumer = AIOKafkaConsumer(
        **connection.client_options(),
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=session_ms // 4,
        # While the column store is unavailable, nothing is read, but the member must stay in the group.
        max_poll_interval_ms=_POLL_MS,
        max_partition_fetch_bytes=_FETCH_BYTES,
    )
    admin = AIOKafkaAdminClient(
        **connection.client_options(), request_timeout_ms=int(1000 * _RESPONSE_SECONDS)
    )
    try:
        await start_client(admin.start, admin.close)
        try:
            await start_client(consumer.start, consumer.stop)
        except BaseException:
            await close_within(1.0, admin.close())
            raise
    except (KafkaError, OSError) as error:
        raise StorageUnavailable(await describe_failure(connection, error)) from error
    consumer.subscribe([topic], listener=listener)
    return GroupMember(
        topic, group, log_id, consumer, admin, described.topic_id, _topic_checked_at=time.monotonic()
    )
