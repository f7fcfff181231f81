"""Appends records to the event log on Kafka. Each partition has one open batch. Sending a batch is idempotent, and all
in-sync replicas acknowledge it.

A batch stays open for more records until it is sent. While the brokers process one request, the next batches fill with
the records that arrive meanwhile: under load a produce request costs a fraction of an ingest request.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial

from aiokafka.errors import InvalidTimestampError, KafkaError, TopicAuthorizationFailedError

from pipeline_contracts.errors import LogFull, RecordTooLarge, StorageUnavailable
from storage_backends.end_task import end_task
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_producer import TOO_LARGE, KafkaProducer, PendingBatch
from storage_backends.event_log.kafka_start import start_client
from storage_backends.event_log.kafka_targets import Targets
from storage_backends.event_log.kafka_topic_ids import TopicDescription, describe_topics
from storage_backends.event_log.kafka_topics import read_topics

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.2
_MAX_PAUSE = 5.0
# If a batch waits longer than this, the edge reports that it is not ready. Its requests would time out later.
_STALLED_SECONDS = 2.0
# Seconds between two checks of the topics. If a topic is missing once, it may be on a broker that is still starting.
_WATCH_SECONDS = 10.0
_MISSING_CHECKS = 2
# Errors that the brokers keep returning until the operator fixes the cause.
_REFUSALS = (
    (TopicAuthorizationFailedError, "the brokers do not let this user write to the topic: check its ACLs"),
    (InvalidTimestampError, "the brokers refuse the time of the records: check this machine's clock"),
)
_NOT_ACKNOWLEDGED = "the brokers do not acknowledge"


class KafkaEventLog:
    """An `EventLog` on Kafka. It connects in the background, and again after faults. Until it is connected, it refuses
    appends. Made by `open_kafka_log`."""

    def __init__(
        self, connection: KafkaConnection, topics: Sequence[str], buffer_bytes: int, timeout: float
    ) -> None:
        self._connection = connection
        self._topics = tuple(topics)
        self._buffer_bytes = buffer_bytes
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._producer: KafkaProducer | None = None
        self._described: Mapping[str, TopicDescription] = {}
        self._targets = Targets({})
        # Batches with appends that wait for acknowledgement, the oldest first.
        self._unacknowledged: dict[PendingBatch, None] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._buffered = 0
        # Number of batches that timed out but may still be stored, and the time at which the last batch failed.
        self._late_batches = 0
        self._gave_up_at = -_STALLED_SECONDS
        self._gave_up_because = _NOT_ACKNOWLEDGED
        # Tasks that close replaced producers. Such a producer may still deliver its batches.
        self._retiring: set[asyncio.Task[None]] = set()
        self._closing = False
        self._unavailable_reason = "is not connected to the brokers yet"
        self._connecting = self._loop.create_task(self._connect(), name="kafka producer")
        self._watching = self._loop.create_task(self._watch(), name="kafka topics")

    def append(self, topic: str, key: bytes, meta: bytes, value: bytes) -> "asyncio.Future[None]":
        if self._producer is None or self._closing:
            raise StorageUnavailable(f"The event log {self._unavailable_reason}.")
        size = len(value) + len(meta) + len(key) + 64
        if self._buffered + size > self._buffer_bytes and self._buffered:
            raise LogFull("Too much waits for the brokers.")
        target = self._targets.choose(self._producer, topic, key)
        batch = self._producer.append(target, key, meta, value)
        if not key:
            self._targets.note_newest(topic, batch)
        if not batch.size:
            self._unacknowledged[batch] = None
            if self._expiry is None:
                self._expiry = self._loop.call_later(self._timeout, self._expire)
        batch.size += size
        self._buffered += size
        return batch.done

    def stalled_reason(self) -> str | None:
        if self._producer is None:
            return self._unavailable_reason
        if self._buffered >= self._buffer_bytes:
            return "too much waits for the brokers"
        now = time.monotonic()
        oldest = next(iter(self._unacknowledged), None)
        is_overdue = oldest is not None and now - oldest.opened_at > _STALLED_SECONDS
        if is_overdue or self._late_batches:
            return _NOT_ACKNOWLEDGED
        if now - self._gave_up_at < _STALLED_SECONDS:
            return self._gave_up_because
        return None

    def stored_bytes(self) -> int:
        """Return the bytes of the records that wait for the brokers."""
        return self._buffered

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._unavailable_reason = "is closing"
        await end_task(self._watching)
        await end_task(self._connecting)
        await self._wait_acknowledged()
        for retiring in list(self._retiring):
            await end_task(retiring)
        if self._producer is not None:
            await self._producer.close()
            self._producer = None
        if self._expiry is not None:
            self._expiry.cancel()

    async def _wait_acknowledged(self) -> None:
        """Wait until each batch that waits now is acknowledged or given up."""
        if waiting := [batch.done for batch in self._unacknowledged]:
            await asyncio.wait(waiting, timeout=self._timeout)

    async def _retire(self, producer: KafkaProducer) -> None:
        """Close a producer that accepts no more records, after its batches are delivered or given up."""
        try:
            await self._wait_acknowledged()
        finally:
            await producer.close()

    def _finish(self, producer: KafkaProducer, batch: PendingBatch, failure: Exception | None) -> None:
        """Complete the appends of a batch that has left the producer."""
        self._buffered -= batch.size
        if batch.done.done():
            self._late_batches -= 1
        else:
            del self._unacknowledged[batch]
            if failure is None:
                batch.done.set_result(None)
            else:
                self._give_up(batch, failure)
        if producer.failure is not None:
            self._reconnect(producer, f"lost the brokers ({producer.failure})")

    def _expire(self) -> None:
        """Give up the appends that have waited for the whole timeout."""
        self._expiry = None
        until = time.monotonic() - self._timeout
        for batch in list(self._unacknowledged):
            if batch.opened_at > until:
                self._expiry = self._loop.call_later(batch.opened_at - until, self._expire)
                return
            del self._unacknowledged[batch]
            self._give_up(batch, TimeoutError())
            if batch.withdraw():
                self._buffered -= batch.size
            else:
                # The batch counts as buffered until the brokers are back.
                self._late_batches += 1

    def _give_up(self, batch: PendingBatch, failure: Exception) -> None:
        topic, partition = batch.target
        count = batch.records.count
        reason = next((text for kind, text in _REFUSALS if isinstance(failure, kind)), _NOT_ACKNOWLEDGED)
        logger.warning(
            "%s/%d: %d records are not acknowledged: %s (%r)", topic, partition, count, reason, failure
        )
        if isinstance(failure, TOO_LARGE) and count == 1:
            refusal: StorageUnavailable = RecordTooLarge("The brokers refuse a record of this size.")
        else:
            refusal = StorageUnavailable("The brokers do not acknowledge.")
            self._gave_up_at, self._gave_up_because = time.monotonic(), reason
        batch.done.set_exception(refusal)
        # This marks the exception as retrieved. No task may wait for it any more, and the failure was logged above.
        batch.done.exception()

    async def _watch(self) -> None:
        """Watch for topics that are recreated or deleted, and connect again if the topics have changed."""
        missing = 0
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                missing = await self._look_at_topics(missing)
            except StorageUnavailable:
                continue
            except Exception:
                # uvloop raises `RuntimeError` for a connection that was just lost.
                logger.exception("the topics could not be checked")

    async def _look_at_topics(self, missing: int) -> int:
        """Connect again if the topics have changed. `missing`: how many times in a row a topic was missing. Return the
        new number. Raises `StorageUnavailable`."""
        if (producer := self._producer) is None:
            return missing
        if (failure := producer.find_failure()) is not None:
            self._reconnect(producer, f"connects again because {failure}")
            return missing
        described = await describe_topics(producer.client, self._topics, self._timeout)
        missing = 0 if len(described) == len(self._described) else missing + 1
        changed = [topic for topic in described if described[topic] != self._described.get(topic)]
        if changed or missing >= _MISSING_CHECKS:
            self._explain_change(described, changed)
            self._reconnect(producer, "connects again because its topics changed")
            return 0
        return missing

    def _explain_change(self, described: Mapping[str, TopicDescription], changed: Sequence[str]) -> None:
        before = [self._described.get(topic) for topic in changed]
        ids = [None if known is None else known.topic_id for known in before]
        if changed and ids == [described[topic].topic_id for topic in changed]:
            count = described[changed[0]].partitions
            logger.warning("Kafka: the topic %s has %d partitions now. Connecting again.", changed[0], count)
            return
        affected = changed or [topic for topic in self._topics if topic not in described]
        logger.error(
            "Kafka: the topic %s was recreated or deleted by hand. Connecting again; run `pharos migrate` to "
            "make topics with the right settings.",
            affected[0],
        )

    def _reconnect(self, failed: KafkaProducer, reason: str) -> None:
        if self._producer is None or self._producer is not failed or self._closing:
            return
        self._producer = None
        self._unavailable_reason = reason
        # Run this in the background: it waits for batches whose partition may no longer exist, and other topics must
        # not wait for them.
        retiring = self._loop.create_task(self._retire(failed), name="old kafka producer")
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)
        self._connecting = self._loop.create_task(self._connect(), name="kafka producer")

    async def _connect(self) -> None:
        """Try to connect a producer until this succeeds."""
        pause = _FIRST_PAUSE
        while True:
            try:
                producer = await self._new_producer()
            except Exception as error:
                # aiokafka also raises errors of other kinds, such as for brokers of unknown versions.
                reason = str(error) or type(error).__name__
                self._unavailable_reason = f"cannot be reached ({reason})"
                is_usual = isinstance(
                    error, KafkaError | StorageUnavailable | OSError | TimeoutError | ValueError
                )
                logger.warning("Kafka: %s; retrying in %.1f s", reason, pause, exc_info=not is_usual)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)
            else:
                self._producer = producer
                return

    async def _new_producer(self) -> KafkaProducer:
        described = await read_topics(self._connection, self._topics)
        producer = KafkaProducer(self._connection, self._timeout, self._finish)
        await start_client(partial(producer.start, self._topics), producer.close, self._timeout)
        self._described = described
        self._targets = Targets(described)
        return producer


async def open_kafka_log(
    connection: KafkaConnection, topics: Sequence[str], *, buffer_bytes: int, acknowledge_seconds: float
) -> KafkaEventLog:
    """Return the event log on a Kafka cluster. While the cluster is unavailable, the log tries to connect until
    `close`.

    `buffer_bytes`: bytes of records that may wait for the brokers. `acknowledge_seconds`: timeout of an append.
    """
    return KafkaEventLog(connection, topics, buffer_bytes, acknowledge_seconds)
