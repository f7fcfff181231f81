"""The event log on Kafka, its writing side: one open batch a partition, all copies in sync, idempotent.

A batch stays open for more records until aiokafka takes it for a produce request. While the brokers work on one
request the next ones fill, so a batch carries as many records as came in meanwhile: under load a produce request
costs a fraction of an ingest request. `send()` per record costs up to 1.7 times the CPU (decisions/0041).
"""

import asyncio
import logging
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from pipeline_contracts.errors import LogFull, StorageUnavailable
from storage_backends.end_task import close_within, end_task
from storage_backends.event_log.kafka_batch import GrowingBatch, set_compression
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_start import start_client
from storage_backends.event_log.kafka_topic_ids import TopicDescription, describe_topics
from storage_backends.event_log.kafka_topics import read_topics

logger = logging.getLogger(__name__)

META_HEADER = "pharos"

# Bytes of records, before compression, that close a batch.
_BATCH_BYTES = 512 * 1024
# A batch waits so long for more records: an unnoticeable delay that halves the cost at full load.
_LINGER_MS = 5
_FIRST_PAUSE = 0.2
_MAX_PAUSE = 5.0
# A batch that waits longer than this makes the edge unready, before its requests time out.
_STALLED_SECONDS = 2.0
# Interval of the checks of the topics. A topic that is missing once may be on a broker that is still starting.
_WATCH_SECONDS = 10.0
_MISSING_CHECKS = 2


class _SharedFuture(asyncio.Future[None]):
    """A future that all appends to a batch await: a request that gives up must not cancel it for the others."""

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class _OpenBatch:
    """A batch that may still grow, and the future of its appends."""

    __slots__ = ("batch", "done", "size", "opened_at")

    def __init__(self, batch: GrowingBatch, done: _SharedFuture, opened_at: float) -> None:
        self.batch = batch
        self.done = done
        self.size = 0
        self.opened_at = opened_at


class KafkaEventLog:
    """Connects in the background, and again after faults; refuses appends meanwhile. Made by `open_kafka_log`."""

    def __init__(
        self, connection: KafkaConnection, topics: Sequence[str], buffer_bytes: int, timeout: float
    ) -> None:
        self._connection = connection
        self._topics = tuple(topics)
        self._buffer_bytes = buffer_bytes
        self._timeout = timeout
        set_compression()
        self._loop = asyncio.get_running_loop()
        self._producer: AIOKafkaProducer | None = None
        self._partitions: Mapping[str, int] = {}
        self._described: Mapping[str, TopicDescription] = {}
        self._open_batches: dict[tuple[str, int], _OpenBatch] = {}
        self._unacknowledged: dict[_OpenBatch, None] = {}
        self._buffered = 0
        # Number of batches that timed out but are still in aiokafka's queue, and the time of the last failed batch.
        self._late_batches = 0
        self._gave_up_at = -_STALLED_SECONDS
        self._tasks: set[asyncio.Task[None]] = set()
        # Tasks that close replaced producers, which may still deliver their batches.
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
        partition = zlib.crc32(key) % self._partitions[topic]
        target = (topic, partition)
        headers = [(META_HEADER, meta)]
        open_batch = self._open_batches.get(target)
        if (
            open_batch is None
            or open_batch.batch.append(timestamp=None, key=key, value=value, headers=headers) is None
        ):
            open_batch = self._open_batch(target, self._producer)
            open_batch.batch.append(timestamp=None, key=key, value=value, headers=headers)
        open_batch.size += size
        self._buffered += size
        return open_batch.done

    def stalled_reason(self) -> str | None:
        if self._producer is None:
            return self._unavailable_reason
        if self._buffered >= self._buffer_bytes:
            return "too much waits for the brokers"
        now = time.monotonic()
        oldest = next(iter(self._unacknowledged), None)
        is_overdue = oldest is not None and now - oldest.opened_at > _STALLED_SECONDS
        if is_overdue or self._late_batches or now - self._gave_up_at < _STALLED_SECONDS:
            return "the brokers do not acknowledge"
        return None

    def stored_bytes(self) -> int:
        """Return the bytes of records that wait for the brokers."""
        return self._buffered

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._unavailable_reason = "is closing"
        await end_task(self._watching)
        await end_task(self._connecting)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._timeout)
        for retiring in list(self._retiring):
            await end_task(retiring)
        if self._producer is not None:
            await close_within(1.0, self._producer.stop())
            self._producer = None

    def _open_batch(self, target: tuple[str, int], producer: AIOKafkaProducer) -> _OpenBatch:
        opened = _OpenBatch(GrowingBatch(_BATCH_BYTES), _SharedFuture(loop=self._loop), time.monotonic())
        self._open_batches[target] = opened
        self._unacknowledged[opened] = None
        task = self._loop.create_task(self._deliver(producer, target, opened))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return opened

    async def _deliver(self, producer: AIOKafkaProducer, target: tuple[str, int], sent: _OpenBatch) -> None:
        """Send the batch, wait for the brokers, and complete its appends."""
        topic, partition = target
        deadline = sent.opened_at + self._timeout
        failure: BaseException | None = None
        delivered: asyncio.Future[Any] | None = None
        try:
            async with asyncio.timeout_at(self._loop.time() + self._timeout):
                delivered = await producer.send_batch(sent.batch, topic, partition=partition)
        except Exception as error:
            # Any error must reach the appends that wait for the batch.
            failure = error
        # Close the batch after the wait: later appends would wait longer than the first ones, and open the next batch.
        if delivered is not None:
            await asyncio.wait({delivered}, timeout=max(0.1, deadline - time.monotonic()))
            failure = TimeoutError() if not delivered.done() else delivered.exception()
        sent.batch.close()
        if self._open_batches.get(target) is sent:
            del self._open_batches[target]
        self._unacknowledged.pop(sent)
        if failure is None:
            self._buffered -= sent.size
            sent.done.set_result(None)
            return
        logger.warning(
            "%s/%d: %d records are not acknowledged: %r",
            topic,
            partition,
            sent.batch.record_count(),
            failure,
        )
        sent.done.set_exception(StorageUnavailable("The brokers do not acknowledge."))
        # Marks the exception as retrieved: no task may wait any more, and the failure is logged above.
        sent.done.exception()
        self._gave_up_at = time.monotonic()
        if delivered is not None and not delivered.done():
            # The batch stays in aiokafka's queue until the brokers are back, and counts as buffered until then.
            self._late_batches += 1
            delivered.add_done_callback(lambda late: self._release(late, sent.size))
            return
        self._buffered -= sent.size
        if isinstance(failure, KafkaError) and not failure.retriable:
            # The brokers saw a gap in this producer's sequence numbers, or aiokafka has given up: connect again.
            self._reconnect(producer, f"lost the brokers ({type(failure).__name__})")

    def _release(self, late: "asyncio.Future[Any]", size: int) -> None:
        self._buffered -= size
        self._late_batches -= 1
        if not late.cancelled():
            late.exception()

    async def _watch(self) -> None:
        """Watch for topics that are recreated or deleted, and connect again if the topics have changed."""
        missing = 0
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if (producer := self._producer) is None:
                continue
            try:
                described = await describe_topics(producer.client, self._topics, self._timeout)
            except StorageUnavailable:
                continue
            missing = 0 if len(described) == len(self._described) else missing + 1
            changed = [topic for topic in described if described[topic] != self._described.get(topic)]
            if changed or missing >= _MISSING_CHECKS:
                missing = 0
                affected = changed or [topic for topic in self._topics if topic not in described]
                logger.error(
                    "Kafka: the topic %s was recreated or deleted by hand. Connecting again; run `pharos migrate` to "
                    "make topics with the right settings.",
                    affected[0],
                )
                self._reconnect(producer, "connects again because its topics changed")

    def _reconnect(self, failed: AIOKafkaProducer, reason: str) -> None:
        if self._producer is None or self._producer is not failed or self._closing:
            return
        self._producer = None
        self._unavailable_reason = reason
        # New records must not join batches that the old producer may never deliver.
        self._open_batches.clear()
        # In the background: closing waits for batches whose partition may be gone, and other topics must not wait.
        retiring = self._loop.create_task(
            close_within(self._timeout, failed.stop()), name="old kafka producer"
        )
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)
        self._connecting = self._loop.create_task(self._connect(), name="kafka producer")

    async def _connect(self) -> None:
        """Retry until a producer is connected."""
        pause = _FIRST_PAUSE
        while True:
            try:
                producer = await self._new_producer()
            except (KafkaError, StorageUnavailable, OSError, TimeoutError, ValueError) as error:
                self._unavailable_reason = f"cannot be reached ({error})"
                logger.warning("Kafka: %s; retrying in %.1f s", error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)
            else:
                self._producer = producer
                return

    async def _new_producer(self) -> AIOKafkaProducer:
        described = await read_topics(self._connection, self._topics)
        producer = AIOKafkaProducer(
            **self._connection.client_options(),
            acks="all",
            enable_idempotence=True,
            compression_type=None,
            linger_ms=_LINGER_MS,
            request_timeout_ms=int(self._timeout * 1000),
        )
        await start_client(producer.start, producer.stop, self._timeout)
        self._described = described
        self._partitions = {topic: found.partitions for topic, found in described.items()}
        return producer


async def open_kafka_log(
    connection: KafkaConnection, topics: Sequence[str], *, buffer_bytes: int, acknowledge_seconds: float
) -> KafkaEventLog:
    """Return the log of a cluster. If the cluster is unavailable, connection attempts continue until `close`.

    `buffer_bytes`: bytes of records that may wait for the brokers. `acknowledge_seconds`: timeout of an append.
    """
    return KafkaEventLog(connection, topics, buffer_bytes, acknowledge_seconds)
